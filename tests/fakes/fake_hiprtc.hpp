// Loads the fake hiprtc into this process, where the library looks first, and steers it.
#pragma once

#include <dlfcn.h>

#include <doctest/doctest.h>

#include "fakes/fake_hiprtc_control.h"

namespace tj::test {

class FakeHiprtc {
 public:
  FakeHiprtc() {
    // Stays open: the product keeps its compiler for the life of the process too.
    void* handle = ::dlopen(TJ_FAKES_DIR "/libhiprtc.so.6", RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle != nullptr, ::dlerror());
    find(handle, reset, "fake_hiprtc_reset");
    find(handle, compiles, "fake_hiprtc_compiles");
    find(handle, refuse, "fake_hiprtc_refuse");
    find(handle, set_refusal, "fake_hiprtc_set_refusal");
    find(handle, set_param_bytes, "fake_hiprtc_set_param_bytes");
    find(handle, options, "fake_hiprtc_options");
    reset();
  }

  decltype(&fake_hiprtc_reset) reset;
  decltype(&fake_hiprtc_compiles) compiles;
  decltype(&fake_hiprtc_refuse) refuse;
  decltype(&fake_hiprtc_set_refusal) set_refusal;
  decltype(&fake_hiprtc_set_param_bytes) set_param_bytes;
  decltype(&fake_hiprtc_options) options;

 private:
  template <class Function>
  static void find(void* handle, Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    const bool found = function != nullptr;
    REQUIRE_MESSAGE(found, name);
  }
};

}  // namespace tj::test
