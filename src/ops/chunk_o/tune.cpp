// Choosing the heads of an item of chunk outputs by measurement: problems, their items, their tensors; see tunable.hpp.
//
// Decides which sizes and kernels a command line names. Predicts nothing: the scheduler takes the item that it rates
// best, whatever the sizes are. Invariant: a problem that was written down as fields and read back is the same problem,
// or none.
#include <algorithm>
#include <utility>

#include "ops/chunk_o/chunk_o.hpp"
#include "ops/chunk_o/fields.hpp"
#include "ops/chunk_o/params.cuh"
#include "ops/common/trial.hpp"
#include "ops/common/tunable.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;
using Fields = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kSizeNames[] = {"heads", "v-heads", "tokens", "sequences"};

/// Takes the sizes out of the flags.
Sizes take_sizes(Flags& flags) {
  Sizes sizes("chunk_o", flags, {{"heads", 1}, {"v-heads", 0}, {"tokens", 0}, {"sequences", 1}});
  if (!sizes.given("tokens"))
    fail(Stage::argument, Code::invalid_argument, "--tokens is missing; items of heads are measured for sizes");
  return sizes;
}
Sizes sizes_of(const Problem& problem) {
  Flags flags = size_flags_of(problem, kSizeNames);
  return take_sizes(flags);
}
ChunkOKernel kernel_of(const Problem& problem) {
  Request request;
  request.fields = problem.fields;
  return chunk_o_kernel(request);
}

/// Tokens of each sequence, as even as they come out: lengths differ by one where lists may say so.
std::vector<std::int64_t> lengths_of(const Sizes& sizes) {
  const std::int64_t tokens = sizes.at("tokens"), sequences = sizes.at("sequences");
  std::vector<std::int64_t> lengths;
  for (std::int64_t s = 0; s < sequences; ++s) lengths.push_back(tokens * (s + 1) / sequences - tokens * s / sequences);
  return lengths;
}

void check_sizes(const ChunkOKernel& kernel, const Sizes& sizes) {
  const std::int64_t heads = sizes.at("heads"), v_heads = sizes.at("v-heads"), tokens = sizes.at("tokens"),
                     sequences = sizes.at("sequences");
  if (v_heads % heads != 0 || chunk_o_divisor(v_heads / heads) != kernel.divisor)
    fail(Stage::argument, Code::invalid_argument,
         cat("--v-heads is ", v_heads, "; allowed with --heads ", heads, " and --head-ratio ", kernel.divisor,
             ": a multiple of --heads, whose ratio's largest divisor of 1, 2, 3 and 6 is ", kernel.divisor));
  if (sequences > tokens || (!kernel.variable && tokens % sequences != 0))
    fail(Stage::argument, Code::invalid_argument,
         cat("--sequences is ", sequences, "; allowed with --tokens ", tokens, ": ",
             kernel.variable ? "up to as many" : "what divides them, as all sequences are equal"));
}

double flops_of(const Sizes& sizes) {
  constexpr double kTokens = kChunkTokens, kColumns = chunk_o::kWidth;
  double chunks = 0;
  for (const std::int64_t length : lengths_of(sizes))
    chunks += static_cast<double>((length + kChunkTokens - 1) / kChunkTokens);
  const auto heads = static_cast<double>(sizes.at("heads")), v_heads = static_cast<double>(sizes.at("v-heads"));
  return 2 * chunks * kTokens * kColumns * (heads * kTokens + v_heads * (kColumns + kTokens));
}

Problem make_problem(const ChunkOKernel& kernel, const Sizes& sizes) {
  check_sizes(kernel, sizes);
  Request request = chunk_o_request(kernel);
  Problem problem{std::move(request.fields), std::move(request.name)};
  for (const char* name : kSizeNames) problem.fields.emplace_back(name, cat(sizes.at(name)));
  problem.name += cat(" ", sizes.at("tokens"), " tokens of ", sizes.at("sequences"), ", ", sizes.at("heads"), "/",
                      sizes.at("v-heads"), " heads");
  problem.flops = flops_of(sizes);
  return problem;
}

Trial trial_of(const Problem& problem) {
  const Sizes sizes = sizes_of(problem);
  return chunk_o_trial(kernel_of(problem), sizes.at("heads"), lengths_of(sizes), sizes.at("v-heads"));
}

class ChunkOTunable final : public Tunable {
 public:
  ProblemKey key_of(const Problem& problem) const override {
    const Sizes sizes = sizes_of(problem);
    return chunk_o_problem_key(kernel_of(problem),
                               {sizes.at("heads"), sizes.at("v-heads"), sizes.at("tokens"), sizes.at("sequences")});
  }

  std::vector<Variant> variants(const Problem& problem, const arch::Arch& arch) const override {
    const ProblemKey key = key_of(problem);
    std::vector<Variant> list = {{chunk_o_op().kernel_of(key, 0), kChunkOItemWords[0], 0}};
    for (const Candidate& candidate : chunk_o_candidates(kernel_of(problem), arch)) {
      const int heads = candidate.geometry.as<ChunkOLaunch>().heads;
      list.push_back({chunk_o_op().kernel_of(key, heads), kChunkOItemWords[heads], 0});
    }
    return list;
  }

  Problem problem_of(const void* args) const override {
    const auto& of = *static_cast<const ChunkOArgs*>(args);
    if (of.max_sms != 0)
      fail(Stage::argument, Code::unsupported,
           cat("chunk_o: max_sms is ", of.max_sms, "; allowed in tuning: 0, as calls with a limit have one kernel"));
    const ChunkOSizes sizes = chunk_o_sizes(of);
    Flags flags;
    const std::int64_t values[] = {sizes.heads, sizes.v_heads, sizes.tokens, sizes.sequences};
    for (std::size_t i = 0; i < std::size(kSizeNames); ++i) flags[kSizeNames[i]] = {cat(values[i])};
    return make_problem(chunk_o_kernel(of), take_sizes(flags));
  }

  std::span<const char* const> size_flags() const override {
    static constexpr const char* kFlags[] = {"tokens"};
    return kFlags;
  }
  std::vector<Problem> problems(const Flags& flags) const override {
    if (flags.count("item-heads") > 0)
      fail(Stage::argument, Code::invalid_argument, "--item-heads is given; it is what is measured: leave it out");
    Flags kinds = flags;
    const Sizes sizes = take_sizes(kinds);
    if (sizes.given("v-heads") && kinds.count("head-ratio") == 0)
      kinds["head-ratio"] = {cat(chunk_o_divisor(std::max<std::int64_t>(1, sizes.at("v-heads") / sizes.at("heads"))))};
    std::vector<Problem> list;
    for (const Request& request : chunk_o_op().requests(kinds)) {
      const ChunkOKernel kernel = chunk_o_kernel(request);
      Sizes own = sizes;
      own.set_default("v-heads", sizes.at("heads") * kernel.divisor);
      list.push_back(make_problem(kernel, own));
      check(list.back());
    }
    return list;
  }

  std::optional<Problem> problem_of(const Fields& fields) const override {
    return problem_of_fields(fields, [](const Problem& given) -> std::optional<Problem> {
      const ChunkOKernel kernel = kernel_of(given);
      Problem problem = make_problem(kernel, sizes_of(given));
      check(problem);
      return kernel.heads == 0 ? std::optional(std::move(problem)) : std::nullopt;  // an item's heads were chosen
    });
  }

  std::vector<Operand> operands(const Problem& problem) const override {
    std::vector<Operand> list;
    for (TrialTensor& tensor : trial_of(problem).tensors) list.push_back(std::move(tensor.operand));
    return list;
  }

  void with_args(const Problem& problem, Device device, std::span<void* const> places,
                 const std::function<void(const void*)>& use) const override {
    trial_of(problem).with_args(device, places, use);
  }

 private:
  /// Throws for what no chunk output is. Where tensors lie is made up; nothing looks there.
  static void check(const Problem& problem) {
    const Trial trial = trial_of(problem);
    std::vector<void*> places;
    for (std::size_t i = 0; i < trial.tensors.size(); ++i) places.push_back(reinterpret_cast<void*>((i + 1) << 44));
    trial.with_args({DeviceKind::cuda, 0}, places,
                    [](const void* args) { validate(*static_cast<const ChunkOArgs*>(args), false); });
  }
};

}  // namespace

const Tunable& chunk_o_tunable() {
  static constinit support::Lasting<const ChunkOTunable> tunable;
  return tunable.get();
}

ChunkOSizes chunk_o_sizes(const ChunkOArgs& args) {
  const std::int64_t tokens = args.q.shape[0];
  return {args.q.shape[1], args.o.shape[1], tokens,
          args.cu_seqlens ? args.cu_seqlens->shape[0] - 1 : tokens / std::max<std::int64_t>(1, args.seq_length)};
}

ProblemKey chunk_o_problem_key(const ChunkOKernel& kernel, const ChunkOSizes& sizes) {
  return {chunk_o_small_key(kernel), {sizes.heads << 32 | sizes.v_heads, sizes.tokens, sizes.sequences}};
}

}  // namespace tj::ops
