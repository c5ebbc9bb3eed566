// Protects what a process leaves on the disk where memory files may not be had: a unit's folder is gone at the end of a
// load, and where the process was killed in it, the next process removes it.
#include "model/object.hpp"

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "model/model_unit.hpp"
#include "support/scratch.hpp"
#include "support/variable.hpp"
#include "tests/cache/tracer.hpp"

namespace {

using tj::testing::Accident;
using tj::testing::names_in;
using tj::testing::Tracer;

constexpr const char* kUnit = R"(
struct alignas(64) Params { float* out; };
TJ_KERNEL(one, 32, Params, p) { store_global(p.out, 1.0f); }
)";
constexpr const char* kKillingUnit = R"(
struct alignas(64) Params { float* out; };
TJ_KERNEL(one, 32, Params, p) { store_global(p.out, 1.0f); }
extern "C" int raise(int);
__attribute__((constructor)) static void end_process() { raise(9); }
)";

/// A child that loads the unit, and has no files in memory. Its exit status, or minus the signal that ended it.
int load_from_disk(const std::string& bytes) {
  return Tracer::run(
      [&] {
        tj::model::open_model()->load(0, bytes, "one", 0);
        return 0;
      },
      Accident::fail, 0, {SYS_memfd_create, ENOSYS, tj::testing::Which::all});
}

TEST_CASE("a unit's folder on the disk is gone behind a load, and of a killed process behind the next one's") {
  if (!tj::testing::can_trace()) return;
  const std::string good = tj::testing::compile_model_unit(kUnit),
                    killing = tj::testing::compile_model_unit(kKillingUnit);
  const tj::testing::Scratch base;
  const tj::testing::Variable place("TMPDIR", base.path());
  CHECK(load_from_disk(good) == 0);
  CHECK(names_in(base.path()).empty());
  CHECK(load_from_disk(killing) == -SIGKILL);
  REQUIRE(names_in(base.path()).size() == 1);
  std::vector<std::string> left = names_in(base / names_in(base.path())[0]);
  std::sort(left.begin(), left.end());
  CHECK(left == std::vector<std::string>{".owner", "unit.so"});
  CHECK(load_from_disk(good) == 0);
  CHECK(names_in(base.path()).empty());
}

TEST_CASE("a unit is loaded from memory where the main thread has ended before the process") {
  const std::string good = tj::testing::compile_model_unit(kUnit);
  const tj::testing::Variable place("TMPDIR", "/nowhere");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::thread([&] {
      ::usleep(50000);
      int status = 1;
      try {
        tj::model::open_model()->load(0, good, "one", 0);
        status = 0;
      } catch (const tj::Error&) {
      }
      ::_exit(status);
    }).detach();
    ::syscall(SYS_exit, 0);  // of this thread alone
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace
