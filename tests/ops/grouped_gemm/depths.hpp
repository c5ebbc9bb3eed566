// Products of groups along K in host memory for tests: random inputs, NaN in all of K that no group has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/grouped_gemm.hpp>
#include <tilejit/runtime.hpp>

#include "ops/gemm/own_ends.hpp"

namespace tj::test {

struct DepthsShape {
  std::vector<int> depths;  ///< K of each group
  int m = 64, n = 64, spare = 0;
  DType dtype = DType::bf16, out = DType::f32;
  bool bias = false;
  float beta = 0;  ///< c is d
};

/// a and b have a row for each place of K; those of no group are NaN.
class DepthsProblem {
 public:
  DepthsProblem(const DepthsShape& shape, unsigned seed);
  GroupedGemmArgs args;
  std::vector<std::int32_t> list;
  OwnEnd end;  ///< what args.end_text says, in f64

  std::string run(Runtime& runtime) {
    runtime.run(args);
    return problem();
  }
  /// "", or what is wrong with d beside f64.
  std::string problem() const;

 private:
  double element(const Tensor& t, const std::vector<std::uint16_t>& memory, int row, std::int64_t k) const;
  double put(std::vector<unsigned char>& bytes, std::size_t i, float value) const;
  double get(const std::vector<unsigned char>& bytes, std::size_t i) const;

  DepthsShape shape_;
  std::int32_t k_ = 0;
  std::vector<std::uint16_t> a_, b_;
  std::vector<unsigned char> d_, bias_;
  std::vector<double> before_, bias_values_;
};

}  // namespace tj::test
