// Host data on a device, through the public API alone.
#pragma once

#include <tilejit/runtime.hpp>

#include <memory>
#include <vector>

namespace tj::samples {

/// Device memory with a copy of `data` in it. Throws tj::Error as Runtime::allocate() and copy() do.
template <class T>
std::shared_ptr<void> upload(Runtime& runtime, Device device, const std::vector<T>& data) {
  std::shared_ptr<void> memory = runtime.allocate(device, data.size() * sizeof(T));
  runtime.copy(memory.get(), device, data.data(), {DeviceKind::cpu, 0}, data.size() * sizeof(T));
  return memory;
}

}  // namespace tj::samples
