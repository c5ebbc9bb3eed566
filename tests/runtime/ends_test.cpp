// Protects a kernel whose compile ends while the process does: the end waits for it until it is on disk.
#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "cache/cache.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/process_end.hpp"

namespace {

using namespace tj::test;

TEST_CASE("a kernel whose compile is under way while the process ends is kept with its alias") {
  Machine machine;
  const int code = tj::testing::wait_for(tj::testing::start_child([&machine] {
    std::atexit([] { ::_exit(0); });  // right behind the library's handlers, which are registered later
    machine.nvrtc.hold(1);
    std::thread([&machine] {
      try {
        tj::Runtime(machine.options()).warm(config_of(), "sm_90a");
      } catch (const tj::Error&) {  // the next kernels begin too late
      }
    }).detach();
    while (machine.nvrtc.compiles() == 0) std::this_thread::yield();
    std::thread([&machine] {
      while (!tj::support::process_is_ending()) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      machine.nvrtc.hold(0);
    }).detach();
    std::exit(1);
    return 1;
  }));
  CHECK(code == 0);
  int kernels = 0, aliases = 0;
  for (const auto& item : tj::cache::Store(machine.cache_dir(), 0, {}).list()) {
    CHECK(item.entry.has_value());
    ++(item.alias ? aliases : kernels);
  }
  CHECK(kernels == 1);
  CHECK(aliases == 1);
}

}  // namespace
