// See chunks.hpp.
#include "ops/gated_delta_rule/chunks.hpp"

#include "support/index.hpp"

namespace tj::ops {
namespace {

using support::at;

// Cycles of an SM, all of them estimates. The recurrence takes a token of a head's state in so many, where arithmetic
// bounds it: 15 us for one of 64 sequences of 32 heads on an H200 (README.md). Chunks have two launches.
constexpr double kTokenCycles = 1600, kChunkCycles = 3500, kLaunchCycles = 20000;
constexpr double kChunkTokens = 64;

DeltaChunksKernel kernel_of_step(const GatedDeltaRuleKernel& kernel, DeltaStep step) {
  return {kernel.dtype, kernel.state, kernel.head_dim, kernel.state_transposed, step};
}

std::int64_t heads_of(const GatedDeltaRuleArgs& args) { return args.o.shape[at(args.o.rank - 2)]; }

}  // namespace

bool prefers_chunks(const GatedDeltaRuleArgs& args) {
  if (!delta_chunks_serve(args)) return false;
  const bool listed = args.cu_seqlens.has_value();
  const auto sequences = static_cast<double>(gated_delta_rule_sequences(args));
  const double tokens = static_cast<double>(args.q.shape[at(args.q.rank - 3)]) / (listed ? sequences : 1.0);
  const double chunks = tokens / kChunkTokens + (listed ? 0.5 : 0.0);
  return kTokenCycles * tokens > kLaunchCycles + kChunkCycles * (chunks < 1 ? 1.0 : chunks);
}

void chunk_steps(const GatedDeltaRuleArgs& args, const GatedDeltaRuleKernel& kernel, void* scratch,
                 const EachStep& each) {
  constexpr std::int64_t kFewTiles = 128;  // about as many as a card has SMs
  const std::int64_t narrow = gated_delta_rule_sequences(args) * heads_of(args) * (kernel.head_dim / 64);
  const bool wide = kernel.head_dim == 128 && narrow > kFewTiles;
  const auto step = [&](DeltaStep of) {
    const DeltaChunksKernel own = kernel_of_step(kernel, of);
    const DeltaChunksArgs chunks{args, own, scratch};
    each({&delta_chunks_op(), &chunks, delta_chunks_kernel(own)});
  };
  step(DeltaStep::solve);
  step(wide ? DeltaStep::wide_state : DeltaStep::state);
}

std::vector<NeededKernel> chunk_kernels(const GatedDeltaRuleKernel& kernel, const arch::Arch& arch) {
  std::vector<NeededKernel> list;
  if (!delta_chunks_op().serves(arch)) return list;
  for (const DeltaStep step : {DeltaStep::solve, DeltaStep::state, DeltaStep::wide_state})
    if (const DeltaChunksKernel own = kernel_of_step(kernel, step); delta_chunks_fits(own))
      list.push_back({&delta_chunks_op(), delta_chunks_kernel(own)});
  return list;
}

}  // namespace tj::ops
