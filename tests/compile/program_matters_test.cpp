// Protects a program from what NVRTC does to the process in its first compile. The program's signal handlers stay, and
// a change that it makes meanwhile outlives the compile. NVRTC's new exit handlers wait for what is being compiled.
#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "compile/backends.hpp"
#include "fakes/fake_nvrtc.hpp"
#include "support/process_end.hpp"
#include "support/scratch.hpp"

namespace {

using Handler = void (*)(int);
using tj::testing::start_child;
using tj::testing::wait_for;

void first(int) {}
void second(int) {}

Handler handler_of(int number) {
  struct sigaction now{};
  ::sigaction(number, nullptr, &now);
  return now.sa_handler;
}

tj::compile::Job job() {
  tj::compile::Job of;
  of.name = "unit.cu";
  of.text = "text";
  of.arch = "sm_90a";
  return of;
}

TEST_CASE("a signal does what the program has said, also while NVRTC compiles for the first time") {
  const tj::test::FakeNvrtc fake;
  CHECK(wait_for(start_child([&] {  // a process without a compile yet
          std::signal(SIGTERM, &first);
          std::signal(SIGINT, SIG_DFL);
          std::signal(SIGHUP, &first);
          std::signal(SIGXFSZ, SIG_DFL);
          fake.hold(1);
          std::thread compiles([] { tj::compile::make_nvrtc()->compile(job()); });
          while (fake.compiles() == 0) std::this_thread::yield();
          const bool kept = handler_of(SIGTERM) == &first && handler_of(SIGINT) == SIG_DFL &&
                            handler_of(SIGHUP) == &first && handler_of(SIGXFSZ) == SIG_DFL;
          std::signal(SIGTERM, &second);
          std::signal(SIGHUP, SIG_IGN);
          std::signal(SIGINT, &second);
          fake.hold(0);
          compiles.join();
          const bool changed =
              handler_of(SIGTERM) == &second && handler_of(SIGINT) == &second && handler_of(SIGHUP) == SIG_IGN;
          return (kept ? 0 : 1) + (changed ? 0 : 2);
        })) == 0);
}

TEST_CASE("exit() in a thread that never used the library waits for a compile whose handlers are new") {
  const tj::test::FakeNvrtc fake;
  CHECK(wait_for(start_child([&] {
          fake.hold(1);
          std::thread([] {
            const auto nvrtc = tj::compile::make_nvrtc();
            for (int i = 0; i < 20; ++i) nvrtc->version();  // the library's watch is over by then
            nvrtc->compile(job());
          }).detach();
          std::thread([&] {
            while (fake.compiles() == 0) std::this_thread::yield();
            std::thread([&] {
              while (!tj::support::process_is_ending()) std::this_thread::yield();
              fake.hold(0);
            }).detach();
            std::exit(0);
          }).join();
          return 1;
        })) == 0);
}

}  // namespace
