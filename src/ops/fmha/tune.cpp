// Choosing tile and walk of attention by measurement: problems, their variants, their tensors; see tunable.hpp.
//
// Decides which sizes and kernels a command line names, and which tiles and walks are measured. Walks are not predicted
// apart: they differ by how tiles come out even. Invariant: a problem that was written down as fields and read back is
// the same problem, or none.
#include <algorithm>
#include <utility>

#include "ops/common/tensor_checks.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/tunable.hpp"
#include "ops/fmha/family.hpp"
#include "ops/fmha/fields.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/mask.hpp"
#include "ops/fmha/scores.hpp"
#include "ops/fmha/sequences.hpp"
#include "ops/fmha/tiles.hpp"
#include "ops/fmha/validate.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;
using Fields = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kSizeNames[] = {"batch", "heads", "kv-heads", "seq-q", "seq-k"};

/// Takes the sizes out of the flags.
Sizes take_sizes(Flags& flags) {
  Sizes sizes("fmha", flags, {{"batch", 1}, {"heads", 1}, {"kv-heads", 0}, {"seq-q", 0}, {"seq-k", 0}});
  if (!sizes.given("seq-q"))
    fail(Stage::argument, Code::invalid_argument, "--seq-q is missing; tiles and walks are measured for sizes");
  sizes.set_default("kv-heads", sizes.at("heads"));
  sizes.set_default("seq-k", sizes.at("seq-q"));
  return sizes;
}
Sizes sizes_of(const Problem& problem) {
  Flags flags = size_flags_of(problem, kSizeNames);
  return take_sizes(flags);
}
FmhaKernel kernel_of(const Problem& problem) {
  Request request;
  request.fields = problem.fields;
  FmhaKernel kernel = kernel_of_fields<kFmhaFields, FmhaKernel>(request);
  read_mods(kernel, request.fields);
  return kernel;
}

Problem make_problem(const FmhaKernel& kernel, const Sizes& sizes) {
  Request request = fmha_request(kernel);
  Problem problem{std::move(request.fields), std::move(request.name)};
  for (const char* name : kSizeNames) problem.fields.emplace_back(name, cat(sizes.at(name)));
  problem.name += cat(" ", sizes.at("batch"), "x", sizes.at("heads"), "/", sizes.at("kv-heads"), " ", sizes.at("seq-q"),
                      "x", sizes.at("seq-k"));
  problem.flops =
      2.0 * static_cast<double>(sizes.at("batch") * sizes.at("heads") * (kernel.head_dim + fmha_value_dim(kernel))) *
      visible_keys(mask_of(kernel, sizes.at("seq-q"), sizes.at("seq-k")));
  return problem;
}

FmhaArgs args_of(const Problem& problem, Device device, std::span<void* const> places) {
  const FmhaKernel kernel = kernel_of(problem);
  const std::vector<Operand> operands = fmha_tunable().operands(problem);
  const auto tensor = [&](std::size_t i) { return operands[i].view(device, places[i]); };
  FmhaArgs args;
  args.q = tensor(0), args.k = tensor(1), args.v = tensor(2), args.o = tensor(3);
  set_mask(args, kernel);
  set_scores(args, kernel, true);
  std::size_t next = 4;
  if (kernel.alibi) args.alibi_slopes = tensor(next++);
  if (kernel.sinks) args.sinks = tensor(next++);
  return args;
}

class FmhaTunable final : public Tunable {
 public:
  ProblemKey key_of(const Problem& problem) const override {
    const Sizes sizes = sizes_of(problem);
    return fmha_problem_key(kernel_of(problem), {sizes.at("batch"), sizes.at("heads"), sizes.at("kv-heads"),
                                                 sizes.at("seq-q"), sizes.at("seq-k")});
  }

  std::vector<Variant> variants(const Problem& problem, const arch::Arch& arch) const override {
    const ProblemKey key = key_of(problem);
    const FmhaKernel kernel = kernel_of(problem);
    const graph::Walk usual = fmha_candidates(kernel, arch).front().graph.walk;
    std::vector<Variant> list;
    const auto add = [&](int tile, WalkChoice walk) {
      const std::string word = kWalkWords[static_cast<std::size_t>(walk)];
      list.push_back({fmha_op().kernel_of(key, FmhaChoice{kNoFmhaRung, walk, tile}.number()),
                      tile == kUsualFmhaTile ? word : cat(fmha_tile_words()[static_cast<std::size_t>(tile)], " ", word),
                      fmha_tile_cycles(kernel, fmha_sizes(key), 0, tile, arch)});
    };
    for (const int tile : taken_fmha_tiles(kernel, arch)) {
      add(tile, WalkChoice::usual);
      if (usual == graph::Walk::one_tile && arch.shared_barriers) add(tile, WalkChoice::persistent);
      add(tile, WalkChoice::dynamic);
    }
    const Kernel taken = fmha_op().choose(key, arch);  // first what calls take
    const auto first = std::find_if(list.begin(), list.end(), [&](const Variant& v) { return v.kernel == taken; });
    std::rotate(list.begin(), first, first + 1);
    return list;
  }

  Problem problem_of(const void* args) const override {
    const auto& of = *static_cast<const FmhaArgs*>(args);
    if (of.max_sms != 0)
      fail(Stage::argument, Code::unsupported,
           cat("fmha: max_sms is ", of.max_sms, "; allowed in tuning: 0, as calls with a limit have one kernel"));
    if (has_sequences(of))
      fail(Stage::argument, Code::unsupported,
           "fmha: cu_seqlens_q is given; allowed in tuning: tensors [B, H, S, D], as lengths change from call to call");
    if (has_mods(of) || of.bias)
      fail(Stage::argument, Code::unsupported,
           cat("fmha: ", of.bias ? "bias" : "a text such as mask_mod",
               " is given; allowed in tuning: calls without, as what it costs is the user's"));
    if (of.o.dtype == DType::f32)
      fail(Stage::argument, Code::unsupported, "fmha: o.dtype is f32; allowed in tuning: q.dtype");
    const FmhaSizes sizes = fmha_sizes(of);
    if (sizes.keys == 0)
      fail(Stage::argument, Code::invalid_argument, "fmha: k.shape[2] (Sk) is 0; allowed in tuning: 1 and up");
    Flags flags;
    const std::int64_t values[] = {sizes.batch, sizes.heads, sizes.kv_heads, sizes.queries, sizes.keys};
    for (std::size_t i = 0; i < std::size(kSizeNames); ++i) flags[kSizeNames[i]] = {cat(values[i])};
    return make_problem(fmha_kernel(of), take_sizes(flags));
  }

  std::span<const char* const> size_flags() const override {
    static constexpr const char* kFlags[] = {"seq-q"};
    return kFlags;
  }
  std::vector<Problem> problems(const Flags& flags) const override {
    for (const auto& [name, what] : {std::pair("walk", "it is what is measured"),
                                     {"tile", "it is what is measured"},
                                     {"rung", "a rung is one kernel"},
                                     {"ranges", "kernels with the usual one are measured"},
                                     {"pieces", "kernels without are measured"},
                                     {"varlen", "lengths change from call to call"},
                                     {"page-size", "lengths change from call to call"},
                                     {"packed", "its parts are predicted"},
                                     {"bias", "what it costs is the user's"},
                                     {kScoreModField, "what it costs is the user's"},
                                     {kMaskModField, "what it costs is the user's"},
                                     {kKeyRangeField, "what it costs is the user's"},
                                     {"out", "results of q's type are measured"}})
      if (flags.count(name) > 0)
        fail(Stage::argument, Code::invalid_argument, cat("--", name, " is given; ", what, ": leave it out"));
    Flags kinds = flags;
    const Sizes sizes = take_sizes(kinds);
    std::vector<Problem> list;
    for (const Request& request : fmha_op().requests(kinds)) {
      list.push_back(make_problem(kernel_of_fields<kFmhaFields, FmhaKernel>(request), sizes));
      check(list.back());
    }
    return list;
  }

  std::optional<Problem> problem_of(const Fields& fields) const override {
    return problem_of_fields(fields, [](const Problem& given) -> std::optional<Problem> {
      const FmhaKernel kernel = kernel_of(given);
      Problem problem = make_problem(kernel, sizes_of(given));
      check(problem);
      const bool chosen = kernel.tile != kUsualFmhaTile || kernel.walk != WalkChoice::usual ||
                          kernel.rung != kNoFmhaRung || kernel.ranges != RangesChoice::usual || kernel.pieces != 0 ||
                          kernel.varlen || kernel.packed || kernel.out_f32 || has_mods(kernel) || has_bias(kernel);
      return chosen ? std::nullopt : std::optional(std::move(problem));
    });
  }

  std::vector<Operand> operands(const Problem& problem) const override {
    const FmhaKernel kernel = kernel_of(problem);
    const Sizes sizes = sizes_of(problem);
    const auto rows = [&](const char* heads, const char* length, int width) {
      return dense("", kernel.dtype, {sizes.at("batch"), sizes.at(heads), sizes.at(length), width}).operand;
    };
    const int width = kernel.head_dim, values = fmha_value_dim(kernel);
    std::vector<Operand> list = {rows("heads", "seq-q", width), rows("kv-heads", "seq-k", width),
                                 rows("kv-heads", "seq-k", values), rows("heads", "seq-q", values)};
    const Operand heads = dense("", DType::f32, {sizes.at("heads")}).operand;
    list.resize(list.size() + std::size_t{kernel.alibi} + std::size_t{kernel.sinks}, heads);
    return list;
  }

  void with_args(const Problem& problem, Device device, std::span<void* const> places,
                 const std::function<void(const void*)>& use) const override {
    const FmhaArgs args = args_of(problem, device, places);
    use(&args);
  }

 private:
  /// Throws for what no attention is. Where tensors lie is made up; nothing looks there.
  static void check(const Problem& problem) {
    void* places[6];
    for (std::size_t i = 0; i < std::size(places); ++i) places[i] = reinterpret_cast<void*>((i + 1) << 44);
    validate(args_of(problem, {DeviceKind::cuda, 0}, places), false);
  }
};

}  // namespace

const Tunable& fmha_tunable() {
  static constinit support::Lasting<const FmhaTunable> tunable;
  return tunable.get();
}

FmhaSizes fmha_sizes(const FmhaArgs& args) {
  if (!has_sequences(args))
    return {args.q.shape[0], args.q.shape[1], args.k.shape[1], args.q.shape[2], args.k.shape[2]};
  // Lengths are not known here: rows of all sequences, and a block of them more for each.
  const auto heads = static_cast<std::size_t>(args.k.rank - 2);
  const std::int64_t keys = args.block_table ? args.block_table->shape[1] * args.k.shape[1] : args.k.shape[0];
  return {1,
          args.q.shape[1],
          args.k.shape[heads],
          args.q.shape[0],
          std::min(keys, std::int64_t{kMaxSize}),
          fmha_sequences(args)};
}

ProblemKey fmha_problem_key(const FmhaKernel& kernel, const FmhaSizes& sizes) {
  return {fmha_small_key(kernel),
          {sizes.sequences << 32 | sizes.batch, sizes.heads << 32 | sizes.kv_heads, sizes.queries, sizes.keys}};
}

FmhaSizes fmha_sizes(const ProblemKey& problem) {
  const auto [batch, heads, queries, keys, limit] = problem.sizes;
  return {batch & 0xffffffff, heads >> 32, heads & 0xffffffff, queries, keys, batch >> 32};
}

}  // namespace tj::ops
