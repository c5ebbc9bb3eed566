// The gated delta rule in chunks of 64 tokens, as steps: which calls take them, and which launches they are.
//
// Decides by lengths alone when chunks are faster than tokens one by one; what a chunk is, delta_chunks does.
#pragma once

#include <vector>

#include "ops/delta_chunks/delta_chunks.hpp"
#include "ops/gated_delta_rule/gated_delta_rule.hpp"

namespace tj::ops {

/// Choices of a kernel that stand for chunks, other numbers than a walk's: kInChunks and multiprocessors of the card,
/// by which sequences are cut.
inline constexpr int kInChunks = 8;
inline int chunk_choice(const arch::Arch& arch) { return kInChunks + arch.sm_count; }
inline bool stands_for_chunks(int choice) { return choice >= kInChunks; }
inline int multiprocessors_of(int choice) { return choice - kInChunks; }

/// Are chunks faster than the recurrence, where the arch has them? Allocates nothing.
bool prefers_chunks(const GatedDeltaRuleArgs& args);
/// How the call's sequences are cut on a card of so many multiprocessors. A range is solved beside the states of the
/// one before it, so that only the first one's solving is waited for; each range takes two launches. Segments halve
/// their chunks' speed, and are for calls whose states leave most multiprocessors free.
ChunkCut chunk_cut(const GatedDeltaRuleArgs& args, int multiprocessors);
/// The launches of a call that is cut so: into 1 to as many ranges as it has chunks, or into 3 segments and more.
/// scratch: delta_chunks_bytes(args, cut).
void chunk_steps(const GatedDeltaRuleArgs& args, const GatedDeltaRuleKernel& kernel, int multiprocessors, ChunkCut cut,
                 void* scratch, const EachStep& each);
/// The kernels of chunks that calls of such a kernel may take on the arch; none where it has no chunks.
/// keeps: of calls with token_states; delta: of calls with the delta.
std::vector<NeededKernel> chunk_kernels(const GatedDeltaRuleKernel& kernel, bool keeps, bool delta,
                                        const arch::Arch& arch);

}  // namespace tj::ops
