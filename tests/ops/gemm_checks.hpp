// What matrix products must bring on every arch whose warps or waves multiply by themselves, and what tests of products say often.
//
// Decides no arch: tests name them. Invariant: the same sizes for all, against f64.
#pragma once

#include <cstdint>
#include <string>

#include "ops/gemm_problem.hpp"

namespace tj::test {

/// The index of a tile by its name.
int gemm_tile_named(const std::string& name);

/// Through the runtime, on the arch's model: "", or what is wrong with the result.
std::string run_gemm_on_model(const std::string& arch, const GemmShape& shape, std::uint64_t seed);

/// Sizes at the edges of tiles and of K.
void check_gemm_edges(const std::string& arch);

/// K in parts, which are summed after; operands that begin anywhere, with rows any distance apart, in every order.
void check_gemm_parts_and_places(const std::string& arch);

/// Batches, of a shared b and in place; with alpha 0 neither a nor b is read.
void check_gemm_batches(const std::string& arch);

}  // namespace tj::test
