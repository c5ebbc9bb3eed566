// Protects: a machine without AMD's driver or without such a GPU is told apart from a failure, with what was tried.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/driver.hpp"
#include "support/expect.hpp"
#include "support/installations.hpp"
#include "support/scratch.hpp"
#include "support/skip.hpp"
#include "support/variable.hpp"

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

TEST_CASE(
    "what was looked for is told in one sentence: names, folders, and the loader's words about files that are there") {
  const tj::testing::Scratch scratch;
  std::filesystem::create_directory(scratch / "lib");
  const std::vector<std::string> names = tj::support::rocm_library_names("libamdhip64");
  REQUIRE(names.size() > 1);
  tj::testing::write_bytes(scratch / "lib/" + names[1], "no library");
  const tj::testing::Variable rocm("ROCM_PATH", scratch.path());
  std::string reason;
  if (tj::launch::open_hip(&reason) != nullptr || !tj::testing::has(reason, "no HIP runtime")) return;
  const auto joined = [](const std::vector<std::string>& list, const char* behind) {
    std::string text;
    for (const std::string& each : list) text += (text.empty() ? "" : ", ") + each + behind;
    return text;
  };
  const std::string unused = tj::support::unused_rocm(names);
  const std::string begin =
      "no HIP runtime: libamdhip64 does not open; install ROCm 6 or newer or set ROCM_PATH to its folder" +
      (unused.empty() ? "" : " (" + unused + ")") + "; looked for " + joined(names, "") +
      " where the loader looks and in " + joined(tj::support::rocm_roots(), "/lib");
  CHECK_MESSAGE(reason.starts_with(begin), reason);
  const std::string rest = reason.substr(std::min(begin.size(), reason.size()));
  CHECK_MESSAGE(rest.starts_with("; " + (scratch / "lib/" + names[1]) + ": "), rest);
  CHECK_MESSAGE(!tj::testing::has(rest, "No such file"), rest);
}

}  // namespace
