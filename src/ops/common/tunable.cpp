// See tunable.hpp.
#include "ops/common/tunable.hpp"

#include "support/strided_tensor.hpp"

namespace tj::ops {

Tensor Operand::view(Device device, void* data) const {
  return support::strided_tensor(data, device, dtype, shape, strides);
}

}  // namespace tj::ops
