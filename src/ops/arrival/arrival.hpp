// A wait for other ranks that ends after a time, as an op: a step of calls of several GPUs.
#pragma once

#include <cstdint>

#include "ops/arrival/params.cuh"
#include "ops/op.hpp"

namespace tj::ops {

/// One launch of a warp, on the device of one rank. Words are of memory that other ranks reach; dist/peers.hpp says
/// who writes them when.
struct ArrivalArgs {
  arrival::Params params;
  Device device;
};

/// It is none of all(): nobody but a group calls it.
const Op& arrival_op();

}  // namespace tj::ops
