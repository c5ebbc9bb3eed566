// See tunable.hpp.
#include "ops/common/tunable.hpp"

#include "support/strided_tensor.hpp"

namespace tj::ops {

Tensor Operand::view(Device device, void* data) const {
  return support::strided_tensor(data, device, dtype, shape, strides);
}

Request request_by(const Op& op, const void* args, int choice, const arch::Arch& arch) {
  return choice == kNoChoice || op.tunable() == nullptr ? op.request_of(args, arch)
                                                        : op.tunable()->request_of(args, choice);
}

}  // namespace tj::ops
