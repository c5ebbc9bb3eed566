// Launches captured into a HIP graph: what Driver::record() gives.
//
// Decides how a capture begins, ends and is given up. Knows no kernels. Invariant: the stream that was captured and,
// when the work throws, all that was captured are gone when record_hip_graph() returns.
#pragma once

#include <functional>
#include <memory>

#include "launch/driver.hpp"
#include "launch/hip/devices.hpp"

namespace tj::launch {

/// Throws tj::Error(launch, unsupported) where the runtime has no graphs.
std::shared_ptr<Recording> record_hip_graph(std::shared_ptr<HipDevices> devices, int device,
                                            const std::function<void(Stream)>& work);

}  // namespace tj::launch
