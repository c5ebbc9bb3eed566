// See matrix_problem.hpp.
#include "model/matrix_problem.hpp"

#include <cmath>
#include <random>

#include "common/half.hpp"
#include "support/tensor_map.hpp"

namespace tj::testing {

std::string width_symbol(int columns) { return "kernel_" + std::to_string(columns); }

std::string with_widths(std::string_view unit) {
  std::string text(unit);
  for (const int columns : kGroupColumns)
    text += "TJ_KERNEL(" + width_symbol(columns) + ", 128, Params, p) { whole<" + std::to_string(columns) + ">(p); }\n";
  return text;
}

std::vector<unsigned> left_fragments(const std::vector<std::uint16_t>& left, int depth) {
  std::vector<unsigned> fragments;
  for (int step = 0; step < 4; ++step)
    for (int thread = 0; thread < 128; ++thread)
      for (int r = 0; r < 4; ++r) {
        const int row = 16 * (thread / 32) + thread % 32 / 4 + 8 * (r % 2),
                  k = 16 * step + 2 * (thread % 4) + 8 * (r / 2);
        const auto at = static_cast<std::size_t>(row * depth + k);
        fragments.push_back(left[at] | static_cast<unsigned>(left[at + 1]) << 16);
      }
  return fragments;
}

void map_matrix(launch::Driver& driver, const BoxedMatrix& matrix, TensorMap* map) {
  const auto rows = static_cast<std::uint64_t>(matrix.rows), columns = static_cast<std::uint64_t>(matrix.columns);
  const auto bytes = static_cast<std::uint64_t>(size_of(matrix.dtype));
  support::TensorMapDesc desc;
  desc.base = matrix.base;
  desc.dtype = matrix.dtype;
  desc.rank = 4;
  desc.dims = {columns, rows, 1, 1};
  desc.stride_bytes = {bytes, columns * bytes, rows * columns * bytes, rows * columns * bytes};
  desc.box = {static_cast<std::uint32_t>(matrix.box_columns), static_cast<std::uint32_t>(matrix.box_rows), 1, 1};
  desc.swizzle_bytes = matrix.swizzle_bytes;
  driver.encode_tensor_map(0, desc, map);
}

MatrixProblem::MatrixProblem(int m, int n, int k, DType of, bool is_right_mn, unsigned seed)
    : rows(m),
      columns(n),
      depth(k),
      dtype(of),
      right_mn(is_right_mn),
      left(static_cast<std::size_t>(m * k)),
      left_by_depth(left.size()),
      right(static_cast<std::size_t>(n * k)),
      before(static_cast<std::size_t>(m * n)) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto any = [&] { return samples::from_float(normal(random), dtype); };
  for (auto& v : left) v = any();
  for (auto& v : right) v = any();
  for (auto& v : before) v = normal(random);
  out = before;
  for (int row = 0; row < rows; ++row)
    for (int d = 0; d < depth; ++d)
      left_by_depth[static_cast<std::size_t>(d * rows + row)] = left[static_cast<std::size_t>(row * depth + d)];
}

double MatrixProblem::expected(int row, int column, bool accumulate) const {
  const auto value = [&](std::uint16_t bits) { return static_cast<double>(samples::to_float(bits, dtype)); };
  double sum = accumulate ? static_cast<double>(before[static_cast<std::size_t>(row * columns + column)]) : 0.0;
  for (int d = 0; d < depth; ++d)
    sum += value(left[static_cast<std::size_t>(row * depth + d)]) *
           value(right[static_cast<std::size_t>(right_mn ? d * columns + column : column * depth + d)]);
  return sum;
}

double MatrixProblem::worst(bool accumulate) const {
  double largest = 0;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      const double difference = std::fabs(static_cast<double>(out[static_cast<std::size_t>(row * columns + column)]) -
                                          expected(row, column, accumulate));
      if (!(difference <= largest)) largest = std::isnan(difference) ? 1e9 : difference;
    }
  return largest;
}

}  // namespace tj::testing
