// Protects who is served by tensor memory: a B200 and a B300 are not until they are asked to be, since its kernels never ran on one; then what
// is compiled and launched is made for it. The driver and the compiler are the fakes.
#include <doctest/doctest.h>

#include <cstdlib>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::Runtime;

constexpr tj::Device kDevice{tj::DeviceKind::cuda, 0};

struct Served {
  int minor;
  const char *usual, *tensor;
};
constexpr Served kServed[] = {{0, "sm_100", "sm_100a"}, {3, "sm_103", "sm_103a"}};

/// Threads of a block of the last launch, as the fake driver's log has it.
std::string last_launch(const FakeCuda& cuda) {
  std::istringstream lines(cuda.log());
  std::string found;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("cuLaunchKernelEx")) found = line;
  return found;
}

}  // namespace

TEST_CASE("a data-center Blackwell runs what every GPU since 9.0 can, unless tensor memory is asked for") {
  for (const Served& each : kServed) {
    CAPTURE(each.tensor);
    Machine machine;
    machine.cuda.set_capability(10, each.minor);
    {
      Runtime runtime(machine.options());
      CHECK(runtime.target_of(kDevice) == each.usual);
      const tj::KernelReport report = runtime.prepare(config_of());
      CHECK(report.target == each.usual);
      CHECK_FALSE(has(report.schedule_json, "TMEM"));
      runtime.fmha(attention());
    }
    const std::string usual = last_launch(machine.cuda);
    tj::Options options = machine.options();
    options.target = each.tensor;
    Runtime runtime(options);
    CHECK(runtime.target_of(kDevice) == each.tensor);
    const tj::KernelReport report = runtime.prepare(config_of());
    CHECK(report.target == each.tensor);
    CHECK(report.origin == tj::KernelOrigin::compiled);
    CHECK(has(report.schedule_json, "TMEM"));
    runtime.fmha(attention());
    CHECK(last_launch(machine.cuda) != usual);
    CHECK(machine.nvrtc.compiles() == 2);
    CHECK(machine.warnings.empty());
  }
}

TEST_CASE("the variable asks for it too, and what one device needs is not run on another") {
  Machine machine;
  machine.cuda.set_capability(10, 0);
  ::setenv("TJ_TARGET", "sm_100a", 1);
  tj::Options options = machine.options();
  options.target.reset();
  CHECK(Runtime(options).prepare(config_of()).target == "sm_100a");
  ::setenv("TJ_TARGET", "sm_103a", 1);
  const tj::Error other = error_of([&] { Runtime(options).prepare(config_of()); });
  ::unsetenv("TJ_TARGET");
  CHECK(other.stage == tj::Stage::target);
  CHECK_MESSAGE(has(other.message, "target 'sm_103a' does not run on cuda:0 (sm_100)"), other.message);
}

TEST_CASE("other ops under that target: products and chunk output are made for it; what it has no body for is refused by name") {
  Machine machine;
  machine.cuda.set_capability(10, 0);
  tj::Options options = machine.options();
  options.target = "sm_100a";
  Runtime runtime(options);
  CHECK(has(runtime.prepare(tj::GemmConfig{}, kDevice).schedule_json, "TMEM"));
  CHECK(has(runtime.prepare(tj::ChunkOConfig{}, kDevice).schedule_json, "TMEM"));
  tj::GemmConfig narrow;
  narrow.dtype = tj::DType::e4m3;
  narrow.out = tj::DType::bf16;
  const tj::Error refused = error_of([&] { runtime.prepare(narrow, kDevice); });
  CHECK_MESSAGE(has(refused.message, "a.dtype is e4m3; allowed on sm_100a: f16, bf16"), refused.message);
  tj::FmhaConfig step = config_of();
  step.step = 2;
  const tj::Error steps = error_of([&] { runtime.prepare(step); });
  CHECK_MESSAGE(has(steps.message, "sm_100a"), steps.message);
}
