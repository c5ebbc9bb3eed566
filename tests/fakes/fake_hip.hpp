// Puts the fake HIP runtime into this process, in front of a real one, and steers it.
//
// Invariant: made before anything opens a HIP runtime, and always of one release in a process: what is loaded goes
// first.
#pragma once

#include <cstddef>
#include <string>

#include "fakes/fake_hip_control.h"
#include "fakes/fake_library.hpp"

namespace tj::test {

class FakeHip : FakeLibrary {
 public:
  explicit FakeHip(int release = 6) : FakeLibrary("libamdhip64.so." + std::to_string(release)) {
    find(reset, "fake_hip_reset");
    find(fail, "fake_hip_fail");
    find(log, "fake_hip_log");
    find(record, "fake_hip_record");
    find(leaks, "fake_hip_leaks");
    find(set_devices, "fake_hip_set_devices");
    find(set_processor, "fake_hip_set_processor");
    find(set_physical_units, "fake_hip_set_physical_units");
    find(set_capture, "fake_hip_set_capture");
    find(set_block_ms, "fake_hip_set_block_ms");
    find(last_params, "fake_hip_last_params");
    find(set_device, "hipSetDevice");
    find(get_device, "hipGetDevice");
    find(reset_device, "hipDeviceReset");
    find(take, "hipMalloc");
    find(free, "hipFree");
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
};

}  // namespace tj::test
