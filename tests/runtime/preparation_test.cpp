// Protects kernels made in the background: each ends as ready, failed or left out, in the order of the list, within the
// limits of threads and time; and whoever goes first, handle, runtime or process, nothing hangs or is lost.
#include <tilejit/preparation.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::Code;
using tj::KernelOrigin;
using tj::Preparation;
using tj::PreparedKernel;
using tj::PrepareState;
using tj::Progress;
using tj::Runtime;

constexpr tj::Device kGpu{tj::DeviceKind::cuda, 0};

void wait_until(const std::function<bool()>& there) {
  while (!there()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::vector<PrepareState> states_of(const Preparation& list) {
  std::vector<PrepareState> states;
  for (const PreparedKernel& each : list.kernels()) states.push_back(each.state);
  return states;
}

TEST_CASE("a call in the background: its kernel is ready, on disk and in memory") {
  Machine machine;
  Runtime runtime(machine.options());
  const Preparation list = runtime.prepare_async(attention());
  const Progress progress = list.wait();
  CHECK(progress.ended());
  CHECK(progress.kernels == 1);
  CHECK(progress.ready == 1);
  CHECK(progress.failed + progress.left_out == 0);
  CHECK(progress.seconds > 0);
  CHECK(list.progress().seconds == progress.seconds);  // it stands still
  const std::vector<PreparedKernel> kernels = list.kernels();
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].state == PrepareState::ready);
  CHECK(kernels[0].report.name == "fmha_f16_d128");
  CHECK(kernels[0].report.origin == KernelOrigin::compiled);
  CHECK(!kernels[0].error);
  CHECK(runtime.prepare(attention()).origin == KernelOrigin::memory);
  CHECK(Runtime(machine.options()).prepare(attention()).origin == KernelOrigin::disk);
  CHECK(machine.nvrtc.compiles() == 1);
}

TEST_CASE("a wait for what is no number of seconds is refused, and a negative one has no limit") {
  Machine machine;
  Runtime runtime(machine.options());
  const Preparation list = runtime.prepare_async(attention());
  CHECK(has(error_of([&] { list.wait(std::numeric_limits<double>::quiet_NaN()); }).message, "seconds is no number"));
  CHECK(list.wait(-1).ended());
}

TEST_CASE("a list grows while it is worked at: calls, fields and flags, in their order") {
  Machine machine;
  Runtime runtime(machine.options());
  Preparation list(runtime, {.threads = 2});
  CHECK(list.progress().ended());  // nothing to do is no reason to wait
  CHECK(list.wait().kernels == 0);
  list.add(attention()).add("fmha", static_cast<const void*>(&static_cast<const tj::FmhaArgs&>(attention({}, true))));
  list.add(config_of(true, 64), kGpu);
  list.add_flags("fmha", "--dtype bf16 --head-dim 64,128 --causal true --general-scale false", kGpu);
  const Progress progress = list.wait();
  CHECK(progress.ready == progress.kernels);
  const auto kernels = list.kernels();
  REQUIRE(kernels.size() >= 5);
  CHECK(kernels[0].report.name == "fmha_f16_d128");
  CHECK(kernels[1].report.name.starts_with("fmha_f16_d128_causal"));
  CHECK(kernels.back().report.name.starts_with("fmha_bf16_d128_causal"));
  list.add(attention());
  CHECK(list.wait().ended());
  CHECK(list.kernels().back().report.origin == KernelOrigin::memory);
}

TEST_CASE("one thread makes one kernel at a time; cancel leaves out what has not begun") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.nvrtc.hold(1);
  Preparation list(runtime);
  list.add(attention()).add(attention({}, true)).add(config_of(true, 64), kGpu);
  wait_until([&] { return machine.nvrtc.compiles() == 1; });
  const std::size_t all = list.progress().kernels;
  CHECK(states_of(list)[0] == PrepareState::making);
  CHECK(states_of(list)[1] == PrepareState::waiting);
  CHECK(!list.wait(0.01).ended());
  list.cancel();
  CHECK(!list.progress().ended());
  CHECK(list.progress().left_out == all - 1);
  machine.nvrtc.hold(0);
  const Progress progress = list.wait();
  CHECK(progress.ready == 1);
  CHECK(progress.left_out == all - 1);
  CHECK(machine.nvrtc.compiles() == 1);
  CHECK(list.kernels()[1].report.name.starts_with("fmha_f16_d128_causal"));
  list.add(attention({}, true));  // a list that was cancelled goes on with what comes later
  CHECK(list.wait().ready == 2);
}

TEST_CASE("the time limit leaves out what has not begun by then") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.nvrtc.hold(1);
  Preparation list(runtime, {.threads = 1, .time_limit_s = 0.03});
  list.add(attention()).add(attention({}, true));
  wait_until([&] { return list.progress().left_out == 1; });
  CHECK(!list.progress().ended());
  machine.nvrtc.hold(0);
  CHECK(list.wait().ready == 1);
  list.add(config_of(true, 64), kGpu);
  const Progress late = list.wait();
  CHECK(late.ready == 1);
  CHECK(late.left_out == late.kernels - 1);
}

TEST_CASE("as many threads as were asked for; a call that needs a kernel of the list waits for it") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.nvrtc.hold(1);
  Preparation list(runtime, {.threads = 3});
  list.add(attention()).add(config_of(true, 64), kGpu).add(config_of(true, 128), kGpu);
  wait_until([&] { return machine.nvrtc.compiles() == 3; });
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    machine.nvrtc.hold(0);
  });
  runtime.run(attention());
  opener.join();
  const Progress progress = list.wait();
  CHECK(progress.ready == progress.kernels);
  // Both configurations have the kernel that merges parts, which is made once.
  CHECK(static_cast<std::size_t>(machine.nvrtc.compiles()) + 1 == progress.kernels);
}

TEST_CASE("what cannot be made is the list's to tell, with the kernel's own error, and the others are made") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.nvrtc.refuse("error: no");
  Preparation list(runtime);
  list.add(attention());
  CHECK(list.wait().failed == 1);
  machine.nvrtc.refuse(nullptr);
  list.add(attention({}, true));
  const Progress progress = list.wait();
  CHECK(progress.failed == 1);
  CHECK(progress.ready == 1);
  const auto kernels = list.kernels();
  CHECK(kernels[0].state == PrepareState::failed);
  REQUIRE(kernels[0].error);
  CHECK(kernels[0].error->code == Code::compile_failed);
  CHECK(has(kernels[0].error->message, "error: no"));
  CHECK(kernels[0].report.name == "fmha_f16_d128");
}

TEST_CASE("what is wrong with the arguments is thrown, and adds nothing") {
  Machine machine;
  Runtime runtime(machine.options());
  Preparation list(runtime);
  tj::FmhaArgs bad = attention();
  bad.k.shape[0] = 7;
  CHECK(error_of([&] { list.add(bad); }).code == Code::invalid_argument);
  CHECK(error_of([&] { list.add("nothing", &bad); }).code == Code::invalid_argument);
  CHECK(error_of([&] { list.add("fmha", nullptr); }).code == Code::invalid_argument);
  CHECK(error_of([&] { list.add_flags("fmha", "--dtype f99", kGpu); }).code == Code::invalid_argument);
  CHECK(error_of([&] { list.add(config_of(), {tj::DeviceKind::cuda, 9}); }).code == Code::invalid_argument);
  CHECK(list.progress().kernels == 0);
  for (const tj::PrepareOptions& options :
       {tj::PrepareOptions{0, 0}, tj::PrepareOptions{257, 0}, tj::PrepareOptions{1, -1}, tj::PrepareOptions{1, 1e7}}) {
    const tj::Error error = error_of([&] { Preparation(runtime, options); });
    CHECK(error.code == Code::invalid_argument);
    CHECK(has(error.message, "PrepareOptions::"));
    CHECK(has(error.message, "; allowed: "));
  }
}

TEST_CASE("a list goes on without its handle") {
  Machine machine;
  Runtime runtime(machine.options());
  static_cast<void>(runtime.prepare_async(attention()));
  wait_until([&] { return runtime.counters().loads == 1; });
  // A call between the load and the place in memory shares what is being made, and its report says how that came.
  wait_until([&] { return runtime.prepare(attention()).origin == KernelOrigin::memory; });
  CHECK(machine.nvrtc.compiles() == 1);
}

TEST_CASE("the runtime's end waits for what is being made, and leaves out the rest; the list still tells") {
  Machine machine;
  auto runtime = std::make_unique<Runtime>(machine.options());
  machine.nvrtc.hold(1);
  Preparation list(*runtime);
  list.add(attention()).add(attention({}, true));
  wait_until([&] { return machine.nvrtc.compiles() == 1; });
  std::thread opener([&] {
    wait_until([&] { return list.progress().left_out == 1; });
    machine.nvrtc.hold(0);
  });
  runtime.reset();
  opener.join();
  CHECK(list.progress().ended());
  CHECK(list.wait().ready == 1);
  const tj::Error error = error_of([&] { list.add(attention()); });
  CHECK(error.code == Code::invalid_argument);
  CHECK(has(error.message, "runtime of this preparation has ended"));
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("many lists and runtimes, given up at any time") {
  Machine machine;
  for (int i = 0; i < 30; ++i) {
    Runtime runtime(machine.options());
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        Preparation list(runtime, {.threads = 2});
        for (int k = 0; k < 4; ++k) list.add(attention({2, 4, 2, 300, 500, k % 2 == 0 ? 64 : 128}, (k + t) % 3 == 0));
        if (t == 1) list.cancel();
        if (t == 2) CHECK(list.wait().ended());
      });
    for (std::thread& each : threads) each.join();
  }
  CHECK(machine.nvrtc.compiles() <= 8);
  CHECK(machine.warnings.empty());
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("a forked child goes on with its parent's list, and ends it by itself") {
  Machine machine;
  tj::Options options = machine.options();
  options.use_disk_cache = false;  // else the child waits for its parent, which makes the same kernel
  std::atomic<bool> hold{true};    // in what comes before NVRTC: a child cannot use a library that its parent is in
  std::atomic<int> asked{0};
  options.remote.emplace();
  options.remote->trusted = true;
  options.remote->time_limit_s = 60;
  options.remote->get = [&](std::string_view, const tj::RemoteSink&) {
    ++asked;
    wait_until([&] { return !hold; });
    return tj::RemoteAnswer::absent;
  };
  Runtime runtime(options);
  Preparation list(runtime);
  list.add(attention()).add(attention({}, true));
  wait_until([&] { return asked == 1; });
  CHECK(tj::testing::wait_for(tj::testing::start_child([&] {
          ::alarm(60);
          hold = false;
          return list.wait().ready == 2 ? 0 : 1;
        })) == 0);
  CHECK(tj::testing::wait_for(tj::testing::start_child([&] {
          ::alarm(60);
          list.cancel();
          hold = false;
          const Progress progress = list.wait();
          return progress.ready == 1 && progress.left_out == 1 ? 0 : 1;
        })) == 0);
  CHECK(list.progress().left_out == 0);
  hold = false;
  CHECK(list.wait().ready == 2);
}

}  // namespace
