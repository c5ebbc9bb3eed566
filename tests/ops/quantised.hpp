// A row of a result that a product quantises: what its elements and its scales should be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <tilejit/tensor.hpp>

namespace tj::test {

/// Scale `block` of a row, also of those that are four exponents in a word. place: of the row's first scale, in
/// elements; apart: from one scale (word) to the next.
double written_scale(const Tensor& scales, std::int64_t place, std::int64_t apart, std::int64_t block);

struct QuantisedRow {
  std::span<const double> wanted;              ///< in f64
  std::function<double(std::size_t)> element;  ///< of e4m3, by its column
  std::function<double(std::size_t)> scale;    ///< of each 128 columns
  double slack = 0;                            ///< that results in f32 may be off
  bool powers_of_two = false;

  /// "": elements are within half a step of e4m3 of wanted / scale, and scales are the largest magnitudes / 448. Else
  /// what is wrong.
  std::string problem() const;
};

}  // namespace tj::test
