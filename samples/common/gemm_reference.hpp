// Matrix products in f64, and how far a result is from them: for samples.
//
// Decides which rows are compared and the metric. Plain loops over host memory. Invariant: a comparison says how many
// rows it looked at.
#pragma once

#include <cstdint>
#include <vector>

#include <tilejit/tensor.hpp>

namespace tj::samples {

/// Limits on ||d - ref|| / ||ref|| for outputs of the operands' type.
inline double max_gemm_error(DType dtype) { return dtype == DType::bf16 ? 4e-3 : 5e-4; }

/// Some rows of a b^T, all of them where that is little work; rows of every part of a tile.
struct GemmReference {
  std::int64_t m = 0, n = 0, k = 0;
  std::vector<std::int64_t> rows;
  std::vector<double> values;  ///< of each row, n
};

/// a [m, k] and b [n, k], dense, f16 or bf16.
GemmReference gemm_reference(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b, std::int64_t m,
                             std::int64_t n, std::int64_t k, DType dtype, std::uint64_t seed);

/// ||d - ref|| / ||ref|| over the rows; NaN where an element is. d is dense [m, n] of `dtype`.
double gemm_error(const GemmReference& reference, const std::vector<std::uint16_t>& d, DType dtype);

}  // namespace tj::samples
