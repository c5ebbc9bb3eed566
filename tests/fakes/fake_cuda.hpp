// Puts the fake CUDA driver into this process, in front of a real one, and steers it.
//
// Invariant: made before anything opens "libcuda.so.1"; the loader then hands out the fake for that name.
#pragma once

#include <string>

#include "fakes/fake_cuda_control.h"
#include "fakes/fake_library.hpp"

namespace tj::test {

class FakeCuda : FakeLibrary {
 public:
  FakeCuda() : FakeLibrary("libcuda.so.1") {
    find(reset, "fake_cuda_reset");
    find(fail, "fake_cuda_fail");
    find(log, "fake_cuda_log");
    find(record, "fake_cuda_record");
    find(leaks, "fake_cuda_leaks");
    find(set_devices, "fake_cuda_set_devices");
    find(set_capability, "fake_cuda_set_capability");
    find(set_driver_version, "fake_cuda_set_driver_version");
    find(last_params, "fake_cuda_last_params");
    find(set_capture, "fake_cuda_set_capture");
    find(set_busy, "fake_cuda_set_busy");
    find(frees_while_busy, "fake_cuda_frees_while_busy");
    find(set_lost, "fake_cuda_set_lost");
    find(set_param_bytes, "fake_cuda_set_param_bytes");
    find(set_block_ms, "fake_cuda_set_block_ms");
    find(on_launch, "fake_cuda_on_launch");
    find(push, "cuCtxPushCurrent_v2");
    find(pop, "cuCtxPopCurrent_v2");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(release, "cuDevicePrimaryCtxRelease_v2");
    find(destroy_context, "cuDevicePrimaryCtxReset_v2");
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
  decltype(&fake_cuda_set_busy) set_busy;
  decltype(&fake_cuda_frees_while_busy) frees_while_busy;
  decltype(&fake_cuda_set_lost) set_lost;
  decltype(&fake_cuda_set_param_bytes) set_param_bytes;
  decltype(&fake_cuda_set_block_ms) set_block_ms;
  decltype(&fake_cuda_on_launch) on_launch;

  // The driver's own calls, for tests that play another user of the process.
  int (*push)(void* context);
  int (*pop)(void** context);
  int (*retain)(void** context, int device);
  int (*release)(int device);
  int (*destroy_context)(int device);
};

}  // namespace tj::test
