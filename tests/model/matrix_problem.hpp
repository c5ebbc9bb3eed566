// Helpers of tests of matrix instructions: random operands with their product in double, how registers and boxes hold
// them, and a kernel for each width. Decides no layout in shared memory: the tests are about it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/tensor.hpp>

#include "launch/driver.hpp"
#include "types.cuh"

namespace tj::testing {

/// Columns of a warpgroup's products that are tried.
inline constexpr int kGroupColumns[] = {32, 64, 96, 128, 160, 176, 192, 224, 256};
/// The kernel that with_widths() makes for so many.
std::string width_symbol(int columns);
/// `unit`, and behind it a kernel of a warpgroup for each of these widths, which calls its whole<columns>(p).
std::string with_widths(std::string_view unit);

/// Registers of a left operand of 64 rows for instructions of 16 of K each, [instruction][thread][4]. A register goes 8
/// rows down, then 8 elements of K on (PTX ISA, fragment of A of m64k16). left: rows of `depth`.
std::vector<unsigned> left_fragments(const std::vector<std::uint16_t>& left, int depth);

/// Boxes of a matrix whose rows of `columns` elements follow each other.
struct BoxedMatrix {
  void* base;
  int rows, columns;
  int box_rows, box_columns = 64;
  int swizzle_bytes = 128;
  DType dtype = DType::f16;  ///< bytes is all that it says here
};
void map_matrix(launch::Driver& driver, const BoxedMatrix& matrix, TensorMap* map);

/// Random operands of one product of 16-bit elements.
struct MatrixProblem {
  int rows, columns, depth;
  DType dtype;
  bool right_mn;
  std::vector<std::uint16_t> left, left_by_depth;  ///< rows of K; the same, K's rows
  std::vector<std::uint16_t> right;                ///< rows of K, where right_mn K's rows
  std::vector<float> before, out;                  ///< rows of columns

  MatrixProblem(int m, int n, int k, DType of, bool is_right_mn, unsigned seed);
  double expected(int row, int column, bool accumulate) const;
  /// The largest difference between `out` and that; huge for a NaN.
  double worst(bool accumulate = false) const;
};

}  // namespace tj::testing
