// Requests of fmha; see fmha.hpp.
#include "ops/fmha/fmha.hpp"

#include <algorithm>
#include <array>

#include "arch/options.hpp"
#include "ops/common/choice_shelf.hpp"
#include "ops/common/described.hpp"
#include "ops/common/empty.hpp"
#include "ops/common/op_flags.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/workloads.hpp"
#include "ops/fmha/family.hpp"
#include "ops/fmha/fields.hpp"
#include "ops/fmha/mask.hpp"
#include "ops/fmha/mods.hpp"
#include "ops/fmha/parts.hpp"
#include "ops/fmha/rungs.hpp"
#include "ops/fmha/scores.hpp"
#include "ops/fmha/sequences.hpp"
#include "ops/fmha/trials.hpp"
#include "ops/fmha/validate.hpp"
#include "ops/merge_states/merge_states.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;

constexpr FmhaSizes kManyTiles = {1 << 10, 1 << 10, 1 << 10, 1 << 10, 1 << 10};  // of a call that fills any device
constexpr std::size_t kLimit = 4;  // the place of max_sms in a problem's key; no walk is measured for one

FmhaChoice made_choice(const ProblemKey& problem, const arch::Arch& arch) {
  const auto kernel = kernel_of_key<kFmhaFields, FmhaKernel>(problem.kind);
  if (const int parts = choose_fmha_parts(kernel, fmha_sizes(problem), problem.sizes[kLimit], arch); parts != 0)
    return {.parts = parts};
  FmhaChoice choice{.tile = choose_fmha_tile(kernel, fmha_sizes(problem), problem.sizes[kLimit], arch)};
  if (problem.sizes[kLimit] != 0)
    choice.walk = fmha_limited_walk(kernel, arch);
  else if (fmha_draws(problem, arch))
    choice.walk = WalkChoice::dynamic;
  return choice;
}

FmhaKernel config_of(const Request& request) {
  FmhaKernel kernel = kernel_of_fields<kFmhaFields, FmhaKernel>(request);
  read_mods(kernel, request.fields);
  return kernel;
}

/// The kernels of a command line, by these choices of each field.
std::vector<FmhaKernel> kernels_of(const Flags& flags, const std::vector<FlagChoice>& choices) {
  Flags fields = flags;
  const FmhaConfig mods = take_mods(fields);
  std::vector<FmhaKernel> kernels = kernels_of_flags<kFmhaFields, FmhaKernel>("fmha", fields, choices);
  for (FmhaKernel& kernel : kernels)
    kernel.score_mod = mods.score_mod, kernel.mask_mod = mods.mask_mod, kernel.key_range = mods.key_range;
  return kernels;
}

/// The kernels of a command line, with one value for a field that it leaves out.
std::vector<FmhaKernel> usual_kernels(const Flags& flags) {
  return kernels_of(flags, first_of_each(choices_of_fields<kFmhaFields>()));
}

/// Rows of the tile that is tried first.
std::int64_t rows_per_block(const FmhaKernel& config, const arch::Arch& arch) {
  return fmha_candidates(config, arch).front().geometry.as<FmhaLaunch>().rows_per_block;
}

class Fmha final : public Described<FmhaArgs, fmha_from_c> {
 public:
  std::string_view name() const override { return "fmha"; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  void check_lists(const void* args, const ReadList& read) const override { check_sequences(get(args), read); }
  Device device_of(const void* args) const override { return get(args).q.device; }
  bool asks_for_nothing(const void* args) const override {
    const FmhaArgs& of = get(args);
    return is_empty(of.o) || (has_sequences(of) && fmha_sequences(of) == 0);
  }

  ProblemKey problem_key(const void* args) const override {
    ProblemKey key = fmha_problem_key(fmha_kernel(get(args)), fmha_sizes(get(args)));
    key.sizes[kLimit] = get(args).max_sms;
    return key;
  }
  Kernel choose(const ProblemKey& problem, const arch::Arch& arch) const override {
    if (const Kernel* made = ChoiceShelf<FmhaKernel>::find(problem, arch)) return *made;
    const Kernel kernel = kernel_of(problem, made_choice(problem, arch).number());
    if (arch::find(arch.name) == &arch) ChoiceShelf<FmhaKernel>::keep(problem, arch, kernel);
    return kernel;
  }
  Kernel kernel_of(const ProblemKey& problem, int choice) const override {
    const auto [rung, walk, tile, parts, ranges, pieces] = FmhaChoice::of(choice);
    if (choice == FmhaChoice().number()) return {problem.kind};
    FmhaKernel kernel = kernel_of_key<kFmhaFields, FmhaKernel>(problem.kind);
    kernel.rung = rung;
    if (walk != WalkChoice::usual) kernel.walk = walk;
    if (tile != kUsualFmhaTile) kernel.tile = tile;
    if (ranges != RangesChoice::usual) kernel.ranges = ranges;
    if (pieces != 0) kernel.pieces = pieces;
    if (parts != 0) kernel.packed = true;
    if (parts > 1) kernel.out_f32 = true;
    return {fmha_small_key(kernel), choice};
  }
  bool has_ladder() const override { return true; }
  std::optional<int> rung_choice(const ProblemKey& problem, int rung, const arch::Arch& arch) const override {
    check_fmha_rung(rung);
    if (rung != kNoFmhaRung)
      check_no_limit("fmha", problem.sizes[kLimit], fmha_rungs()[static_cast<std::size_t>(rung)].name);
    require_fmha_rungs(rung, arch);
    if (rung == kNoFmhaRung) return {};
    if (kernel_of_key<kFmhaFields, FmhaKernel>(problem.kind).varlen)
      fail(Stage::argument, Code::unsupported,
           cat("fmha: cu_seqlens_q is given and rung is ", fmha_rungs()[static_cast<std::size_t>(rung)].name,
               "; allowed with a rung: tensors [B, H, S, D]"));
    if (const auto kernel = kernel_of_key<kFmhaFields, FmhaKernel>(problem.kind); has_mods(kernel) || has_bias(kernel))
      fail(Stage::argument, Code::unsupported,
           cat("fmha: ", has_bias(kernel) ? "bias" : "a text such as mask_mod", " is given and rung is ",
               fmha_rungs()[static_cast<std::size_t>(rung)].name, "; allowed with a rung: calls without"));
    return rung;
  }
  Request request_of(const Kernel& kernel) const override {
    return fmha_request(kernel_of_key<kFmhaFields, FmhaKernel>(kernel.small_key));
  }

  Kernel kernel_of(const Request& request) const override { return {fmha_small_key(config_of(request))}; }
  std::vector<NeededKernel> needed_kernels(const void* config, const ChooseKernel& choose) const override {
    const auto& of = *static_cast<const FmhaConfig*>(config);
    ops::validate(of);
    if (of.packed) return packed_kernels(of);
    const ProblemKey few = {fmha_small_key(of)};
    const Kernel own = choose(few);
    const bool usual = FmhaChoice::of(own.choice).rung == kNoFmhaRung;
    std::vector<NeededKernel> list;
    if (usual && has_packed_kernels(choose.arch())) list = packed_kernels(of);
    if (usual)
      for (const Kernel& kernel : other_kernels(of, choose.arch(), choose(fmha_problem_key(of, kManyTiles)), own))
        list.push_back({this, kernel});
    list.push_back({this, own});
    return list;
  }

  /// Kernels for keys in parts, the one that merges these, and the one for keys in one part.
  std::vector<NeededKernel> packed_kernels(FmhaConfig config) const {
    config.packed = false;
    const ProblemKey problem = {fmha_small_key(config)};
    const DType out = config.out_f32 ? DType::f32 : config.dtype;
    return {{this, kernel_of(problem, FmhaChoice{.parts = 2}.number())},
            {&merge_states_op(), {merge_states_small_key({DType::f32, out})}},
            {this, kernel_of(problem, FmhaChoice{.parts = 1}.number())}};
  }

  /// The kernels that calls without max_sms may take beside `own`, that of few tiles; `many` is that of many.
  std::vector<Kernel> other_kernels(const FmhaKernel& kernel, const arch::Arch& arch, const Kernel& many,
                                    const Kernel& own) const {
    std::vector<Kernel> list;
    const auto add = [&](const Kernel& other) {
      const auto same = [&](const Kernel& known) { return known.small_key == other.small_key; };
      if (!same(own) && std::none_of(list.begin(), list.end(), same)) list.push_back(other);
    };
    add(many);
    for (const int tile : taken_fmha_tiles(kernel, arch))
      add(kernel_of({fmha_small_key(kernel)}, FmhaChoice{.tile = tile}.number()));
    return list;
  }
  std::vector<Request> requests(const Flags& flags) const override {
    std::vector<Request> list;
    for (const FmhaKernel& config : kernels_of(flags, choices_of_fields<kFmhaFields>()))
      list.push_back(fmha_request(config));
    return list;
  }

  std::vector<Request> requests_for(const Flags& flags, const arch::Arch& arch) const override {
    std::vector<Request> list;
    for (Request& few : requests(flags)) {
      const FmhaKernel kernel = config_of(few);
      std::vector<Kernel> others;
      if (flags.count("walk") == 0 && flags.count("tile") == 0 && flags.count("ranges") == 0 &&
          flags.count("pieces") == 0)
        others = other_kernels(kernel, arch, choose(fmha_problem_key(kernel, kManyTiles), arch), kernel_of(few));
      for (const Kernel& other : others) {
        list.push_back(request_of(other));
        list.back().beside = true;
      }
      list.push_back(std::move(few));
    }
    return list;
  }

  std::vector<Trial> trials(const Flags& flags, const arch::Arch& arch) const override {
    Flags kernels = flags;
    const Sizes sizes("fmha", kernels, {{"batch", 1}, {"heads", 2}, {"kv-heads", 1}, {"seq-q", 130}, {"seq-k", 600}});
    std::vector<Trial> list;
    for (const FmhaKernel& config : usual_kernels(kernels)) {
      Sizes own = sizes;
      const std::int64_t rows = rows_per_block(config, arch);
      own.set_default("seq-q", std::max<std::int64_t>(130, rows + 2));
      list.push_back(fmha_trial(config, own));
      if (own.any_given()) continue;
      for (const auto& [heads, queries, keys] : {std::array<std::int64_t, 3>{3, 70, 40},
                                                 {1, std::max<std::int64_t>(64, rows * 3 / 4),
                                                  1700}}) {  // fewer iterations than any schedule has stages, and many
        own.set_default("heads", heads);
        own.set_default("seq-q", queries);
        own.set_default("seq-k", keys);
        list.push_back(fmha_trial(config, own));
      }
    }
    return list;
  }

  std::vector<Candidate> candidates(const Request& request, const arch::Arch& arch) const override {
    const FmhaKernel config = config_of(request);
    require_fmha_rungs(config.rung, arch);
    return fmha_candidates(config, arch);
  }
  GeometryFields geometry_fields() const override { return kFmhaGeometry; }
  void tensors(void* args, TensorList& list) const override {
    FmhaArgs& of = get(args);
    list.reads("q", of.q);
    list.reads("k", of.k);
    list.reads("v", of.v);
    list.writes("o", of.o);
    list.writes("lse", of.lse);
    list.reads("alibi_slopes", of.alibi_slopes);
    list.reads("sinks", of.sinks);
    list.reads("bias", of.bias);
    list.reads("mod_params", of.mod_params);
    list.reads("cu_seqlens_q", of.cu_seqlens_q);
    list.reads("cu_seqlens_k", of.cu_seqlens_k);
    list.reads("seqused_k", of.seqused_k);
    list.reads("block_table", of.block_table);
  }
  const Tunable* tunable() const override { return &fmha_tunable(); }
  void plan(const void* args, const Kernel& kernel, const Geometry& geometry, LaunchPlan& plan) const override {
    fmha_plan(get(args), geometry.as<FmhaLaunch>(), plan, FmhaChoice::of(kernel.choice).parts);
  }
  bool in_steps(const void*, const Kernel& kernel) const override { return FmhaChoice::of(kernel.choice).parts > 1; }
  std::size_t scratch_bytes(const void* args, const Kernel& kernel) const override {
    return fmha_scratch_bytes(get(args), FmhaChoice::of(kernel.choice).parts);
  }
  void steps(const void* args, const Kernel& kernel, void* scratch, const EachStep& each) const override {
    if (!in_steps(args, kernel)) return each({this, args, kernel});
    fmha_steps(get(args), kernel, scratch, each);
  }
};

}  // namespace

const Op& fmha_op() {
  static constinit support::Lasting<const Fmha> op;
  return op.get();
}

std::vector<Workload> fmha_workloads(const Flags& flags, const arch::Arch&) {
  Flags kernels = flags;
  Sizes sizes("fmha", kernels, {{"batch", 4}, {"heads", 32}, {"kv-heads", 0}, {"seq-q", 4096}, {"seq-k", 0}});
  sizes.set_default("kv-heads", sizes.at("heads"));
  sizes.set_default("seq-k", sizes.at("seq-q"));
  std::vector<Workload> list;
  for (const FmhaKernel& config : usual_kernels(kernels)) {
    const double width =
        static_cast<double>(sizes.at("batch") * sizes.at("heads") * (config.head_dim + fmha_value_dim(config)));
    list.push_back({fmha_trial(config, sizes, true),
                    2 * width * visible_keys(mask_of(config, sizes.at("seq-q"), sizes.at("seq-k")))});
  }
  return list;
}

std::vector<TileCount> fmha_tiles(const void* args, const Geometry& geometry, unsigned) {
  const auto& of = *static_cast<const FmhaArgs*>(args);
  if (has_sequences(of))
    fail(Stage::argument, Code::unsupported,
         "--varlen is true; allowed in a timeline: false, as the device alone knows the tiles' lengths");
  if (of.key_range.given())
    fail(Stage::argument, Code::unsupported,
         "--key-range is given; allowed in a timeline: none, as the device alone knows the tiles' lengths");
  const auto launch = geometry.as<FmhaLaunch>();
  const fmha::Mask mask = mask_of(of);
  std::vector<TileCount> list;  // a block of rows of each head, with the blocks of keys that it sees
  for (int first = 0; first < mask.queries; first += launch.rows_per_block) {
    const fmha::Keys blocks = mask.blocks_of(first, launch.rows_per_block, launch.block_n);
    list.push_back({of.q.shape[0] * of.q.shape[1], blocks.end - blocks.first});
  }
  return list;
}

FmhaKernel fmha_kernel(const FmhaArgs& args) {
  FmhaConfig config;
  config.dtype = args.q.dtype;
  const auto last = [](const Tensor& tensor) { return static_cast<int>(tensor.shape[support::at(tensor.rank - 1)]); };
  config.head_dim = last(args.q);
  config.value_dim = last(args.v) == config.head_dim ? 0 : last(args.v);
  set_scores(config, args);
  set_mask(config, args);
  set_sequences(config, args);
  config.out_f32 = args.o.dtype == DType::f32;
  return config;
}

namespace {

/// One kernel has one name: values as wide as keys are not told apart, nor pages in which the same power of two is.
FmhaKernel canonical(FmhaKernel config) {
  if (config.value_dim == config.head_dim) config.value_dim = 0;
  config.page_size = fmha_page_kind(config.page_size);
  if (makes_scores(config)) config.general_scale = false;
  return config;
}

}  // namespace

std::uint64_t fmha_small_key(const FmhaKernel& config) { return key_of_fields<kFmhaFields>(canonical(config)); }

Request fmha_request(const FmhaKernel& config) {
  validate(config);
  check_fmha_rung(config.rung);
  Request request = request_of_fields<kFmhaFields>("fmha", canonical(config));
  for (auto& field : mods_fields(config)) request.fields.push_back(std::move(field));
  request.name += mods_tag(config);
  for (auto& field : fmha_rung_fields(config.rung)) request.fields.push_back(std::move(field));
  return request;
}

}  // namespace tj::ops
