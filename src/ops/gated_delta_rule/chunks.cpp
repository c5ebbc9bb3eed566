// See chunks.hpp.
#include "ops/gated_delta_rule/chunks.hpp"

#include <algorithm>

#include "support/index.hpp"

namespace tj::ops {
namespace {

using support::at;

// Cycles of an SM, all of them estimates. The recurrence takes a token of a head's state in so many, where arithmetic
// bounds it: 15 us for one of 64 sequences of 32 heads on an H200 (README.md). A range of chunks has two launches.
constexpr double kTokenCycles = 1600, kChunkCycles = 3500, kLaunchCycles = 20000;
constexpr double kChunkTokens = 64;
// Likewise for ranges, from times of an H200 (delta_chunks/README.md): solving a chunk and head; a chunk of states;
// what a range takes beside its chunks.
constexpr double kSolveCycles = 3600, kStateCycles = 2200, kRangeCycles = 8000;
constexpr int kMostRanges = 16, kLeastChunks = 4;  // of a call; of a range
constexpr std::int64_t kSms = 132;                 // of the card that these were measured on

DeltaChunksKernel kernel_of_step(const GatedDeltaRuleKernel& kernel, DeltaStep step) {
  return {kernel.dtype, kernel.state, kernel.head_dim, kernel.state_transposed, step};
}

std::int64_t heads_of(const GatedDeltaRuleArgs& args) { return args.o.shape[at(args.o.rank - 2)]; }

/// Tiles of the states' launch with 64 rows of V.
std::int64_t narrow_tiles(const GatedDeltaRuleArgs& args, int head_dim) {
  return gated_delta_rule_sequences(args) * heads_of(args) * (head_dim / 64);
}

}  // namespace

bool prefers_chunks(const GatedDeltaRuleArgs& args) {
  if (!delta_chunks_serve(args)) return false;
  const bool listed = args.cu_seqlens.has_value();
  const auto sequences = static_cast<double>(gated_delta_rule_sequences(args));
  const double tokens = static_cast<double>(args.q.shape[at(args.q.rank - 3)]) / (listed ? sequences : 1.0);
  const double chunks = tokens / kChunkTokens + (listed ? 0.5 : 0.0);
  return kTokenCycles * tokens > kLaunchCycles + kChunkCycles * (chunks < 1 ? 1.0 : chunks);
}

int chunk_ranges(const GatedDeltaRuleArgs& args) {
  if (!delta_chunks_in_ranges(args) || args.max_sms != 0) return 1;
  const int width = static_cast<int>(args.q.shape[at(args.q.rank - 1)]), all = delta_chunks_most(args);
  const std::int64_t free = kSms - narrow_tiles(args, width);  // SMs without states
  if (free <= 0) return 1;
  const double solved = kSolveCycles * static_cast<double>(delta_chunks_records(args) * heads_of(args));
  const double states = kStateCycles * all, beside = std::max(states, solved / static_cast<double>(free));
  const auto cycles = [&](int ranges) {
    return (solved / kSms + states + (ranges - 1) * beside) / ranges + ranges * kRangeCycles;
  };
  int best = 1;
  for (int ranges = 2; ranges <= std::min(kMostRanges, all / kLeastChunks); ++ranges)
    if (cycles(ranges) < cycles(best)) best = ranges;
  return best;
}

void chunk_steps(const GatedDeltaRuleArgs& args, const GatedDeltaRuleKernel& kernel, int ranges, void* scratch,
                 const EachStep& each) {
  const bool wide = kernel.head_dim == 128 && narrow_tiles(args, kernel.head_dim) > kSms;
  if (!delta_chunks_in_ranges(args)) ranges = 1;
  const int all = std::max(1, delta_chunks_most(args)), count = (all + ranges - 1) / ranges;
  for (int first = 0; first < all; first += count) {
    const auto step = [&](DeltaStep of) {
      const DeltaChunksKernel own = kernel_of_step(kernel, of);
      const DeltaChunksArgs chunks{args, own, scratch, {first, ranges == 1 ? 0 : count}};
      each({&delta_chunks_op(), &chunks, delta_chunks_kernel(own)});
    };
    step(first == 0 ? DeltaStep::solve : DeltaStep::solve_beside);
    step(wide ? DeltaStep::wide_state : DeltaStep::state);
  }
}

std::vector<NeededKernel> chunk_kernels(const GatedDeltaRuleKernel& kernel, const arch::Arch& arch) {
  std::vector<NeededKernel> list;
  if (!delta_chunks_op().serves(arch)) return list;
  for (const DeltaStep step : {DeltaStep::solve, DeltaStep::solve_beside, DeltaStep::state, DeltaStep::wide_state})
    if (const DeltaChunksKernel own = kernel_of_step(kernel, step); delta_chunks_fits(own))
      list.push_back({&delta_chunks_op(), delta_chunks_kernel(own)});
  return list;
}

}  // namespace tj::ops
