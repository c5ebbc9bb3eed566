// A request's kernel compiled by NVRTC, for sm_90a unless told, and the demands on every shipped kernel. No spill, no
// warning (the compiler says so when it serialises matrix instructions), registers as the schedule gives. Skips the
// test where there is no NVRTC.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "compile/compiler.hpp"
#include "ops/op.hpp"
#include "pipeline.hpp"

namespace tj::test {

inline auto nvrtc_or_skip() {
  auto compiler = compile::make_compiler("nvrtc", {});
  if (!compiler->identity().present()) {
    std::puts("skipped: no NVRTC on this machine");
    std::exit(77);
  }
  return compiler;
}

/// A unit without a spill or a warning.
inline void check_clean(compile::Compiler& compiler, const compile::Job& job) {
  const compile::Binary binary = compiler.compile(job);
  INFO(binary.log);
  CHECK(binary.bytes.starts_with("\177ELF"));
  CHECK(binary.spill_bytes == 0);
  CHECK(binary.warnings.empty());
  CHECK(binary.registers > 0);
}

struct DeviceKernel {
  codegen::Unit unit;
  compile::Job job;
  compile::Binary binary;
};

inline DeviceKernel check_compiles(compile::Compiler& compiler, const ops::Op& op, const ops::Request& request,
                                   const arch::Arch& arch = *arch::find("sm_90a")) {
  CAPTURE(request.name);
  const Choice choice = choose(op, request, arch);
  DeviceKernel made;
  made.unit = codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives);
  made.job.name = request.name + ".cu";
  made.job.text = made.unit.text;
  made.job.arch = arch.base.empty() ? arch.name : arch.base;
  made.job.headers = headers_for({&arch, false});
  for (const std::string& definition : choice.candidate.definitions) made.job.options.push_back("-D" + definition);
  made.binary = compiler.compile(made.job);
  INFO(made.binary.log);
  CHECK(made.binary.spill_bytes == 0);
  CHECK(made.binary.warnings.empty());
  CHECK(made.binary.registers * made.unit.shape.threads <= arch.registers_per_sm);
  std::printf("%-44s II %4d, %5.0f ms, %d registers, %d threads, %lld bytes of shared memory\n", request.name.c_str(),
              choice.schedule.ii, made.binary.milliseconds, made.binary.registers, made.unit.shape.threads,
              static_cast<long long>(made.unit.shape.smem_bytes));
  return made;
}

}  // namespace tj::test
