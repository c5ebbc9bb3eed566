// The memory that a launch of an op reads and writes: what a checker holds its accesses against.
//
// Decides how tensors become ranges. Does not decide who checks. Invariant: a range reaches from a tensor's first
// element to its last; gaps between rows are in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <tilejit/tensor.hpp>

#include "ops/common/empty.hpp"
#include "support/memory_range.hpp"

namespace tj::ops {

class Op;

class Touched {
 public:
  Touched() = default;
  /// The memory that one launch of the op for args touches; nothing without an op.
  Touched(const Op* op, const void* args);
  /// Adds a tensor that is read in units of so many bytes, a power of two. The units that it begins and ends in are
  /// touched whole.
  void reads(const Tensor& tensor, std::uintptr_t unit = 1) { add(tensor, false, unit); }
  void reads(const std::optional<Tensor>& tensor) {
    if (tensor) reads(*tensor);
  }
  void writes(const Tensor& tensor, std::uintptr_t unit = 1) { add(tensor, true, unit); }
  void writes(const std::optional<Tensor>& tensor) {
    if (tensor) writes(*tensor);
  }
  /// Adds memory that the launch itself was given for what its blocks leave each other; none of no bytes.
  void scratch(const void* begin, std::size_t bytes) {
    if (count_ == 0 || bytes == 0) return;
    const auto at = reinterpret_cast<std::uintptr_t>(begin);
    ranges_.at(count_++) = {at, at + bytes, true};
  }
  std::span<const support::MemoryRange> ranges() const { return {ranges_.data(), count_}; }

 private:
  static constexpr std::size_t kMost = 20;  // tensors of a descriptor, and more

  void add(const Tensor& tensor, bool written, std::uintptr_t unit) {
    if (is_empty(tensor)) return;
    std::int64_t last = 0;
    for (int i = 0; i < tensor.rank; ++i)
      last += (tensor.shape[static_cast<std::size_t>(i)] - 1) * tensor.strides[static_cast<std::size_t>(i)];
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
    const std::uintptr_t end = begin + static_cast<std::uintptr_t>((last + 1) * size_of(tensor.dtype));
    ranges_.at(count_++) = {begin & ~(unit - 1), (end + unit - 1) & ~(unit - 1), written};
  }

  std::array<support::MemoryRange, kMost> ranges_{};
  std::size_t count_ = 0;
};

}  // namespace tj::ops
