// Protects: the HIP runtime of the user's ROCm is opened, whatever release the loader would find.
//
// Alone in its process, in which nothing may have opened a HIP runtime before.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "launch/driver.hpp"
#include "support/scratch.hpp"

namespace {

TEST_CASE("ROCM_PATH goes before what the loader finds") {
  const tj::testing::Scratch scratch;
  std::filesystem::create_directory_symlink(TJ_FAKES_DIR, scratch / "lib");
  ::setenv("ROCM_PATH", (scratch / "").c_str(), 1);
  std::string reason;
  const auto driver = tj::launch::open_hip(&reason);
  ::unsetenv("ROCM_PATH");
  REQUIRE_MESSAGE(driver != nullptr, reason);
  CHECK(driver->device_info(0).name == "Fake Radeon");
}

}  // namespace
