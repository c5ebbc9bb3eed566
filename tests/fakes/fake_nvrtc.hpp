// Puts the fake NVRTC where this process finds it first, and steers it.
//
// Invariant: its place differs from object to object, so no kernel of another one's compiler is ever a hit.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "fakes/fake_library.hpp"
#include "fakes/fake_nvrtc_control.h"
#include "support/scratch.hpp"

namespace tj::test {

class FakeNvrtc : FakeLibrary {
 public:
  FakeNvrtc() : FakeLibrary("libnvrtc.so.1") {
    find(reset, "fake_nvrtc_reset");
    find(compiles, "fake_nvrtc_compiles");
    find(refuse, "fake_nvrtc_refuse");
    find(quick_compiles, "fake_nvrtc_quick_compiles");
    find(hold, "fake_nvrtc_hold");
    find(refuse_only, "fake_nvrtc_refuse_only");
    find(know_times, "fake_nvrtc_know_times");
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
  tj::testing::Scratch folder_;
  std::string before_;
};

}  // namespace tj::test
