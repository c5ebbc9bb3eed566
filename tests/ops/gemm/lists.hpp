// Problems that matrix products must solve on every arch with copies and a matrix unit that work by themselves: sizes,
// orders, places, batches, epilogues, parts of K and the rungs of the ladder, on the CPU model, against f64.
//
// Decides no arch: tests name it. Invariant: the same problems for all; a tile that an arch does not serve is left out,
// or another one is taken.
#pragma once

#include <string>
#include <vector>

#include "ops/gemm/problem.hpp"

namespace tj::test {

/// Sizes at the edges of tiles and of K.
void check_gemm_sizes(const std::string& arch);
/// Such sizes in every order of the operands and both types, by one tile.
void check_gemm_orders(const std::string& arch);
/// Every type of d with every activation, in batches and in place.
std::vector<GemmShape> gemm_epilogues();
void check_gemm_epilogues(const std::string& arch);
/// Operands that begin anywhere, in every order: their rows are copied first.
void check_gemm_places(const std::string& arch);
/// Batches: strided, with one b for all, in place.
void check_gemm_strides(const std::string& arch);
/// alpha 0 reads neither a nor b, beta 0 not c.
void check_gemm_unread(const std::string& arch);
/// A NaN in a row of a makes that row NaN and no other.
void check_gemm_nan(const std::string& arch);
/// Random sizes, strides and scalars, by a seed that is printed.
void check_random_gemm(const std::string& arch);
/// Clusters of two blocks: rows off their lines, odd numbers of tiles, batches, no iteration.
void check_gemm_clusters(const std::string& arch);

/// Parts of K: sizes that nothing divides, parts without iterations, one block for all.
void check_gemm_part_sizes(const std::string& arch);
/// Parts of K in every order, with every type, epilogue and output, batches, shared operands, in place.
void check_gemm_part_forms(const std::string& arch);
/// Parts of K by tiles of several products and by clusters.
void check_gemm_part_tiles(const std::string& arch);
/// Parts of K, with operands that begin anywhere; with alpha 0 only the epilogue runs.
void check_gemm_part_places(const std::string& arch);
/// Equal calls give equal bits, whatever the order in which blocks run.
void check_gemm_part_bits(const std::string& arch);
/// A NaN in a row of a, in parts of K.
void check_gemm_part_nan(const std::string& arch);
/// Random problems in random parts, by a seed that is printed.
void check_random_gemm_parts(const std::string& arch);

/// Every rung of the ladder: odd sizes, orders, a batch, what is added, no iteration.
void check_gemm_rungs(const std::string& arch);

}  // namespace tj::test
