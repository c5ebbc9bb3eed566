// Protects a kernel whose compile ends while the process does: the end waits for it until it is on disk. Protects the
// end, and a list's cancel() and time limit, from threads that only wait for a kernel which another process makes.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <tilejit/preparation.hpp>

#include "cache/cache.hpp"
#include "compile/host_process.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/full.hpp"
#include "support/private_directory.hpp"
#include "support/process.hpp"
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

/// Holds the lock of attention()'s kernel as another process does that makes it.
class HeldKernel {
 public:
  explicit HeldKernel(Machine& machine) : store_(machine.cache_dir(), 0, {}) {
    tj::Runtime(machine.options()).prepare(attention());
    for (const tj::cache::ListedEntry& listed : store_.list()) {
      if (listed.alias) continue;
      const std::string name = std::filesystem::path(listed.path).filename();
      std::filesystem::remove(listed.path);
      held_ = store_.lock({name.substr(0, 64), name.substr(65, 64)});
    }
    REQUIRE(held_ != nullptr);
  }

 private:
  tj::cache::Store store_;
  std::shared_ptr<void> held_;
};

void wait_for_words(Machine& machine, const std::string& text) {
  const auto said = [&] {
    const std::lock_guard lock(machine.mutex);
    return std::any_of(machine.warnings.begin(), machine.warnings.end(),
                       [&](const std::string& each) { return has(each, text); });
  };
  while (!said()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// A child that ends while a list's threads wait, one for another process and one for it. 0: both gave that up.
int ends_beside_waits(Machine& machine, int kernels) {
  return tj::testing::wait_for(tj::testing::start_child([&] {
    static tj::Preparation* list = nullptr;
    static int wanted = 0;
    ::alarm(400);
    wanted = kernels;
    std::atexit([] {
      int given_up = 0;
      for (const tj::PreparedKernel& each : list->kernels())
        given_up +=
            each.error && each.error->code == tj::Code::io && has(each.error->message, tj::support::kProcessIsEnding);
      ::_exit(tj::support::process_end_is_late() ? 8 : given_up == wanted ? 0 : 9);
    });
    tj::Runtime runtime(machine.options());
    list = new tj::Preparation(runtime, {.threads = kernels});
    for (int i = 0; i < kernels; ++i) list->add(attention());
    wait_for_words(machine, "waiting for process");
    if (kernels > 1) wait_for_words(machine, "waiting for another thread");
    std::exit(1);
    return 1;
  }));
}

TEST_CASE("the process's end does not wait for a list's thread that only waits for another process or thread") {
  if (tj::testing::kThreadSanitized) return;
  Machine machine;
  const HeldKernel held(machine);
  CHECK(ends_beside_waits(machine, 1) == 0);
  CHECK(ends_beside_waits(machine, 2) == 0);
}

TEST_CASE("a runtime's end does not wait for a list's thread that only waits for another process") {
  Machine machine;
  const HeldKernel held(machine);
  tj::Options options = machine.options();
  options.wait_limit_s = 30;  // then it would be made here
  auto runtime = std::make_unique<tj::Runtime>(options);
  tj::Preparation list(*runtime);
  list.add(attention());
  wait_for_words(machine, "waiting for process");
  runtime.reset();
  const std::vector<tj::PreparedKernel> kernels = list.kernels();
  REQUIRE(kernels.size() == 1);
  REQUIRE(kernels[0].state == tj::PrepareState::failed);
  CHECK(has(kernels[0].error->message, "this runtime is ending"));
  CHECK(machine.nvrtc.compiles() == 1);
}

/// A list of `kernels` threads that wait for the held kernel, one for another process and the others for it.
tj::Preparation waiting_list(tj::Runtime& runtime, Machine& machine, int kernels, double time_limit_s = 0) {
  tj::Preparation list(runtime, {.threads = kernels, .time_limit_s = time_limit_s});
  for (int i = 0; i < kernels; ++i) list.add(attention());
  wait_for_words(machine, "waiting for process");
  if (kernels > 1) wait_for_words(machine, "waiting for another thread");
  return list;
}

tj::Options patient(Machine& machine) {
  tj::Options options = machine.options();
  options.wait_limit_s = 300;  // then it would be made here
  return options;
}

TEST_CASE("a list that is cancelled leaves out what it only waits for") {
  for (const int kernels : {1, 2}) {
    CAPTURE(kernels);
    Machine machine;
    const HeldKernel held(machine);
    tj::Runtime runtime(patient(machine));
    tj::Preparation list = waiting_list(runtime, machine, kernels);
    CHECK(!list.progress().ended());
    list.cancel();
    const tj::Progress progress = list.wait();
    CHECK(progress.left_out == static_cast<std::size_t>(kernels));
    CHECK(progress.failed == 0);
    CHECK(list.kernels()[0].report.name == "fmha_f16_d128");
    CHECK(!list.kernels()[0].error);
    CHECK(machine.nvrtc.compiles() == 1);
  }
}

TEST_CASE("a list that was cancelled beside a wait goes on with what is added later") {
  Machine machine;
  auto held = std::make_unique<HeldKernel>(machine);
  tj::Runtime runtime(patient(machine));
  tj::Preparation list = waiting_list(runtime, machine, 1);
  list.cancel();
  list.wait();
  held.reset();
  list.add(attention());
  const tj::Progress progress = list.wait();
  CHECK(progress.ready == 1);
  CHECK(progress.left_out == 1);
}

TEST_CASE("a list's time limit ends its waits for other makers") {
  Machine machine;
  const HeldKernel held(machine);
  tj::Runtime runtime(patient(machine));
  const tj::Preparation list = waiting_list(runtime, machine, 2, 1.5);
  CHECK(list.wait().left_out == 2);
  CHECK(machine.nvrtc.compiles() == 1);
}

TEST_CASE("a call goes on waiting for another process where a list beside it was cancelled") {
  Machine machine;
  auto held = std::make_unique<HeldKernel>(machine);
  tj::Runtime runtime(patient(machine));
  tj::Preparation list = waiting_list(runtime, machine, 1);
  std::thread call([&] { runtime.prepare(attention()); });
  wait_for_words(machine, "waiting for another thread");
  list.cancel();
  CHECK(list.wait().left_out == 1);
  CHECK(machine.nvrtc.compiles() == 1);
  held.reset();
  call.join();
  CHECK(machine.nvrtc.compiles() == 2);
}

/// A child whose log sink calls exit() in one of the library's threads ends in two ways. Main returns beside it, or the
/// sink comes to the end first.
enum class First { main, sink };

/// 0: the runtime's end, which a static object's destructor is, waits for no thread in exit().
int sinks_call_exit(Machine& machine, First first, int threads) {
  return tj::testing::wait_for(tj::testing::start_child([&] {
    ::alarm(100);
    static std::atomic<int> inside{0};
    std::atexit([] { ::_exit(0); });
    tj::Options options = machine.options();
    options.use_disk_cache = false;
    options.log_level = tj::LogLevel::trace;
    options.log_sink = [first](tj::LogLevel, std::string_view) {
      ++inside;
      while (first == First::main && !tj::support::process_is_ending()) std::this_thread::yield();
      std::exit(5);
    };
    static tj::Runtime runtime(options);
    static tj::Preparation& list = *new tj::Preparation(runtime, {.threads = threads});
    std::atexit([] {
      if (list.wait().ready != 0) ::_exit(7);  // which does not wait for them, either
    });
    for (int i = 0; i < threads; ++i) list.add(attention({}, i == 1));
    while (inside == 0) std::this_thread::yield();
    if (first == First::main) std::exit(3);
    for (;;) ::pause();
    return 1;
  }));
}

TEST_CASE("a runtime that ends with the process does not wait for its own threads that are in exit()") {
  Machine machine;
  for (const First first : {First::main, First::sink})
    for (const int threads : {1, 2}) {
      CAPTURE(threads);
      CHECK(sinks_call_exit(machine, first, threads) == 0);
    }
}

/// The same with a remote store's function, and a call of the program's that asks it.
int remote_calls_exit(Machine& machine, First first) {
  return tj::testing::wait_for(tj::testing::start_child([&] {
    ::alarm(100);
    static std::atomic<bool> inside{false};
    std::atexit([] { ::_exit(tj::support::process_end_is_late() ? 8 : 0); });
    tj::Options options = machine.options();
    tj::Remote remote;
    remote.trusted = true;
    remote.time_limit_s = 3000;
    remote.get = [first](std::string_view, const tj::RemoteSink&) -> tj::RemoteAnswer {
      inside = true;
      while (first == First::main && !tj::support::process_is_ending()) std::this_thread::yield();
      std::exit(5);
    };
    options.remote = remote;
    static tj::Runtime runtime(options);
    tj::Preparation list(runtime);
    list.add(attention());
    while (!inside) std::this_thread::yield();
    if (first == First::main) std::exit(3);
    for (;;) ::pause();
    return 1;
  }));
}

TEST_CASE("nobody waits for a remote store's function that has called exit()") {
  for (const First first : {First::main, First::sink}) {
    Machine machine;
    CHECK(remote_calls_exit(machine, first) == 0);
  }
}

/// A child whose log sink calls exit() while its thread makes a kernel; a handler then asks for that kernel. 0: it has
/// it, or a reason. `line`: at which of its lines the sink does.
int asks_behind_exit(Machine& machine, First first, bool disk, int line) {
  return tj::testing::wait_for(tj::testing::start_child([&] {
    ::alarm(100);
    static tj::Runtime* runtime = nullptr;
    static std::atomic<bool> inside{false}, armed{true};
    std::atexit([] {
      armed = false;
      try {
        runtime->warm(config_of(), "sm_90a");
      } catch (const tj::Error& error) {
        ::_exit(has(error.message, "ending") ? 0 : 7);
      }
      ::_exit(0);
    });
    tj::Options options = machine.options();
    options.use_disk_cache = disk;
    options.wait_limit_s = 0;  // none
    options.log_level = tj::LogLevel::trace;
    options.log_sink = [first, line](tj::LogLevel, std::string_view) {
      static std::atomic<int> lines{0};
      if (!armed || ++lines != line) return;
      inside = true;
      while (first == First::main && !tj::support::process_is_ending()) std::this_thread::yield();
      std::exit(5);
    };
    runtime = new tj::Runtime(options);
    std::thread([] {
      runtime->warm(config_of(), "sm_90a");
      inside = true;  // there are fewer lines
    }).detach();
    while (!inside) std::this_thread::yield();
    if (first == First::main) std::exit(3);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::exit(4);
    return 1;
  }));
}

TEST_CASE("a call while the process ends does not wait for a kernel whose maker is in exit()") {
  for (const bool disk : {false, true})
    for (const First first : {First::main, First::sink})
      for (int line = 1; line <= 6; ++line) {
        if (tj::testing::share(4) < 4 && (line + (first == First::main)) % 2 != 0)
          continue;  // each line for one of them
        Machine machine;
        if (disk) std::filesystem::create_directories(machine.cache_dir());
        CAPTURE(line);
        CHECK(asks_behind_exit(machine, first, disk, line) == 0);
      }
}

/// A child that is forked while two threads of a list compile. It ends the list's runtime, or itself, and then waits
/// for the list. 0: no kernel is waited for that only the parent makes.
int waits_for_parents(Machine& machine, bool ends_runtime) {
  static tj::Preparation* list = nullptr;
  static constexpr auto is_over = [] {
    const tj::Progress progress = list->wait();
    return progress.ended() && progress.ready == 0;
  };
  return tj::testing::wait_for(tj::testing::start_child([&] {
    ::alarm(100);
    auto runtime = std::make_unique<tj::Runtime>(machine.options());
    list = new tj::Preparation(*runtime, {.threads = 2});
    std::atexit([] { ::_exit(is_over() ? 0 : 7); });
    machine.nvrtc.hold(1);
    list->add(attention());
    list->add(attention({}, true));
    while (machine.nvrtc.compiles() < 2) std::this_thread::yield();
    ::_exit(tj::testing::wait_for(tj::testing::start_child([&] {
      ::alarm(50);
      if (!ends_runtime) std::exit(3);
      runtime.reset();
      return is_over() ? 0 : 8;
    })));
    return 9;
  }));
}

TEST_CASE(
    "a forked child that ends, or whose runtime does, waits for no kernel that its parent's threads were making") {
  for (const bool ends_runtime : {false, true}) {
    Machine machine;
    CHECK(waits_for_parents(machine, ends_runtime) == 0);
  }
}

TEST_CASE("a program that the process's end has ended is not told of as one that failed") {
  CHECK(tj::testing::wait_for(tj::testing::start_child([] {
          ::alarm(100);
          static std::string said;
          static std::atomic<bool> over{false};
          std::atexit([] {
            tj::support::end_processes();
            while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than is expected
            ::_exit(has(said, tj::support::kProcessIsEnding) ? 0 : 7);
          });
          tj::support::end_first();
          std::thread([] {
            const tj::support::PrivateDirectory folder;
            said = tj::testing::said_by([&] { tj::compile::run_process({"sleep", "100"}, folder, 0, ""); });
            over = true;
          }).detach();
          while (!tj::testing::has_child()) std::this_thread::yield();  // the program runs
          std::exit(3);
          return 4;
        })) == 0);
}

}  // namespace
