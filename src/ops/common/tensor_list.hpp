// The tensors of a descriptor by name: what a plan sets addresses of and checks.
//
// Decides how an op lists them. Decides nothing about shapes. Invariant: names are literals, in the descriptor's order.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include <tilejit/tensor.hpp>

namespace tj::ops {

struct ListedTensor {
  const char* name = "";
  Tensor* tensor = nullptr;
  bool written = false;
  /// Another tensor of the list, before this one or behind, at whose address this one may be; -1: none.
  int may_be = -1;
};

class TensorList {
 public:
  static constexpr std::size_t kMost = 20;

  void reads(const char* name, Tensor& tensor) { entries_.at(count_++) = {name, &tensor, false}; }
  void writes(const char* name, Tensor& tensor) { entries_.at(count_++) = {name, &tensor, true}; }
  /// Adds nothing for a tensor that is absent.
  void reads(const char* name, std::optional<Tensor>& tensor) {
    if (tensor) reads(name, *tensor);
  }
  void writes(const char* name, std::optional<Tensor>& tensor) {
    if (tensor) writes(name, *tensor);
  }
  /// These two may be one tensor.
  void may_be_one(const Tensor& a, const Tensor& b) {
    const int first = place_of(a), second = place_of(b);
    if (first < 0 || second < 0) return;
    entries_.at(static_cast<std::size_t>(first)).may_be = second;
    entries_.at(static_cast<std::size_t>(second)).may_be = first;
  }
  std::span<const ListedTensor> entries() const { return {entries_.data(), count_}; }

 private:
  int place_of(const Tensor& tensor) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (entries_.at(i).tensor == &tensor) return static_cast<int>(i);
    return -1;
  }

  std::array<ListedTensor, kMost> entries_{};
  std::size_t count_ = 0;
};

}  // namespace tj::ops
