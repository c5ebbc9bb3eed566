// Protects what the HIP driver object tells of memory that is held, and gives back; and what it does when somebody else
// resets the device.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "fakes/fake_hip.hpp"
#include "launch/driver.hpp"
#include "support/expect.hpp"
#include "support/made_code_object.hpp"

namespace {

int count_of(const std::string& log, const std::string& call) {
  int count = 0;
  for (std::size_t at = log.find(call); at != std::string::npos; at = log.find(call, at + 1)) ++count;
  return count;
}

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

TEST_CASE("a device that somebody resets: kernels stay, a new pool serves, and what is gone is not released") {
  tj::test::FakeHip fake;
  for (const bool addresses_come_again : {false, true}) {
    CAPTURE(addresses_come_again);
    fake.reset();
    {
      std::string reason;
      const auto driver = tj::launch::open_hip(&reason);
      REQUIRE_MESSAGE(driver != nullptr, reason);
      const auto kernel =
          driver->load(0, tj::testing::made_code_object("gfx1100", "kernel", sizeof(int), 256), "kernel", 0);
      const int parameter = 1;
      const auto launch = [&](tj::Stream stream) {
        driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 32}}, &parameter, sizeof(parameter), stream);
      };
      auto memory = driver->allocate(0, 500), scratch = driver->scratch(0, 1000, {});
      auto recording = driver->record(0, launch);
      REQUIRE(fake.reset_device() == 0);
      void* others[4] = {};
      if (addresses_come_again)
        for (void*& other : others) REQUIRE(fake.take(&other, 1) == 0);
      CHECK(driver->memory_use(0).allocated_bytes == 0);
      CHECK(driver->memory_use(0).workspace_bytes == 0);
      CHECK(driver->trim_pool(0) == 0);
      launch({});
      driver->scratch(0, 1000, {}).reset();
      auto next = driver->allocate(0, 500);
      CHECK(count_of(fake.log(), "hipMemPoolCreate") == 2);
      CHECK(driver->memory_use(0).allocated_bytes == 500);
      memory.reset();
      scratch.reset();
      CHECK(driver->memory_use(0).allocated_bytes == 500);
      const tj::Error error = tj::testing::error_of([&] { recording->replay({}); });
      CHECK(error.code == tj::Code::driver_error);
      CHECK_MESSAGE(tj::testing::has(error.message, "was reset; record them anew"), error.message);
      CHECK(count_of(fake.log(), "hipGraphExecDestroy") == 0);
      recording.reset();
      CHECK(count_of(fake.log(), "hipGraphExecDestroy") == 0);
      driver->record(0, launch)->replay({});
      REQUIRE(fake.reset_device() == 0);  // with nothing but `next`, which goes after the driver object
    }
    CHECK(std::string(fake.leaks()) == "graphs: 1\n");  // the one that would destroy streams a second time
  }
}

}  // namespace
