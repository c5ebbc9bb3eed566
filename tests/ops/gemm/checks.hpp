// Checks that matrix products must pass on every arch that they run on, and helpers of many tests of products.
//
// Decides no arch: tests name them. Invariant: the same sizes for all, against f64.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/emit.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/problem.hpp"

namespace tj::test {

/// The index of a tile by its name.
int gemm_tile_named(const std::string& name);

/// Through the runtime, on the arch's model: "", or what is wrong with the result.
std::string run_gemm_on_model(const std::string& arch, const GemmShape& shape, std::uint64_t seed);

/// Matrix instructions of a unit of waves.
int gemm_wave_products(const graph::Graph& graph, const codegen::Unit& unit);

/// Sizes at the edges of tiles and of K.
void check_gemm_edges(const std::string& arch);

/// So many tiles below each other and side by side, so many iterations of K, on so many blocks.
struct GemmTileRun {
  int rows, columns, k;
  unsigned blocks;
  int missing_rows =
      0;  ///< of the last tiles; where any are, columns and K end early too, and rows of d are further apart
};
/// Type, order and epilogue that differ from one kind to the next: together, each of them.
GemmShape gemm_shape_of_kind(int kind, const ops::GemmTile& tile);
/// Every tile of 16-bit elements that the arch serves, through the runs. shape_of: of the served-th of them, whose
/// index is t; none: left out. Returns how many are served.
int check_gemm_tiles(
    const std::string& arch, const std::vector<GemmTileRun>& runs,
    const std::function<std::optional<GemmShape>(int served, int t, const ops::GemmTile& tile)>& shape_of);

/// Any size gets a tile that the arch serves.
void check_gemm_choices(const std::string& arch);

/// K in parts, which are summed after; operands that begin anywhere, with rows any distance apart, in every order.
void check_gemm_parts_and_places(const std::string& arch);

/// Batches, of a shared b and in place; with alpha 0 neither a nor b is read.
void check_gemm_batches(const std::string& arch);

}  // namespace tj::test
