// Puts the fake management library into this process, in front of a real one, and steers it.
//
// Invariant: made before anything opens "libnvidia-ml.so.1"; nothing is told where it is not made.
#pragma once

#include <dlfcn.h>

#include <doctest/doctest.h>

#include "fakes/fake_nvml_control.h"

namespace tj::test {

class FakeNvml {
 public:
  FakeNvml() {
    // Stays open: the product keeps it for the life of the process too.
    void* handle = ::dlopen(TJ_FAKES_DIR "/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle != nullptr, ::dlerror());
    find(handle, reset, "fake_nvml_reset");
    find(handle, set_clocks, "fake_nvml_set_clocks");
    find(handle, fail, "fake_nvml_fail");
    reset();
  }
  ~FakeNvml() { reset(); }
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;

  decltype(&fake_nvml_reset) reset;
  decltype(&fake_nvml_set_clocks) set_clocks;
  decltype(&fake_nvml_fail) fail;

 private:
  template <class Function>
  static void find(void* handle, Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    const bool found = function != nullptr;
    REQUIRE_MESSAGE(found, name);
  }
};

}  // namespace tj::test
