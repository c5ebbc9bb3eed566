// Tensors of tokens, numbers and states as the launch parameters of gated delta rules have them; strides in bytes.
//
// Decides how a tensor with or without a batch becomes one. On the hot path: allocates nothing.
#pragma once

#include <optional>
#include <type_traits>

#include <tilejit/tensor.hpp>

#include "ops/common/tensor_args.hpp"
#include "ops/gated_delta_rule/params.cuh"

namespace tj::ops::gated_delta_rule {

inline long long bytes_apart(const Tensor& tensor, int dimension) {
  return stride(tensor, dimension) * size_of(tensor.dtype);
}
inline long long bytes_between(const Tensor& tensor, int batched_rank) {
  return batch_stride(tensor, batched_rank) * size_of(tensor.dtype);
}

/// Address and steps in bytes of a tensor [.., T, H, X].
inline Tokens tokens_of(const Tensor& tensor) {
  return {tensor.data, bytes_between(tensor, 4), bytes_apart(tensor, tensor.rank - 3),
          bytes_apart(tensor, tensor.rank - 2)};
}

/// after: so many dimensions follow that of heads.
inline Numbers numbers_of(const std::optional<Tensor>& tensor, int after) {
  if (!tensor) return {};
  const int heads = tensor->rank - 1 - after;
  return {tensor->data, bytes_between(*tensor, 3 + after), bytes_apart(*tensor, heads - 1),
          bytes_apart(*tensor, heads)};
}

/// Address and steps in bytes of a pool [slots, H, V, K].
inline States states_of(const std::optional<Tensor>& pool, const std::optional<Tensor>& slots = {}) {
  static_assert(std::has_unique_object_representations_v<States>);  // plans compare every byte
  States states{};
  if (!pool) return states;
  states.data = pool->data;
  states.slot = bytes_apart(*pool, 0);
  states.head = bytes_apart(*pool, 1);
  states.row = bytes_apart(*pool, 2);
  states.count = static_cast<int>(pool->shape[0]);
  if (slots) states.slots = static_cast<const int*>(slots->data);
  return states;
}

inline bool is_half(const std::optional<Tensor>& tensor) { return tensor && tensor->dtype != DType::f32; }

inline int option(bool given, Option bit) { return given ? static_cast<int>(bit) : 0; }

}  // namespace tj::ops::gated_delta_rule
