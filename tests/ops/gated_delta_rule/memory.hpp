// Tensors in host memory for tests of the gated delta rule: elements of any type, NaN wherever nothing may be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include <tilejit/tensor.hpp>

namespace tj::test {

inline constexpr unsigned char kPoison = 0xff;  ///< of all bytes: a NaN in each type

struct Memory {
  std::vector<unsigned char> bytes;
  std::vector<std::int64_t> shape, strides;
  DType dtype = DType::f32;
  std::size_t at(std::initializer_list<std::int64_t> place) const;
  double get(std::initializer_list<std::int64_t> place) const;
  void set(std::initializer_list<std::int64_t> place, double value);
};

/// Elements come from each(), in order, or stay poison without one. padding: elements between rows.
Tensor make_tensor(Memory& memory, DType dtype, std::vector<std::int64_t> shape, int padding,
                   const std::function<double()>& each);
/// A list of i32.
Tensor list_tensor(std::vector<std::int32_t>& list);

}  // namespace tj::test
