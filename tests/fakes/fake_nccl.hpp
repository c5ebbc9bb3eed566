// Puts the fake NCCL into this process, in front of a real one, and steers it.
//
// Invariant: made before anything opens "libnccl.so.2".
#pragma once

#include <dlfcn.h>

#include <doctest/doctest.h>

#include "fakes/fake_nccl_control.h"

namespace tj::test {

class FakeNccl {
 public:
  FakeNccl() {
    // Stays open: the product keeps it for the life of the process too.
    void* handle = ::dlopen(TJ_FAKES_DIR "/libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle != nullptr, ::dlerror());
    find(handle, reset, "fake_nccl_reset");
    find(handle, fail, "fake_nccl_fail");
    find(handle, set_async, "fake_nccl_set_async");
    find(handle, set_version, "fake_nccl_set_version");
    find(handle, set_busy, "fake_nccl_set_busy");
    find(handle, aborts, "fake_nccl_aborts");
    find(handle, comms, "fake_nccl_comms");
    find(handle, open_groups, "fake_nccl_open_groups");
    find(handle, comm_init, "ncclCommInitRank");
    find(handle, comm_destroy, "ncclCommDestroy");
    reset();
  }
  ~FakeNccl() { reset(); }
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  struct Id {
    char bytes[128];
  };
  decltype(&fake_nccl_reset) reset;
  decltype(&fake_nccl_fail) fail;
  decltype(&fake_nccl_set_async) set_async;
  decltype(&fake_nccl_set_version) set_version;
  decltype(&fake_nccl_set_busy) set_busy;
  decltype(&fake_nccl_aborts) aborts;
  decltype(&fake_nccl_comms) comms;
  decltype(&fake_nccl_open_groups) open_groups;
  int (*comm_init)(void**, int, Id, int);
  int (*comm_destroy)(void*);

 private:
  template <class Function>
  static void find(void* handle, Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    const bool found = function != nullptr;
    REQUIRE_MESSAGE(found, name);
  }
};

}  // namespace tj::test
