// Protects targets with options in the runtime. They run on their arch's devices, and kernels of different options are
// different kernels. The compiler is told the arch alone, and reports and files bear one name. Devices that nothing
// serves are refused by name.
#include <doctest/doctest.h>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::KernelOrigin;
using tj::Runtime;

tj::Options with_target(Machine& machine, const char* target) {
  tj::Options options = machine.options();
  options.target = target;
  options.dump_dir = machine.scratch / "dump";
  return options;
}

TEST_CASE("a cap is another kernel with one name, whatever its order and unit; the compiler is told the arch alone") {
  Machine machine;
  CHECK(Runtime(with_target(machine, "sm_90a")).prepare(attention()).origin == KernelOrigin::compiled);
  {
    Runtime runtime(with_target(machine, "sm_90a+smem=200K"));
    CHECK(runtime.target_of({tj::DeviceKind::cuda, 0}) == "sm_90a+smem=200K");
    const tj::KernelReport report = runtime.prepare(attention());
    CHECK(report.origin == KernelOrigin::compiled);
    CHECK(report.target == "sm_90a+smem=200K");
    CHECK(report.source_path == machine.scratch / "dump/fmha_f16_d128-sm_90a-smem-200K.cu");
    CHECK(has(report.schedule_json, "\"sm_90a+smem=200K\""));
    runtime.run(attention());
  }
  CHECK(machine.nvrtc.compiles() == 2);
  CHECK(Runtime(with_target(machine, "sm_90a+smem=204800")).prepare(attention()).origin == KernelOrigin::disk);
  CHECK(Runtime(with_target(machine, "sm_90a+smem=227K")).prepare(attention()).origin ==
        KernelOrigin::disk);  // nothing is taken: sm_90a's
  CHECK(Runtime(machine.options()).warm(config_of(), "sm_90a+smem=200K").origin == KernelOrigin::disk);
  // 128x160 does not fit there: one tile serves all sizes. warm() has made those of few queries, too, and their merge.
  CHECK(machine.nvrtc.compiles() == 5);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
  CHECK(machine.warnings.empty());
}

TEST_CASE("options do not fit other devices, and mistakes in them are refused before anything is opened") {
  Machine machine;
  machine.cuda.set_capability(8, 0);
  const tj::Error other = error_of([&] { Runtime(with_target(machine, "sm_90+copies=threads")).prepare(attention()); });
  CHECK(other.stage == tj::Stage::target);
  CHECK_MESSAGE(has(other.message, "target 'sm_90+copies=threads' does not run on cuda:0 (sm_80)"), other.message);
  CHECK(has(other.message, "model:sm_90+copies=threads"));
  CHECK(Runtime(with_target(machine, "sm_80+smem=99K")).target_of({tj::DeviceKind::cuda, 0}) == "sm_80+smem=99K");
  machine.cuda.reset();
  const tj::Error bad = error_of([&] { Runtime runtime(with_target(machine, "sm_90+smem=300K")); });
  CHECK(bad.stage == tj::Stage::target);
  CHECK_MESSAGE(has(bad.message, "smem is '300K'"), bad.message);
  CHECK(std::string(machine.cuda.log()) == "");
}

TEST_CASE("a device that is too old is refused by name with what is served") {
  Machine machine;
  machine.cuda.set_capability(7, 5);
  const tj::Error error = error_of([&] { Runtime(machine.options()).run(attention()); });
  CHECK(error.stage == tj::Stage::target);
  CHECK(error.code == tj::Code::unsupported);
  CHECK(machine.nvrtc.compiles() == 0);
  CHECK(has(error.message, "cuda:0 (Fake H200) is not served"));
  CHECK(has(error.message, "served are 8.0, 8.6"));
  CHECK(has(error.message, "compute capability 7.5 is older than 8.0"));
}

}  // namespace
