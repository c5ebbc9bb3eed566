// A wait for other ranks that ends after a time, as an op: a step of calls of several GPUs.
#pragma once

#include <cstdint>

#include "ops/op.hpp"
#include "ops/peer_wait/params.cuh"

namespace tj::ops {

/// One launch of a warp, on the device of one rank. Words are of memory that other ranks reach; dist/peers.hpp says
/// who writes them when.
struct PeerWaitArgs {
  peer_wait::Params params;
  Device device;
};

/// It is none of all(): nobody but a group calls it.
const Op& peer_wait_op();

}  // namespace tj::ops
