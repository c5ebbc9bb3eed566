// Products of groups in host memory for tests: random inputs, NaN in all rows that no group has, a poisoned output.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/grouped_gemm.hpp>
#include <tilejit/runtime.hpp>

#include "ops/gemm/own_ends.hpp"

namespace tj::test {

struct GroupedShape {
  std::vector<int> counts;  ///< rows of each group
  int n = 64, k = 64;
  Grouping grouping = Grouping::ends;
  DType dtype = DType::bf16, out = DType::bf16;
  Scales scales = Scales::tensor;
  bool scale_a_transposed = false, scale_b_transposed = false;  ///< as GroupedGemmConfig
  bool packed_scales = false;                                   ///< exponents, four in an i32
  bool bias = false;
  Activation gate = Activation::none;  ///< d has half of the columns
  bool gate_interleaved = false;
  bool packed_out = false;  ///< scales of a d of e4m3 are exponents; else f32
  float beta = 0;           ///< else c is added
  bool in_place = false;    ///< c is d
  int columns() const { return gate == Activation::none ? n : n / 2; }  ///< of d
  int spare = 0;    ///< rows of a behind the last group's, or of each group with counts
  int padding = 0;  ///< elements between rows of d
  std::string text() const;
};

/// Ways to tell groups of rows.
inline constexpr std::array kGroupings = {Grouping::ends, Grouping::counts, Grouping::rows};
/// Groups that begin at any row, of e4m3 with scales of blocks in one of their orders.
inline GroupedShape scaled_shape(Grouping grouping, Scales scales, bool a_transposed, unsigned seed) {
  GroupedShape shape;
  shape.counts = {5, 66, 0, 130, 2};
  shape.grouping = grouping;
  shape.dtype = DType::e4m3;
  shape.scales = scales;
  shape.scale_a_transposed = a_transposed;
  shape.scale_b_transposed = seed % 3 == 0;
  shape.k = 400 + 16 * static_cast<int>(seed % 4);
  return shape;
}

class GroupedProblem {
 public:
  GroupedProblem(const GroupedShape& shape, std::uint64_t seed);
  GroupedGemmArgs args;
  std::vector<std::int32_t> list;  ///< a test may write what it likes
  OwnEnd end;                      ///< what args.end_text says, in f64

  void run(Runtime& runtime) { runtime.run(args); }
  /// "": every row of a group is the product, in f64; no other element of d's memory was written. Else what is wrong.
  std::string problem() const;
  /// Was any byte written outside d's rows?
  bool written_outside() const;
  const std::vector<unsigned char>& result() const { return d_; }

 private:
  void fill(const GroupedShape& shape, std::uint64_t seed);
  double expected(std::size_t group, std::int64_t row, int column) const;
  double ended(double value, std::size_t group, std::int64_t row, int column) const;
  double product(std::size_t group, std::int64_t row, int column) const;
  double sum(std::size_t group, std::int64_t row, int column) const;
  std::int64_t row_of(std::size_t group, int row) const;
  std::string quantised_problem() const;
  DType added() const { return shape_.out != DType::e4m3 ? shape_.out : DType::bf16; }  ///< type of bias

  GroupedShape shape_;
  std::vector<std::int64_t> begins_;  ///< of groups, in rows of a over all matrices
  std::int64_t rows_ = 0;             ///< of all matrices of a
  std::vector<unsigned char> a_, b_, c_, d_, bias_;
  std::vector<float> scale_a_, scale_b_, scale_d_;
};

}  // namespace tj::test
