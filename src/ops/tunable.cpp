// Tensors of operands; see tunable.hpp.
#include "ops/tunable.hpp"

#include <algorithm>

namespace tj::ops {

Tensor Operand::view(Device device, void* data) const {
  Tensor tensor;
  tensor.data = data;
  tensor.device = device;
  tensor.dtype = dtype;
  tensor.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape.begin());
  std::copy(strides.begin(), strides.end(), tensor.strides.begin());
  return tensor;
}

}  // namespace tj::ops
