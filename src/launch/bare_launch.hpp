// Launches by nothing but the device's own call: what launching costs without this library. For measuring.
//
// Decides nothing. Invariant: what is launched is what Driver::launch() would.
#pragma once

#include <cstddef>
#include <span>

#include "launch/driver.hpp"

namespace tj::launch {

/// Makes a launch so many times. On CUDA the context is made current once and cuLaunchKernelEx is all that is called
/// between; other drivers' launches have nothing to leave out.
void launch_bare(Driver& driver, int device, const Kernel& kernel, const LaunchConfig& config,
                 std::span<const std::byte> params, Stream stream, int times);

}  // namespace tj::launch
