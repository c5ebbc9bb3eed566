// Protects: a HIP runtime of before ROCm 6, whose properties lie elsewhere and which lacks what came later, serves all
// the same; what needs the rest is refused by name.
#include <doctest/doctest.h>

#include <string>

#include "compile/library_search.hpp"
#include "fakes/fake_hip.hpp"
#include "launch/driver.hpp"
#include "support/expect.hpp"
#include "support/made_code_object.hpp"

namespace {

using tj::test::FakeHip;
using tj::testing::error_of;
using tj::testing::has;

std::shared_ptr<tj::launch::Driver> open() {
  std::string reason;
  auto driver = tj::launch::open_hip(&reason);
  REQUIRE_MESSAGE(driver != nullptr, reason);
  return driver;
}

TEST_CASE("properties are read in the older layout") {
  FakeHip fake(5);
  fake.set_processor("gfx1030");
  const tj::launch::DeviceInfo info = open()->device_info(0);
  CHECK(has(fake.log(), "hipGetDeviceProperties\n"));
  CHECK(info.name == "Fake Radeon");
  CHECK(info.processor == "gfx1030");
  CHECK(info.major == 11);
  CHECK(info.smem_per_block_bytes == 65536);
  CHECK(info.sm_count == 96);
  fake.set_physical_units(0);
  CHECK(open()->device_info(0).sm_count == 48);
}

TEST_CASE("kernels run; scratch memory is plain memory; graphs are refused") {
  FakeHip fake(5);
  {
    const auto driver = open();
    const auto kernel = driver->load(0, tj::testing::made_code_object("gfx1100", "kernel", 4, 64), "kernel", 0);
    const int parameter = 1;
    driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 64}}, &parameter, sizeof(parameter), {});
    driver->scratch(0, 100, {}).reset();
    CHECK(has(fake.log(), "hipMalloc 100\n"));
    CHECK(has(fake.log(), "hipFree memory 1\n"));
    const tj::Error graph = error_of([&] { driver->record(0, [](tj::Stream) {}); });
    CHECK(graph.code == tj::Code::unsupported);
    CHECK_MESSAGE(has(graph.message, "has no graphs"), graph.message);
    fake.set_capture(1);
    const tj::Error captured = error_of([&] { driver->scratch(0, 100, {}); });
    CHECK(captured.code == tj::Code::unsupported);
    CHECK_MESSAGE(has(captured.message, "outside of the capture"), captured.message);
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("the compiler of the runtime that the process has loaded is looked for first") {
  FakeHip fake(5);
  const tj::compile::LibrarySearch search = tj::compile::hiprtc_search();
  REQUIRE(!search.groups.empty());
  CHECK(search.groups[0] == std::vector<std::string>{TJ_FAKES_DIR});
}

}  // namespace
