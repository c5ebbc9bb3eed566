// A request's kernel compiled for an AMD arch, and the demands on every shipped kernel there. No spill, no scratch
// memory, no hidden argument; registers and shared memory for the blocks that are to share a compute unit. The
// work-group that was asked for, and as many matrix instructions as the unit's calls have.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <functional>
#include <string>

#include "arch/arch.hpp"
#include "codegen/amd_code.hpp"
#include "codegen/emit.hpp"
#include "ops/op.hpp"
#include "pipeline.hpp"

namespace tj::test {

inline int calls_of(const std::string& text, const std::string& body) {
  int found = 0;
  for (std::size_t at = text.find(" " + body + "("); at != std::string::npos; at = text.find(" " + body + "(", at + 1))
    ++found;
  return found;
}

/// `matrix`: how many matrix instructions the unit is to have.
inline void check_amd_kernel(compile::Compiler& compiler, const ops::Op& op, const ops::Request& request,
                             const arch::Arch& arch,
                             const std::function<int(const graph::Graph&, const codegen::Unit&)>& matrix) {
  const Choice choice = choose(op, request, arch);
  const codegen::Unit unit = codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives);
  compile::Job job;
  job.name = request.name + ".cu";
  job.text = unit.text;
  job.arch = arch.name;
  job.headers = headers_for({&arch, false});
  const compile::Binary binary = compiler.compile(job);
  INFO(arch.name, " ", choice.candidate.graph.name, "\n", binary.log);
  CHECK(binary.spill_bytes == 0);
  CHECK(binary.warnings.empty());
  const auto object = support::read_code_object(binary.bytes);
  REQUIRE(object.has_value());
  REQUIRE(object->kernels.size() == 1);
  const support::CodeObjectKernel& kernel = object->kernels.front();
  CHECK(object->processor == arch.name);
  CHECK(kernel.scratch_bytes == 0);
  CHECK_FALSE(kernel.hidden_arguments);
  CHECK_FALSE(kernel.dynamic_stack);
  CHECK_FALSE(kernel.two_units);
  CHECK(kernel.wave == arch.warp_size);
  CHECK(kernel.max_threads == unit.shape.threads);
  const int blocks = choice.candidate.graph.blocks_per_sm,
            given = (kernel.vgprs + arch.register_step - 1) / arch.register_step * arch.register_step;
  CHECK(std::int64_t{given} * unit.shape.threads * blocks <= arch.registers_per_sm);
  CHECK((kernel.lds_bytes + unit.shape.smem_bytes) * blocks <= arch.smem_per_sm_bytes);
  CHECK(testing::matrix_instructions(binary.bytes, arch.warp_size == 64) == matrix(choice.candidate.graph, unit));
  std::printf("%-7s %-44s II %5d, %5.0f ms, %3d VGPRs, %d threads, %lld bytes of LDS, %d blocks\n", arch.name.c_str(),
              choice.candidate.graph.name.c_str(), choice.schedule.ii, binary.milliseconds, kernel.vgprs,
              unit.shape.threads, static_cast<long long>(unit.shape.smem_bytes), blocks);
}

/// Text of struct Config.
inline int constant_of(const graph::Graph& graph, const std::string& name) {
  for (const auto& [member, value] : graph.config)
    if (member == "static constexpr int " + name) return std::stoi(value);
  return 0;
}

}  // namespace tj::test
