// The gated delta rule in chunks of 64 tokens, as an op: two steps of gated_delta_rule.
//
// Decides the arguments of launches, and the kernels that serve them. Of a range of chunks one makes a record of each
// chunk and head, all of them apart; the next one goes from chunk to chunk with the states (README.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tilejit/gated_delta_rule.hpp>

#include "arch/arch.hpp"
#include "ops/gated_delta_rule/gated_delta_rule.hpp"
#include "ops/op.hpp"

namespace tj::ops {

enum class DeltaStep : std::uint8_t {
  solve,         ///< makes records
  state,         ///< reads them; a block has 64 rows of V
  wide_state,    ///< or 128
  solve_beside,  ///< as solve, beside the launch before it
  map,           ///< what a segment of a sequence does to any state
  carry,         ///< states before each segment
};
inline bool solves(DeltaStep step) { return step == DeltaStep::solve || step == DeltaStep::solve_beside; }

struct DeltaChunksKernel {
  DType dtype = DType::bf16, state = DType::f32;
  int head_dim = 128;
  bool state_transposed = false;
  DeltaStep step = DeltaStep::solve;
  bool keeps = false;         ///< states after so many chunks, of the steps that make states
  bool channel_gate = false;  ///< a gate for each key channel
  bool delta = true;          ///< false: what is added is beta v k^T, and nothing is solved
};

/// How a call's sequences are cut: into ranges of chunks, a solving and a states' launch each, one after the other; or
/// into segments (from three on) that blocks do side by side.
struct ChunkCut {
  int ranges = 1, segments = 1;
  friend bool operator==(const ChunkCut&, const ChunkCut&) = default;
};

/// Chunks of each sequence that one launch does.
struct ChunkRange {
  int first = 0, count = 0;  ///< count 0: all; with segments, of each
};

/// Device memory of a call's launches.
struct ChunkMemory {
  void* records = nullptr;
  float *states = nullptr, *maps = nullptr;  ///< of cut sequences
};

/// A call that gated_delta_rule has validated and delta_chunks_serve(), and one of its steps.
struct DeltaChunksArgs {
  const GatedDeltaRuleArgs& call;
  DeltaChunksKernel kernel;
  ChunkMemory memory;
  ChunkRange range{};
  int segments = 1;
};

const Op& delta_chunks_op();
Kernel delta_chunks_kernel(const DeltaChunksKernel& kernel);
const arch::Needs& delta_chunks_needs();

/// Records of a head, and bytes of those of all heads.
std::int64_t delta_chunks_records(const GatedDeltaRuleArgs& call);
/// Most chunks of a sequence, as far as the host knows.
int delta_chunks_most(const GatedDeltaRuleArgs& call);
/// Can launches do ranges of chunks?
bool delta_chunks_in_ranges(const GatedDeltaRuleArgs& call);
/// A workspace of such a call, and its parts.
std::size_t delta_chunks_bytes(const GatedDeltaRuleArgs& call, const ChunkCut& cut);
ChunkMemory delta_chunks_memory(const GatedDeltaRuleArgs& call, const ChunkCut& cut, void* workspace);

/// Can chunks serve the call at all?
bool delta_chunks_serve(const GatedDeltaRuleArgs& call);
/// The parameters and the blocks of one launch. Allocates nothing.
void delta_chunks_plan(const DeltaChunksArgs& args, DeltaStep step, LaunchPlan& plan);
/// Is there such a kernel?
bool delta_chunks_fits(const DeltaChunksKernel& kernel);
/// The problems of a command line for tj-check; its sizes are taken out of the flags.
std::vector<Trial> delta_chunks_trials(const Flags& flags);
/// Graphs of the op.
graph::Graph delta_solve_graph(const DeltaChunksKernel& kernel, const arch::Arch& arch);
/// The solved matrix of each chunk alone, in a caller's tensor: the kernel of chunk_solve.
graph::Graph delta_matrix_graph(const DeltaChunksKernel& kernel, const arch::Arch& arch);
graph::Graph delta_state_graph(const DeltaChunksKernel& kernel, const arch::Arch& arch);
graph::Graph delta_carry_graph(const DeltaChunksKernel& kernel, const arch::Arch& arch);

}  // namespace tj::ops
