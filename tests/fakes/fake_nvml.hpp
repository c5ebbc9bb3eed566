// Puts the fake management library into this process, in front of a real one, and steers it.
//
// Invariant: made before anything opens "libnvidia-ml.so.1"; nothing is told where it is not made.
#pragma once

#include "fakes/fake_library.hpp"
#include "fakes/fake_nvml_control.h"

namespace tj::test {

class FakeNvml : FakeLibrary {
 public:
  FakeNvml() : FakeLibrary("libnvidia-ml.so.1") {
    find(reset, "fake_nvml_reset");
    find(set_clocks, "fake_nvml_set_clocks");
    find(fail, "fake_nvml_fail");
    reset();
  }
  ~FakeNvml() { reset(); }
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;

  decltype(&fake_nvml_reset) reset;
  decltype(&fake_nvml_set_clocks) set_clocks;
  decltype(&fake_nvml_fail) fail;
};

}  // namespace tj::test
