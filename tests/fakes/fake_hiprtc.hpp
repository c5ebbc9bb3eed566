// Loads the fake hiprtc into this process, where the library looks first, and steers it.
#pragma once

#include "fakes/fake_hiprtc_control.h"
#include "fakes/fake_library.hpp"

namespace tj::test {

class FakeHiprtc : FakeLibrary {
 public:
  FakeHiprtc() : FakeLibrary("libhiprtc.so.6") {
    find(reset, "fake_hiprtc_reset");
    find(compiles, "fake_hiprtc_compiles");
    find(refuse, "fake_hiprtc_refuse");
    find(set_refusal, "fake_hiprtc_set_refusal");
    find(set_param_bytes, "fake_hiprtc_set_param_bytes");
    find(options, "fake_hiprtc_options");
    reset();
  }

  decltype(&fake_hiprtc_reset) reset;
  decltype(&fake_hiprtc_compiles) compiles;
  decltype(&fake_hiprtc_refuse) refuse;
  decltype(&fake_hiprtc_set_refusal) set_refusal;
  decltype(&fake_hiprtc_set_param_bytes) set_param_bytes;
  decltype(&fake_hiprtc_options) options;
};

}  // namespace tj::test
