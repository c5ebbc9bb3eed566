// States before each chunk as an op: arguments, request, graph, launch. Its consumer is that of delta_chunks' states.
//
//   read_w -> correct_w -> weigh_w -> change_state -> round_state -> read_w of the next chunk     the state's chain
//   take_values -> correct_w      ask_sums -> fade_all -> change_state      ask_sums -> weigh_w
//   change_state -> keep_before -> round_state      correct_w -> stage_values -> put_values
#pragma once

#include <tilejit/chunk_states.hpp>

#include "arch/arch.hpp"
#include "graph/graph.hpp"
#include "ops/op.hpp"

namespace tj::ops {

/// The fields of a kernel.
struct ChunkStatesKernel {
  DType dtype = DType::bf16, state = DType::f32;
  int head_dim = 128;
  bool state_transposed = false;
};

const Op& chunk_states_op();

/// The descriptor that a tj_chunk_states_args stands for.
ChunkStatesArgs chunk_states_from_c(const void* structure);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// Passing allocates nothing. Reads no tensor memory. Thread safe.
void validate(const ChunkStatesArgs& args, bool on_model);
void validate(const ChunkStatesConfig& config);

/// The type of a call's states.
DType chunk_states_type(const ChunkStatesArgs& args);
/// The parameters and the blocks of one launch. Allocates nothing.
void chunk_states_plan(const ChunkStatesArgs& args, LaunchPlan& plan);

}  // namespace tj::ops
