// Tensors as launch parameters see them: strides, rows that may be accessed in wide pieces, and the maps of the copy
// engine.
//
// Decides what a dimension of size 1 has for a stride, whatever the tensor says: none, or one that a map may have. Does
// not decide boxes nor the order of dimensions. On the hot path: allocates nothing.
#pragma once

#include <array>
#include <cstdint>

#include <tilejit/tensor.hpp>

#include "support/index.hpp"
#include "support/tensor_map.hpp"
#include "types.cuh"

namespace tj::ops {

inline constexpr std::uint64_t kMapAlignment =
    16;  ///< of a map's address and strides: CUDA driver API, cuTensorMapEncodeTiled

/// Elements between neighbours.
inline long long stride(const Tensor& tensor, int dimension) {
  return tensor.shape[support::at(dimension)] == 1 ? 0 : tensor.strides[support::at(dimension)];
}
/// The stride between matrices of a batch; 0 for a tensor that serves a whole batch.
inline long long batch_stride(const Tensor& tensor, int batched_rank) {
  return tensor.rank == batched_rank ? stride(tensor, 0) : 0;
}

/// Can all rows be accessed so many bytes at a time?
inline bool wide(const Tensor& tensor, int bytes) {
  bool aligned = reinterpret_cast<std::uintptr_t>(tensor.data) % static_cast<std::uintptr_t>(bytes) == 0;
  for (int i = 0; i + 1 < tensor.rank; ++i) aligned = aligned && stride(tensor, i) * size_of(tensor.dtype) % bytes == 0;
  return aligned;
}

/// Dimensions of a map, innermost first: those of a tensor by number, or one of size 1.
inline constexpr int kNoDimension = -1;
using MapDimensions = std::array<int, 4>;
using MapBox = std::array<std::uint32_t, 2>;  ///< elements of the first two; one of each other

inline support::TensorMapDesc tensor_map(const Tensor& tensor, const MapDimensions& dimensions, const MapBox& box) {
  support::TensorMapDesc desc;
  desc.base = tensor.data;
  desc.dtype = tensor.dtype;
  desc.rank = static_cast<int>(dimensions.size());
  const auto element = static_cast<std::uint64_t>(size_of(tensor.dtype));
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const int from = dimensions[i];
    const long long apart = from == kNoDimension ? 0 : stride(tensor, from);
    desc.dims[i] = from == kNoDimension ? 1 : static_cast<std::uint64_t>(tensor.shape[support::at(from)]);
    desc.stride_bytes[i] = apart == 0 ? kMapAlignment : static_cast<std::uint64_t>(apart) * element;
  }
  desc.stride_bytes[0] = element;
  desc.box = {box[0], box[1], 1, 1, 0};
  return desc;
}

/// The map of rank 4 as one whose boxes end with a sequence or a group: types.cuh says how. Its last dimension has
/// one place.
inline void end_with_rows(support::TensorMapDesc& desc) {
  const std::uint64_t row_bytes = desc.stride_bytes[1];
  desc.rank = 5;
  desc.dims = {desc.dims[0], kEndRows, desc.dims[1] + 1, kEndRows + 1ull, desc.dims[2]};
  desc.stride_bytes = {desc.stride_bytes[0], row_bytes, row_bytes, kEndBytes - row_bytes, desc.stride_bytes[2]};
  desc.box = {desc.box[0], desc.box[1], 1, 1, 1};
}

}  // namespace tj::ops
