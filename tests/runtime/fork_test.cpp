// Protects a child that was forked while a thread of its parent was in NVRTC: what is in the cache loads, what would
// have to be compiled is refused by a reason, and nothing waits for that thread. Nor does a fork wait for a thread
// whose warnings nobody reads.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>

#include <tilejit/tilejit.h>
#include <tilejit/preparation.hpp>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::KernelOrigin;
using tj::Runtime;
using tj::testing::said_by;
using tj::testing::start_child;
using tj::testing::wait_for;

constexpr unsigned kHangs_s = 60;  // after which a child does not end at all
constexpr const char* kRefusal = "NVRTC cannot be used in this process: it was forked while another thread";

/// A pipe in the place of standard error, full, and nobody reads.
void fill_standard_error() {
  int ends[2];
  if (::pipe(ends) != 0) ::_exit(20);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  const std::string much(std::size_t{1} << 12, 'x');
  while (::write(ends[1], much.data(), much.size()) > 0 || ::write(ends[1], much.data(), 1) > 0) continue;
  ::fcntl(ends[1], F_SETFL, 0);
  ::dup2(ends[1], STDERR_FILENO);
}

// The first case: a process warns of a variable once.
TEST_CASE("a fork waits for no thread that makes the process's runtime and cannot write its warnings") {
  Machine machine;
  for (const bool in_c : {false, true})
    CHECK(wait_for(start_child([&] {
            ::alarm(kHangs_s);
            ::setenv("TJ_TEACHES_NOTHING", "1", 1);
            ::setenv("TJ_CACHE_DIR", machine.cache_dir().c_str(), 1);
            fill_standard_error();
            const auto use = [in_c] {
              tj_runtime* runtime = nullptr;
              if (in_c)
                tj_runtime_instance(&runtime);
              else
                Runtime::instance().counters();
            };
            static std::atomic<pid_t> user{0};
            static std::atomic<bool> over{false};
            std::thread([use] {
              user = ::gettid();
              use();
              over = true;
            }).detach();
            while (user == 0 || !tj::testing::sleeps_in(user, SYS_write))
              if (over) return 9;  // it has warned of nothing
            const auto start = std::chrono::steady_clock::now();
            const pid_t child = ::fork();
            if (child == 0) {
              use();
              ::_exit(said_by([] { Runtime::instance().counters(); }).empty() ? 0 : 1);
            }
            if (std::chrono::steady_clock::now() - start > std::chrono::seconds(5)) return 8;
            return wait_for(child);
          })) == 0);
}

TEST_CASE("a child forked beside a compile loads from the cache, and compiles nothing: not in a call, nor in a list") {
  Machine machine;
  Runtime runtime(machine.options());
  runtime.warm(config_of(), "sm_90a");
  machine.nvrtc.hold(1);
  const int before = machine.nvrtc.compiles();
  std::thread compiles([&] { runtime.warm(config_of(true), "sm_90a"); });
  while (machine.nvrtc.compiles() == before) std::this_thread::yield();
  CHECK(wait_for(start_child([&] {
          ::alarm(kHangs_s);
          if (runtime.warm(config_of(), "sm_90a").origin != KernelOrigin::disk) return 1;
          if (!has(said_by([&] { runtime.warm(config_of(false, 64), "sm_90a"); }), kRefusal)) return 2;
          Runtime own(machine.options());
          if (own.warm(config_of(), "sm_90a").origin != KernelOrigin::disk) return 3;
          if (!has(said_by([&] { own.warm(config_of(false, 64), "sm_90a"); }), kRefusal)) return 4;
          tj::Options apart = machine.options();
          apart.use_disk_cache = false;  // not even for the parent's compile of this very kernel
          Runtime alone(apart);
          if (!has(said_by([&] { alone.warm(config_of(true), "sm_90a"); }), kRefusal)) return 5;
          tj::Preparation list(own);
          list.add(config_of(true, 64), {tj::DeviceKind::cuda, 0});
          if (list.wait().failed == 0) return 6;
          for (const tj::PreparedKernel& each : list.kernels())
            if (each.error && !has(each.error->message, kRefusal)) return 7;
          return 0;
        })) == 0);
  machine.nvrtc.hold(0);
  compiles.join();
}

TEST_CASE("a child that waits for the kernel that its parent compiles gets it from the cache") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.nvrtc.hold(1);
  const auto warm = [&] { return runtime.warm_flags("combine", "--dtype f16 --out f16", "sm_90a"); };  // one kernel
  std::thread compiles(warm);
  while (machine.nvrtc.compiles() == 0) std::this_thread::yield();
  const pid_t child = start_child([&] {
    ::alarm(kHangs_s);
    const auto kernels = warm();
    return kernels.size() == 1 && kernels[0].origin == KernelOrigin::disk ? 0 : 1;
  });
  machine.nvrtc.hold(0);
  compiles.join();
  CHECK(wait_for(child) == 0);
}

}  // namespace
