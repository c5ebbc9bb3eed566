// Protects: a machine without AMD's driver or without such a GPU is told apart from a failure, with what was tried.
#include <doctest/doctest.h>

#include <string>

#include "launch/driver.hpp"
#include "support/expect.hpp"
#include "support/skip.hpp"

namespace {

TEST_CASE("no runtime, or one that finds no device") {
  std::string reason;
  if (tj::launch::open_hip(&reason) != nullptr) tj::testing::skip("this machine has an AMD GPU");
  const bool none = tj::testing::has(reason, "no HIP runtime") && tj::testing::has(reason, "libamdhip64.so.7") && tj::testing::has(reason, "/opt/rocm/lib/libamdhip64.so.6");
  const bool no_device = tj::testing::has(reason, "finds no device") && tj::testing::has(reason, "hipErrorInvalidDevice (101)");
  CHECK_MESSAGE((none || no_device || tj::testing::has(reason, "hipErrorNoDevice (100)")), reason);
}

}  // namespace
