// A call's descriptor with its tensors at made-up addresses: to validate, resolve and plan a call without its memory.
//
// Decides where tensors are put: apart from each other, each as far from a multiple of 16 bytes as the caller's is.
// Invariant: nobody accesses the addresses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "ops/common/tensor_list.hpp"
#include "ops/op.hpp"

namespace tj {

/// Addresses of the tensors in the list's order, and of the workspace behind them.
using Places = std::array<std::uintptr_t, ops::TensorList::kMost + 1>;

/// Copies of a descriptor. Not thread safe.
class Placement {
 public:
  /// Addresses in args may be null, which counts as a multiple of 16. Throws tj::Error(argument, unsupported) for an op
  /// without plans.
  Placement(const ops::Op& op, const void* args);

  const ops::Op& op() const { return *op_; }
  std::size_t tensors() const { return list_.entries().size(); }
  const ops::ListedTensor& tensor(std::size_t i) const { return list_.entries()[i]; }
  /// Bytes from the tensor's first to its last.
  std::size_t bytes(std::size_t i) const { return bytes_[i]; }
  /// The made-up places, at which the descriptor stands unless at() says otherwise.
  const Places& places() const { return places_; }
  /// The descriptor with its tensors at these places, until the next call.
  const void* at(const Places& places);
  const void* get() { return at(places_); }
  /// Whether one of the caller's addresses is null.
  bool any_null() const { return any_null_; }
  /// Throws tj::Error(argument, unsupported) where the tensors together reach over more than can be placed.
  void check_span() const;

 private:
  const ops::Op* op_;
  std::shared_ptr<void> args_;
  ops::TensorList list_;
  std::array<std::size_t, ops::TensorList::kMost> bytes_{};
  Places places_{};
  double span_bytes_ = 0;
  bool any_null_ = false;
};

}  // namespace tj
