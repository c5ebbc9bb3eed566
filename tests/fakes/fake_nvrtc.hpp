// Puts the fake NVRTC where this process finds it first, and steers it.
//
// Invariant: its place differs from object to object, so no kernel of another one's compiler is ever a hit.
#pragma once

#include <dlfcn.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "fakes/fake_nvrtc_control.h"
#include "support/scratch.hpp"

namespace tj::test {

class FakeNvrtc {
 public:
  FakeNvrtc() {
    // Stays open: the product keeps its compiler for the life of the process too.
    void* handle = ::dlopen(TJ_FAKES_DIR "/libnvrtc.so.1", RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle != nullptr, ::dlerror());
    find(handle, reset, "fake_nvrtc_reset");
    find(handle, compiles, "fake_nvrtc_compiles");
    find(handle, refuse, "fake_nvrtc_refuse");
    find(handle, quick_compiles, "fake_nvrtc_quick_compiles");
    find(handle, hold, "fake_nvrtc_hold");
    find(handle, refuse_only, "fake_nvrtc_refuse_only");
    find(handle, know_times, "fake_nvrtc_know_times");
    reset();
    std::filesystem::create_symlink(TJ_FAKES_DIR "/libnvrtc.so.1", folder_ / "libnvrtc.so.13");
    const char* path = std::getenv("LD_LIBRARY_PATH");
    before_ = path != nullptr ? path : "";
    ::setenv("LD_LIBRARY_PATH", (folder_.path() + ":" + before_).c_str(), 1);
  }
  ~FakeNvrtc() { ::setenv("LD_LIBRARY_PATH", before_.c_str(), 1); }
  FakeNvrtc(const FakeNvrtc&) = delete;
  FakeNvrtc& operator=(const FakeNvrtc&) = delete;

  decltype(&fake_nvrtc_reset) reset;
  decltype(&fake_nvrtc_compiles) compiles;
  decltype(&fake_nvrtc_refuse) refuse;
  decltype(&fake_nvrtc_quick_compiles) quick_compiles;
  decltype(&fake_nvrtc_hold) hold;
  decltype(&fake_nvrtc_refuse_only) refuse_only;
  decltype(&fake_nvrtc_know_times) know_times;

 private:
  template <class Function>
  static void find(void* handle, Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    const bool found = function != nullptr;
    REQUIRE_MESSAGE(found, name);
  }

  tj::testing::Scratch folder_;
  std::string before_;
};

}  // namespace tj::test
