// Protects that marks cost a kernel no spill and leave its matrix instructions asynchronous, on the real compiler;
// prints registers with marks and without.
#include <doctest/doctest.h>

#include <cstdio>

#include "codegen/device_kernel.hpp"

using namespace tj;

namespace {

void check_recording(compile::Compiler& compiler, const char* op_name, const ops::Request& request) {
  CAPTURE(request.name);
  const ops::Op& op = *ops::find(op_name);
  const arch::Arch& arch = *arch::find("sm_90a");
  const test::DeviceKernel plain = test::check_compiles(compiler, op, request);
  const Choice choice = choose(op, request, arch);
  compile::Job job = plain.job;
  job.text = codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives, {.record = true}).text;
  const compile::Binary binary = compiler.compile(job);
  INFO(binary.log);
  CHECK(binary.spill_bytes == 0);
  CHECK(binary.warnings.empty());
  CHECK(binary.registers * plain.unit.shape.threads <= arch.registers_per_sm);
  std::printf("%-44s with marks: %d registers, %.0f ms\n", request.name.c_str(), binary.registers, binary.milliseconds);
}

}  // namespace

TEST_CASE("attention and products with marks: no spill, no serialised matrix instruction") {
  const auto compiler = test::nvrtc_or_skip();
  check_recording(
      *compiler, "fmha",
      ops::find("fmha")->requests({{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"causal", {"true"}}}).front());
  check_recording(*compiler, "gemm",
                  ops::find("gemm")->requests({{"dtype", {"bf16"}}, {"tile", {"128x256x64"}}}).front());
}
