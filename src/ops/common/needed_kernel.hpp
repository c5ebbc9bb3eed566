// A kernel that calls need, to be made before the first of them.
#pragma once

#include "ops/op.hpp"

namespace tj::ops {

struct NeededKernel {
  const Op* op = nullptr;  ///< whose launches look it up
  Kernel kernel;
};

}  // namespace tj::ops
