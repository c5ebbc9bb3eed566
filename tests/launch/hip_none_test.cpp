// Protects: a machine without AMD's driver or without such a GPU is told apart from a failure, with what was tried.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "launch/driver.hpp"
#include "support/expect.hpp"
#include "support/skip.hpp"

namespace {

TEST_CASE("no runtime, or one that finds no device") {
  std::string reason;
  if (tj::launch::open_hip(&reason) != nullptr) tj::testing::skip("this machine has an AMD GPU");
  const bool none = tj::testing::has(reason, "no HIP runtime") && tj::testing::has(reason, "libamdhip64.so.7") &&
                    tj::testing::has(reason, "/opt/rocm/lib");
  const bool no_device =
      tj::testing::has(reason, "finds no device") && tj::testing::has(reason, "hipErrorInvalidDevice (101)");
  CHECK_MESSAGE((none || no_device || tj::testing::has(reason, "hipErrorNoDevice (100)")), reason);
}

TEST_CASE(
    "a ROCM_PATH that does not exist is named, whether nothing opens or another runtime is used; files that are not "
    "there are not listed") {
  ::setenv("ROCM_PATH", "/does/not/exist", 1);
  std::string reason;
  const auto driver = tj::launch::open_hip(&reason);
  ::unsetenv("ROCM_PATH");
  CHECK_MESSAGE(tj::testing::has(reason, "ROCM_PATH is '/does/not/exist', which does not exist"), reason);
  CHECK_MESSAGE(!tj::testing::has(reason, "No such file or directory"), reason);
  if (driver == nullptr && tj::testing::has(reason, "no HIP runtime"))
    CHECK_MESSAGE(reason.size() < 500, reason);
  else
    CHECK_MESSAGE(tj::testing::has(reason, " is used instead"), reason);
}

}  // namespace
