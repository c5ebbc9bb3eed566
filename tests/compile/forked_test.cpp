// Protects a child that was forked while another thread of its parent was in a call of a compiler's library. The
// library's locks are that thread's for ever there: each call is refused at once, by a reason.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "compile/backends.hpp"
#include "compile/library_search.hpp"
#include "fakes/fake_hiprtc.hpp"
#include "fakes/fake_nvrtc.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace {

using tj::testing::has;
using tj::testing::said_by;
using tj::testing::start_child;
using tj::testing::wait_for;

constexpr unsigned kHangs_s = 60;  // after which a child does not end at all

/// Handlers run in reverse. This one is registered before all of the library's and behind a sanitizer's check of leaks,
/// which would count what the parent's other threads held as lost in a forked child.
bool ends_without_leak_check = false;
const int registered = ::on_exit(
    [](int status, void*) {
      if (ends_without_leak_check) ::_exit(status);
    },
    nullptr);

tj::compile::Job job(const char* arch) {
  tj::compile::Job of;
  of.name = "unit.cu";
  of.text = "text";
  of.arch = arch;
  return of;
}

/// A thread that is in NVRTC until this ends.
class Compiling {
 public:
  explicit Compiling(const tj::test::FakeNvrtc& fake) : fake_(fake) {
    fake_.hold(1);
    const int before = fake_.compiles();
    thread_ = std::thread([] { tj::compile::make_nvrtc()->compile(job("sm_90a")); });
    while (fake_.compiles() == before) std::this_thread::yield();
  }
  ~Compiling() {
    fake_.hold(0);
    thread_.join();
  }

 private:
  const tj::test::FakeNvrtc& fake_;
  std::thread thread_;
};

std::string compile_said() {
  return said_by([] { tj::compile::make_nvrtc()->compile(job("sm_90a")); });
}

bool is_refusal(const std::string& said) {
  return has(said, "compile: NVRTC cannot be used in this process: it was forked while another thread of its parent") &&
         has(said, "make the kernel in the parent") && has(said, "fork while nothing is compiled") &&
         has(said, "start a program (exec)");
}

TEST_CASE("a child that was forked beside a compile has each call of that library refused, and its children, too") {
  const tj::test::FakeNvrtc fake;
  const tj::test::FakeHiprtc hiprtc;
  const Compiling parent(fake);
  CHECK(wait_for(start_child([&] {
          ::alarm(kHangs_s);
          if (!is_refusal(compile_said())) return 1;
          if (!is_refusal(said_by([] { tj::compile::make_nvrtc()->version(); }))) return 2;
          if (wait_for(start_child([&] { return is_refusal(compile_said()) ? 0 : 1; })) != 0) return 3;
          const auto other = tj::compile::make_hiprtc({"libhiprtc", {"libhiprtc.so.6"}, {{TJ_FAKES_DIR}}}, "gfx1100");
          other->compile(job("gfx1100"));  // nobody was in that library
          return 0;
        })) == 0);
}

TEST_CASE("a child that was forked beside a compile ends by exit(), without what the library's handlers wait for") {
  const tj::test::FakeNvrtc fake;
  CHECK(compile_said().empty());  // it has registered its handlers
  const Compiling parent(fake);
  const auto ends = [](int status) {
    ::alarm(kHangs_s);
    ends_without_leak_check = registered == 0;
    std::exit(status);
    return 1;
  };
  CHECK(wait_for(start_child([&] { return ends(7); })) == 7);
  CHECK(wait_for(start_child([&] { return wait_for(start_child([&] { return ends(7); })) == 7 ? ends(5) : 1; })) == 5);
}

TEST_CASE("a child compiles that was forked when the calls had ended, and so do its own children") {
  const tj::test::FakeNvrtc fake;
  {
    const Compiling parent(fake);
  }
  const auto compiles = [&] {
    ::alarm(kHangs_s);
    return compile_said().empty() ? 0 : 1;
  };
  CHECK(wait_for(start_child([&] {
          if (const int status = compiles(); status != 0) return status;
          return wait_for(start_child(compiles));
        })) == 0);
}

TEST_CASE("a child that was forked beside a compile is refused also when its parent's compile has ended") {
  const tj::test::FakeNvrtc fake;
  int go[2];
  REQUIRE(::pipe(go) == 0);
  pid_t child = 0;
  {
    const Compiling parent(fake);
    child = start_child([&] {
      ::alarm(kHangs_s);
      char byte = 0;
      if (::read(go[0], &byte, 1) != 1) return 2;
      return is_refusal(compile_said()) ? 0 : 1;
    });
  }
  CHECK(::write(go[1], "g", 1) == 1);
  CHECK(wait_for(child) == 0);
  CHECK(compile_said().empty());  // the parent's own calls go on
  ::close(go[0]);
  ::close(go[1]);
}

/// Runs behind the library's own exit handlers, so that what it forks comes from a process that is ending.
void fork_at_end() {
  int status = 1;
  std::thread([&] {
    status = wait_for(start_child([] {
      ::alarm(kHangs_s);
      const std::string said = compile_said();
      return has(said, "NVRTC cannot be used in this process: it was forked while its parent was ending") &&
                     has(said, "fork before main returns")
                 ? 0
                 : 1;
    }));
  }).join();
  ::_exit(status);
}

TEST_CASE("a child of a process that is ending is refused a library that exit handlers may have taken down") {
  const tj::test::FakeNvrtc fake;
  CHECK(wait_for(start_child([] {
          std::atexit(&fork_at_end);
          if (!compile_said().empty()) return 2;
          std::exit(3);
          return 4;
        })) == 0);
}

}  // namespace
