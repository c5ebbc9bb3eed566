// A bulk-copy view of a tensor, neutral between backends. Filled by ops, encoded by launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <tilejit/tensor.hpp>

namespace tj::support {

/// Innermost dimension first, as the hardware counts.
struct TensorMapDesc {
  void* base = nullptr;
  DType dtype = DType::f16;
  int rank = 0;                                 ///< 1 to 5
  std::array<std::uint64_t, 5> dims{};          ///< elements
  std::array<std::uint64_t, 5> stride_bytes{};  ///< [0] is the element size; others multiples of 16
  std::array<std::uint32_t, 5> box{};           ///< elements, each <= 256
  int swizzle_bytes = 128;                      ///< 0, 32, 64, 128; elements outside are filled with zero
  bool read_once = false;                       ///< a launch asks for each line once, and memory is its limit

  friend bool operator==(const TensorMapDesc&, const TensorMapDesc&) = default;
};
inline constexpr std::size_t kTensorMapBytes = 128;

}  // namespace tj::support
