// Puts the fake CUDA driver into this process, in front of a real one, and steers it.
//
// Invariant: made before anything opens "libcuda.so.1"; the loader then hands out the fake for that name.
#pragma once

#include <dlfcn.h>

#include <doctest/doctest.h>

#include <string>

#include "fakes/fake_cuda_control.h"

namespace tj::test {

class FakeCuda {
 public:
  FakeCuda() {
    // Stays open: the product keeps the driver for the life of the process too.
    void* handle = ::dlopen(TJ_FAKES_DIR "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle != nullptr, ::dlerror());
    find(handle, reset, "fake_cuda_reset");
    find(handle, fail, "fake_cuda_fail");
    find(handle, log, "fake_cuda_log");
    find(handle, record, "fake_cuda_record");
    find(handle, leaks, "fake_cuda_leaks");
    find(handle, set_devices, "fake_cuda_set_devices");
    find(handle, set_capability, "fake_cuda_set_capability");
    find(handle, set_driver_version, "fake_cuda_set_driver_version");
    find(handle, last_params, "fake_cuda_last_params");
    find(handle, set_capture, "fake_cuda_set_capture");
    find(handle, set_param_bytes, "fake_cuda_set_param_bytes");
    find(handle, set_block_ms, "fake_cuda_set_block_ms");
    find(handle, on_launch, "fake_cuda_on_launch");
    find(handle, push, "cuCtxPushCurrent_v2");
    find(handle, pop, "cuCtxPopCurrent_v2");
    find(handle, retain, "cuDevicePrimaryCtxRetain");
    find(handle, release, "cuDevicePrimaryCtxRelease_v2");
    find(handle, destroy_context, "cuDevicePrimaryCtxReset_v2");
    reset();
  }

  decltype(&fake_cuda_reset) reset;
  decltype(&fake_cuda_fail) fail;
  decltype(&fake_cuda_log) log;
  decltype(&fake_cuda_record) record;
  decltype(&fake_cuda_leaks) leaks;
  decltype(&fake_cuda_set_devices) set_devices;
  decltype(&fake_cuda_set_capability) set_capability;
  decltype(&fake_cuda_set_driver_version) set_driver_version;
  decltype(&fake_cuda_last_params) last_params;
  decltype(&fake_cuda_set_capture) set_capture;
  decltype(&fake_cuda_set_param_bytes) set_param_bytes;
  decltype(&fake_cuda_set_block_ms) set_block_ms;
  decltype(&fake_cuda_on_launch) on_launch;

  // The driver's own calls, for tests that play another user of the process.
  int (*push)(void* context);
  int (*pop)(void** context);
  int (*retain)(void** context, int device);
  int (*release)(int device);
  int (*destroy_context)(int device);

 private:
  template <class Function>
  static void find(void* handle, Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    const bool found = function != nullptr;
    REQUIRE_MESSAGE(found, name);
  }
};

}  // namespace tj::test
