// Matrix product as an op: requests, tiles, graph, launch.
//
// gemm.cpp decides requests, gemm_tiles.cpp which tile suits a problem, gemm_graph.cpp nodes and costs, gemm_plan.cpp launch
// parameters, gemm_validate.cpp what is legal.
#pragma once

#include <span>

#include <tilejit/ops.hpp>

#include "ops/op.hpp"

namespace tj::ops {

const Op& gemm_op();

/// One tile shape: block_m / 64 consumer roles of 64 rows each, block_k of K an iteration. With block_m below 64 one consumer
/// leaves the rest of its rows unused: they are not even copied.
struct GemmTile {
  int block_m = 128, block_n = 256, block_k = 64;
  int consumers() const { return block_m < 64 ? 1 : block_m / 64; }
};
/// All shipped ones, in the order in which equals are preferred.
std::span<const GemmTile> gemm_tiles();

/// All that a kernel is made for.
struct GemmKernel {
  DType dtype = DType::f16, out = DType::f16;
  bool left_mn = false, right_mn = false;  ///< a and b: M and N contiguous instead of K
  bool bias = false, add_c = false;
  Activation activation = Activation::none;
  int tile = 0;  ///< in gemm_tiles()
};

struct GemmSizes {
  std::int64_t m = 1, n = 1, k = 1, batch = 1;
};

/// Whether the tile can serve the orders of the operands: columns of b that are contiguous lie in whole blocks, and so do rows of a.
bool gemm_tile_fits(const GemmTile& tile, bool left_mn, bool right_mn);

/// The order of an operand that both the copy engine and the matrix unit take; what validate() passed has one.
/// rows: its first dimension, M or N, is `row`, its last is K.
bool gemm_mn_major(const Tensor& operand);

/// Cycles that one iteration of a tile, and all of a tile but its iterations, take on an arch by its facts alone.
struct GemmTileCycles {
  std::int64_t iteration = 0, start = 0, end = 0;
};
GemmTileCycles gemm_tile_cycles(const GemmTile& tile, int out_bytes, const arch::Arch& arch);
/// The tile with the fewest predicted cycles. On the hot path: allocates nothing after an arch's first call. Throws
/// tj::Error(target, unsupported) for an arch without the facts.
int choose_gemm_tile(const GemmSizes& sizes, const GemmKernel& kernel, const arch::Arch& arch);

GemmSizes gemm_sizes(const GemmArgs& args);
GemmKernel gemm_kernel(const GemmArgs& args, const arch::Arch& arch);
/// Throws tj::Error(argument) for sizes or types that are not supported.
GemmKernel gemm_kernel(const GemmConfig& config, const arch::Arch& arch);
Request gemm_request(const GemmKernel& kernel);
std::uint64_t gemm_small_key(const GemmKernel& kernel);

/// What an arch must have to be asked for a tile or a graph.
const arch::Needs& gemm_needs();

/// The graph with costs of one tile shape; see src/ops/README.md for the picture.
graph::Graph gemm_graph(const GemmKernel& kernel, const arch::Arch& arch);
Candidate gemm_candidate(const GemmKernel& kernel, const arch::Arch& arch);

void gemm_plan(const GemmArgs& args, const GemmTile& tile, LaunchPlan& plan);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// on_model: the request runs on the CPU model, so its tensors must live in host memory; else on a GPU. Passing allocates
/// nothing. Reads no tensor memory. Thread safe.
void validate(const GemmArgs& args, bool on_model);
void validate(const GemmConfig& config);

}  // namespace tj::ops
