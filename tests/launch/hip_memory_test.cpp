// Protects what the HIP driver object tells of memory that is held, and gives back.
#include <doctest/doctest.h>

#include <string>

#include "fakes/fake_hip.hpp"
#include "launch/driver.hpp"

namespace {

TEST_CASE("memory that is held is told, and a pool's free memory can be given back") {
  tj::test::FakeHip fake;
  std::string reason;
  const auto driver = tj::launch::open_hip(&reason);
  REQUIRE_MESSAGE(driver != nullptr, reason);
  CHECK(driver->memory_use(0).workspace_bytes == 0);
  CHECK(driver->trim_pool(0) == 0);  // there is no pool yet
  driver->scratch(0, 1000, {}).reset();
  auto memory = driver->allocate(0, 500);
  CHECK(driver->memory_use(0).workspace_bytes == 1000);
  CHECK(driver->memory_use(0).workspace_used_bytes == 0);
  CHECK(driver->memory_use(0).allocated_bytes == 500);
  fake.set_capture(1);  // of any thread: it goes on
  CHECK(driver->memory_use(0).workspace_bytes == 1000);
  fake.set_capture(0);
  memory.reset();
  CHECK(driver->trim_pool(0) == 1000);
  CHECK(driver->memory_use(0).workspace_bytes == 0);
  CHECK(driver->memory_use(0).allocated_bytes == 0);
  CHECK(driver->memory_use(7).allocated_bytes == 0);
  CHECK(driver->trim_pool(7) == 0);
  CHECK(std::string(fake.leaks()).find("capture") == std::string::npos);
}

}  // namespace
