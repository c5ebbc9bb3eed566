// Tensors without elements, and what stands for them where a launch must name one.
//
// Decides when a tensor has no element. Does not decide which sizes may be 0 (tensor_checks.hpp), nor what a call
// without some of its elements means: ops do. On the hot path: allocates nothing.
#pragma once

#include <cstdint>

#include <tilejit/tensor.hpp>

#include "support/index.hpp"

namespace tj::ops {

/// Is one of its sizes 0? The rank may be any number.
inline bool is_empty(const Tensor& tensor) {
  for (int i = 0; i < tensor.rank && i < kMaxRank; ++i)
    if (tensor.shape[support::at(i)] == 0) return true;
  return false;
}

/// A tensor of which nothing is read, for maps and parameters that have to name one: sizes of 0 become 1, rows follow
/// each other at multiples of 16 bytes, and the address is another tensor's.
inline Tensor stand_in(const Tensor& empty, const Tensor& place) {
  Tensor result = empty;
  result.data = place.data;
  const std::int64_t unit = 16 / size_of(empty.dtype);
  std::int64_t apart = 1;
  for (int i = result.rank - 1; i >= 0; --i) {
    std::int64_t& size = result.shape[support::at(i)];
    if (size == 0) size = 1;
    result.strides[support::at(i)] = apart;
    apart *= size;
    if (i == result.rank - 1) apart = (apart + unit - 1) / unit * unit;
  }
  return result;
}

}  // namespace tj::ops
