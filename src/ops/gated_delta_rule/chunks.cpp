// See chunks.hpp.
#include "ops/gated_delta_rule/chunks.hpp"

#include <algorithm>

#include "ops/delta_chunks/params.cuh"
#include "support/index.hpp"

namespace tj::ops {
namespace {

using support::at;

/// Cycles of an SM, all of them estimates.
struct Cycles {
  double token;  ///< of the recurrence, of a head's state, where arithmetic bounds it
  double chunk;  ///< of a head, all launches together
  // Cycles that ranges and segments cost: solving a chunk and head; a chunk of states; a chunk of a segment's map.
  double solve, state, map;
};
// 15 us for a token of 64 sequences of 32 heads on an H200 (README.md), and times of ranges there
// (delta_chunks/README.md). The recurrence with gates of channels took twice as long there; what chunks take with them
// is what their graphs say, and no time.
constexpr Cycles kOfHeads = {1600, 3500, 3600, 2200, 1800}, kOfChannels = {3000, 15000, 12800, 2700, 2250};
// Without the delta: these times, by as much as the graphs have become shorter. None was measured.
constexpr Cycles kAddedOfHeads = {1600, 2500, 1600, 1700, 1300}, kAddedOfChannels = {3000, 11000, 8900, 2100, 1600};
constexpr double kLaunchCycles = 20000;  // of two launches, for a range of chunks
constexpr double kChunkTokens = 64;
constexpr double kRangeCycles = 8000;              // what a range takes beside its chunks
constexpr double kCarryCycles = 4000;              // states from one segment to the next
constexpr int kMostRanges = 16, kLeastChunks = 4;  // of a call; of a range
constexpr double kAhead = 3;                       // guess: chunks after which decays have left nothing that counts

DeltaChunksKernel kernel_of_step(const GatedDeltaRuleKernel& kernel, DeltaStep step, bool keeps, bool delta) {
  return {kernel.dtype,
          kernel.state,
          kernel.head_dim,
          kernel.state_transposed,
          step,
          keeps && (step == DeltaStep::state || step == DeltaStep::wide_state),
          kernel.channel_gate,
          delta};
}

const Cycles& cycles_of(const GatedDeltaRuleArgs& args) {
  if (gates_channels(args)) return args.delta ? kOfChannels : kAddedOfChannels;
  return args.delta ? kOfHeads : kAddedOfHeads;
}

std::int64_t heads_of(const GatedDeltaRuleArgs& args) { return args.o.shape[at(args.o.rank - 2)]; }

/// Tiles of the states' launch with 64 rows of V.
std::int64_t narrow_tiles(const GatedDeltaRuleArgs& args, int head_dim) {
  return gated_delta_rule_sequences(args) * heads_of(args) * (head_dim / 64);
}

double waves(std::int64_t tiles, std::int64_t sms) { return static_cast<double>((tiles + sms - 1) / sms); }

}  // namespace

bool prefers_chunks(const GatedDeltaRuleArgs& args) {
  if (!delta_chunks_serve(args)) return false;
  const bool listed = args.cu_seqlens.has_value();
  const auto sequences = static_cast<double>(gated_delta_rule_sequences(args));
  const double tokens = static_cast<double>(args.q.shape[at(args.q.rank - 3)]) / (listed ? sequences : 1.0);
  const double chunks = tokens / kChunkTokens + (listed ? 0.5 : 0.0);
  const Cycles& cycles = cycles_of(args);
  return cycles.token * tokens > kLaunchCycles + cycles.chunk * (chunks < 1 ? 1.0 : chunks);
}

ChunkCut chunk_cut(const GatedDeltaRuleArgs& args, int multiprocessors) {
  ChunkCut best;
  if (!delta_chunks_in_ranges(args) || args.max_sms != 0) return best;
  const int width = static_cast<int>(args.q.shape[at(args.q.rank - 1)]), all = delta_chunks_most(args);
  const std::int64_t tiles = narrow_tiles(args, width), free = multiprocessors - tiles;  // SMs without states
  if (free <= 0) return best;
  const Cycles& of = cycles_of(args);
  const double solved = of.solve * static_cast<double>(delta_chunks_records(args) * heads_of(args));
  const double states = of.state * all, beside = std::max(states, solved / static_cast<double>(free));
  const double first = solved / multiprocessors;  // which nothing is done beside
  double least = first + states + kRangeCycles;
  const auto take = [&](const ChunkCut& cut, double cycles) {
    if (cycles < least) least = cycles, best = cut;
  };
  for (int ranges = 2; ranges <= std::min(kMostRanges, all / kLeastChunks); ++ranges)
    take({ranges, 1}, (first + states + (ranges - 1) * beside) / ranges + ranges * kRangeCycles);
  const bool forgets = args.negligible > 0;
  for (int segments = forgets ? 2 : 3; segments <= std::min(kMostRanges, all / kLeastChunks); ++segments) {
    const double chunks = (all + segments - 1) / segments;
    if (forgets) {
      take({1, segments},
           first + (chunks + kAhead) * of.state * waves(tiles * segments, multiprocessors) + 2 * kRangeCycles);
      continue;
    }
    take({1, segments}, first +
                            chunks * (of.map * waves(tiles * (2 * segments - 3), multiprocessors) +
                                      of.state * waves(tiles * segments, multiprocessors)) +
                            kCarryCycles * (segments - 2) + 3 * kRangeCycles);
  }
  return best;
}

void chunk_steps(const GatedDeltaRuleArgs& args, const GatedDeltaRuleKernel& kernel, int multiprocessors, ChunkCut cut,
                 void* scratch, const EachStep& each) {
  const bool keeps = args.token_states.has_value(),
             wide = narrow_tiles(args, kernel.head_dim) > multiprocessors &&
                    delta_chunks_fits(kernel_of_step(kernel, DeltaStep::wide_state, keeps, args.delta));
  if (!delta_chunks_in_ranges(args)) cut = {};
  const ChunkMemory memory = delta_chunks_memory(args, cut, scratch);
  const auto step = [&](DeltaStep of, ChunkRange range, int segments) {
    const DeltaChunksKernel own = kernel_of_step(kernel, of, keeps, args.delta);
    const DeltaChunksArgs chunks{args, own, memory, range, segments};
    each({&delta_chunks_op(), &chunks, delta_chunks_kernel(own)});
  };
  const int all = std::max(1, delta_chunks_most(args));
  if (cut.segments > 1) {
    const ChunkRange one{0, (all + cut.segments - 1) / cut.segments};
    step(DeltaStep::solve, {}, 1);
    if (args.negligible > 0) {
      if (args.initial_state)
        step(DeltaStep::map, {all, 1}, delta_chunks::kCopiedStates);  // behind all chunks: it copies states
      return step(DeltaStep::state, one, cut.segments);
    }
    for (const DeltaStep of : {DeltaStep::map, DeltaStep::carry, DeltaStep::state}) step(of, one, cut.segments);
    return;
  }
  const int count = (all + cut.ranges - 1) / cut.ranges;
  for (int first = 0; first < all; first += count) {
    const ChunkRange range{first, cut.ranges == 1 ? 0 : count};
    step(first == 0 ? DeltaStep::solve : DeltaStep::solve_beside, range, 1);
    step(wide ? DeltaStep::wide_state : DeltaStep::state, range, 1);
  }
}

std::vector<NeededKernel> chunk_kernels(const GatedDeltaRuleKernel& kernel, bool keeps, bool delta,
                                        const arch::Arch& arch) {
  std::vector<NeededKernel> list;
  if (!delta_chunks_op().serves(arch)) return list;
  for (const DeltaStep step : {DeltaStep::solve, DeltaStep::solve_beside, DeltaStep::state, DeltaStep::wide_state,
                               DeltaStep::map, DeltaStep::carry})
    if (const DeltaChunksKernel own = kernel_of_step(kernel, step, keeps, delta); delta_chunks_fits(own))
      list.push_back({&delta_chunks_op(), delta_chunks_kernel(own)});
  return list;
}

}  // namespace tj::ops
