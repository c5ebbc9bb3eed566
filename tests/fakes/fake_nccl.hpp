// Puts the fake NCCL into this process, in front of a real one, and steers it.
//
// Invariant: made before anything opens "libnccl.so.2".
#pragma once

#include "fakes/fake_library.hpp"
#include "fakes/fake_nccl_control.h"

namespace tj::test {

class FakeNccl : FakeLibrary {
 public:
  FakeNccl() : FakeLibrary("libnccl.so.2") {
    find(reset, "fake_nccl_reset");
    find(fail, "fake_nccl_fail");
    find(fail_once, "fake_nccl_fail_once");
    find(alone, "fake_nccl_alone");
    find(set_async, "fake_nccl_set_async");
    find(set_version, "fake_nccl_set_version");
    find(set_busy, "fake_nccl_set_busy");
    find(aborts, "fake_nccl_aborts");
    find(on_abort, "fake_nccl_on_abort");
    find(comms, "fake_nccl_comms");
    find(open_groups, "fake_nccl_open_groups");
    find(windows, "fake_nccl_windows");
    find(comm_init, "ncclCommInitRank");
    find(comm_destroy, "ncclCommDestroy");
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
  decltype(&fake_nccl_fail_once) fail_once;
  decltype(&fake_nccl_alone) alone;
  decltype(&fake_nccl_set_async) set_async;
  decltype(&fake_nccl_set_version) set_version;
  decltype(&fake_nccl_set_busy) set_busy;
  decltype(&fake_nccl_aborts) aborts;
  decltype(&fake_nccl_on_abort) on_abort;
  decltype(&fake_nccl_comms) comms;
  decltype(&fake_nccl_open_groups) open_groups;
  decltype(&fake_nccl_windows) windows;
  int (*comm_init)(void**, int, Id, int);
  int (*comm_destroy)(void*);
};

}  // namespace tj::test
