// Properties of a HIP device, from either layout of hipDeviceProp_t.
//
// Decides which call answers and where in its answer each number lies. Knows no kernels.
#pragma once

#include <cstdint>
#include <string>

#include "launch/hip/api.hpp"

namespace tj::launch {

struct HipProperties {
  std::string name;       ///< "AMD Radeon RX 7900 XTX"
  std::string processor;  ///< gcnArchName: "gfx90a:sramecc+:xnack-"
  int major = 0, minor = 0;
  int compute_units = 0;
  std::int64_t shared_bytes_per_block = 0;
};

/// Throws tj::Error(load) naming the call that failed or the answer that makes no sense.
HipProperties read_hip_properties(const HipApi& api, int device);

}  // namespace tj::launch
