// The public helpers of tj::Tensor, DType and Device.
//
// Decides how contiguous strides come from a shape. Does not judge whether an op accepts the result.
// Invariant: rank never exceeds kMaxRank, and dimensions past it are zero.
#include <tilejit/tensor.hpp>

#include <algorithm>

#include "support/fail.hpp"
#include "support/strided_tensor.hpp"

namespace tj {
namespace {

using Sizes = std::span<const std::int64_t>;

void check_rank(const char* name, std::size_t rank) {
  if (rank <= static_cast<std::size_t>(kMaxRank)) return;
  support::fail(Stage::argument, Code::invalid_argument,
                support::cat("tensor: ", name, " has ", rank, " dimensions; at most ", kMaxRank,
                             " are allowed. Merge neighbouring dimensions or make one call for each outer index."));
}

Tensor with_shape(void* data, Device device, DType dtype, Sizes shape) {
  check_rank("shape", shape.size());
  Tensor tensor;
  tensor.data = data;
  tensor.device = device;
  tensor.dtype = dtype;
  tensor.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape.begin());
  return tensor;
}

}  // namespace

Tensor Tensor::contiguous(void* data, Device device, DType dtype, std::initializer_list<std::int64_t> shape) {
  Tensor tensor = with_shape(data, device, dtype, {shape.begin(), shape.size()});
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    tensor.strides[i] = stride;
    // An empty dimension leaves the strides of the outer ones meaningful. The outermost product is nobody's stride.
    const std::int64_t size = std::max<std::int64_t>(tensor.shape[i], 1);
    if (i > 0 && __builtin_mul_overflow(stride, size, &stride)) {
      support::fail(Stage::argument, Code::invalid_argument,
                    support::cat("tensor: the product of the dimensions from ", i, " on (size ", size,
                                 " there) does not fit in 64 bits; give a shape that fits in memory."));
    }
  }
  return tensor;
}

Tensor Tensor::strided(void* data, Device device, DType dtype, std::initializer_list<std::int64_t> shape,
                       std::initializer_list<std::int64_t> strides) {
  return support::strided_tensor(data, device, dtype, {shape.begin(), shape.size()}, {strides.begin(), strides.size()});
}

Tensor support::strided_tensor(void* data, Device device, DType dtype, Sizes shape, Sizes strides) {
  check_rank("strides", strides.size());
  Tensor tensor = with_shape(data, device, dtype, shape);
  if (shape.size() != strides.size()) {
    support::fail(Stage::argument, Code::invalid_argument,
                  support::cat("tensor: shape has ", shape.size(), " dimensions and strides ", strides.size(),
                               "; give one stride, in elements, for each dimension."));
  }
  std::copy(strides.begin(), strides.end(), tensor.strides.begin());
  return tensor;
}

int size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::e4m3:
      return 1;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::i32:
      return 4;
  }
  return 0;
}

const char* to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::f32:
      return "f32";
    case DType::i32:
      return "i32";
    case DType::e4m3:
      return "e4m3";
  }
  return "unknown";
}

std::string to_string(Device device) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return device.index == 0 ? "cpu" : "cpu:" + std::to_string(device.index);
    case DeviceKind::cuda:
      return "cuda:" + std::to_string(device.index);
    case DeviceKind::hip:
      return "hip:" + std::to_string(device.index);
  }
  return "unknown:" + std::to_string(device.index);
}

}  // namespace tj
