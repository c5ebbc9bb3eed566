// Tensor::strided() for sizes that are not written down in a call.
#pragma once

#include <cstdint>
#include <span>

#include <tilejit/tensor.hpp>

namespace tj::support {

/// Throws as Tensor::strided() does.
Tensor strided_tensor(void* data, Device device, DType dtype, std::span<const std::int64_t> shape,
                      std::span<const std::int64_t> strides);

}  // namespace tj::support
