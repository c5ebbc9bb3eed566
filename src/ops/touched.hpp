// The memory that a launch of an op reads and writes: what a checker holds its accesses against.
//
// Decides how tensors become ranges. Does not decide who checks. Invariant: a range reaches from a tensor's first element to its last; gaps
// between rows are in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <tilejit/tensor.hpp>

#include "support/memory_range.hpp"

namespace tj::ops {

class Op;

class Touched {
 public:
  Touched() = default;
  /// What one launch of the op for args touches; nothing without an op.
  Touched(const Op* op, const void* args);
  void reads(const Tensor& tensor) { add(tensor, false); }
  void reads(const std::optional<Tensor>& tensor) {
    if (tensor) add(*tensor, false);
  }
  void writes(const Tensor& tensor) { add(tensor, true); }
  void writes(const std::optional<Tensor>& tensor) {
    if (tensor) add(*tensor, true);
  }
  std::span<const support::MemoryRange> ranges() const { return {ranges_.data(), count_}; }

 private:
  static constexpr std::size_t kMost = 12;  // tensors of a descriptor, and more

  void add(const Tensor& tensor, bool written) {
    std::int64_t last = 0;
    for (int i = 0; i < tensor.rank; ++i) last += (tensor.shape[static_cast<std::size_t>(i)] - 1) * tensor.strides[static_cast<std::size_t>(i)];
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
    ranges_.at(count_++) = {begin, begin + static_cast<std::uintptr_t>((last + 1) * size_of(tensor.dtype)), written};
  }

  std::array<support::MemoryRange, kMost> ranges_{};
  std::size_t count_ = 0;
};

}  // namespace tj::ops
