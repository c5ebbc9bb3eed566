// Puts the fake HIP runtime into this process, in front of a real one, and steers it.
//
// Invariant: made before anything opens a HIP runtime, and always of one release in a process: what is loaded goes
// first.
#pragma once

#include <dlfcn.h>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "fakes/fake_hip_control.h"

namespace tj::test {

class FakeHip {
 public:
  explicit FakeHip(int release = 6) {
    // Stays open: the product keeps the runtime for the life of the process too.
    const std::string path = TJ_FAKES_DIR "/libamdhip64.so." + std::to_string(release);
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle != nullptr, ::dlerror());
    find(handle, reset, "fake_hip_reset");
    find(handle, fail, "fake_hip_fail");
    find(handle, log, "fake_hip_log");
    find(handle, record, "fake_hip_record");
    find(handle, leaks, "fake_hip_leaks");
    find(handle, set_devices, "fake_hip_set_devices");
    find(handle, set_processor, "fake_hip_set_processor");
    find(handle, set_physical_units, "fake_hip_set_physical_units");
    find(handle, set_capture, "fake_hip_set_capture");
    find(handle, set_block_ms, "fake_hip_set_block_ms");
    find(handle, last_params, "fake_hip_last_params");
    find(handle, set_device, "hipSetDevice");
    find(handle, get_device, "hipGetDevice");
    find(handle, reset_device, "hipDeviceReset");
    find(handle, take, "hipMalloc");
    find(handle, free, "hipFree");
    reset();
  }

  decltype(&fake_hip_reset) reset;
  decltype(&fake_hip_fail) fail;
  decltype(&fake_hip_log) log;
  decltype(&fake_hip_record) record;
  decltype(&fake_hip_leaks) leaks;
  decltype(&fake_hip_set_devices) set_devices;
  decltype(&fake_hip_set_processor) set_processor;
  decltype(&fake_hip_set_physical_units) set_physical_units;
  decltype(&fake_hip_set_capture) set_capture;
  decltype(&fake_hip_set_block_ms) set_block_ms;
  decltype(&fake_hip_last_params) last_params;

  // The runtime's own calls, for tests that play another user of the process.
  int (*set_device)(int device);
  int (*get_device)(int* device);
  int (*reset_device)();
  int (*take)(void** memory, std::size_t bytes);
  int (*free)(void* memory);

 private:
  template <class Function>
  static void find(void* handle, Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    const bool found = function != nullptr;
    REQUIRE_MESSAGE(found, name);
  }
};

}  // namespace tj::test
