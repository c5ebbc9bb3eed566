// A kernel that calls need, to be made before the first of them.
#pragma once

#include <cstdint>

#include "ops/op.hpp"

namespace tj::ops {

struct NeededKernel {
  const Op* op = nullptr;  ///< whose launches look it up
  Request request;
  std::uint64_t small_key = 0;
};

}  // namespace tj::ops
