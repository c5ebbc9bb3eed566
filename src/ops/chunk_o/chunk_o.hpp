// Output of the gated delta rule's chunks as an op: requests, tiles, graph, launch.
//
// kernel.cpp decides requests by the table of fields.hpp, and family.cpp which family serves an arch. sm90.cpp and
// sm100.cpp decide nodes and costs, plan.cpp launch parameters, validate.cpp what is legal.
#pragma once

#include <array>

#include <tilejit/chunk_o.hpp>

#include "ops/op.hpp"

namespace tj::ops {

const Op& chunk_o_op();

/// The descriptor that a tj_chunk_o_args stands for.
ChunkOArgs chunk_o_from_c(const void* structure);

/// The choice of a kernel: all that it is made for.
struct ChunkOKernel {
  int divisor = 2;  ///< 1, 2, 3 or 6: the largest that divides the value heads of a key head
  bool gated = true;
  bool variable = true;       ///< sequences of any length, read on the device; else all of one
  bool h_transposed = false;  ///< h is [K, V]
  int heads = 0;              ///< value heads of one item, which share a key head; 0: the fastest by prediction
  int stages = 0;             ///< slots of each ring that copies fill; 0: as many as fit
  bool evict_first = false;   ///< of h and v_new, in L2
};
/// The divisor of so many value heads that share a key head.
int chunk_o_divisor(std::int64_t heads);

/// Does the call write nothing? Tokens are of no sequence where the list has none.
bool chunk_o_nothing(const ChunkOArgs& args);

/// Reads the lists of a valid call, and throws tj::Error(argument) for the first number that it may not have.
void check_chunks(const ChunkOArgs& args, const ReadList& read);

ChunkOKernel chunk_o_kernel(const ChunkOArgs& args);
/// Throws tj::Error(argument) for heads that are not supported.
ChunkOKernel chunk_o_kernel(const ChunkOConfig& config);
/// The kernel that a request names; a field that is left out has its default.
ChunkOKernel chunk_o_kernel(const Request& request);
Request chunk_o_request(const ChunkOKernel& kernel);
std::uint64_t chunk_o_small_key(const ChunkOKernel& kernel);

/// The graph with costs for `heads` value heads an item; src/ops/chunk_o/README.md has a picture.
graph::Graph chunk_o_graph(const ChunkOKernel& kernel, int heads, const arch::Arch& arch);
/// The needs of each kind of its node bodies: what it asks of an arch.
std::vector<arch::Needs> chunk_o_needs(const arch::Arch& arch);
std::vector<Candidate> chunk_o_candidates(const ChunkOKernel& kernel, const arch::Arch& arch);

/// A problem to check it by: sequences of these lengths; without lists all of the first one's.
/// v_heads: 0 for as many as the kernel's ratio gives.
Trial chunk_o_trial(const ChunkOKernel& kernel, std::int64_t heads, const std::vector<std::int64_t>& lengths,
                    std::int64_t v_heads = 0);

/// The sizes that a choice is measured for.
struct ChunkOSizes {
  std::int64_t heads = 1, v_heads = 1, tokens = 1, sequences = 1;
};
ChunkOSizes chunk_o_sizes(const ChunkOArgs& args);
ProblemKey chunk_o_problem_key(const ChunkOKernel& kernel, const ChunkOSizes& sizes);
const Tunable& chunk_o_tunable();

/// Numbers of its kernel that a launch must know.
struct ChunkOLaunch {
  int heads = 1;  ///< of an item
  int parts = 1;  ///< items that a head's columns of V are shared by; more than one with one head an item
  bool bulk_copies = true;
};
inline constexpr std::array kChunkOGeometry = {geometry_field<&ChunkOLaunch::heads>("heads", 1),
                                               geometry_field<&ChunkOLaunch::parts>("parts", 1),
                                               geometry_field<&ChunkOLaunch::bulk_copies>("bulk_copies")};
void chunk_o_plan(const ChunkOArgs& args, const ChunkOLaunch& kernel, LaunchPlan& plan);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// on_model: the request runs on the CPU model, so its tensors must live in host memory; else on a GPU. Passing
/// allocates nothing. Reads no tensor memory. Thread safe.
void validate(const ChunkOArgs& args, bool on_model);
void validate(const ChunkOConfig& config);

}  // namespace tj::ops
