// Protects that every shipped attention kernel compiles for the real arch with NVRTC, without spills and without the
// compiler serialising the matrix instructions.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "codegen/templates.hpp"
#include "compile/compiler.hpp"
#include "ops/fmha.hpp"
#include "pipeline.hpp"

using namespace tj;

TEST_CASE("shipped configurations: no spill, no serialised matrix instruction, registers as the schedule gives") {
  const auto compiler = compile::make_compiler("nvrtc", {});
  if (!compiler->identity().present()) {
    std::puts("skipped: no NVRTC on this machine");
    std::exit(77);
  }
  const arch::Arch& arch = *arch::find("sm_90a");
  for (const ops::Request& request : ops::fmha_op().requests({{"general-scale", {"both"}}, {"dtype", {"f16"}}})) {
    CAPTURE(request.name);
    const Choice choice = choose(ops::fmha_op(), request, arch);
    const codegen::Unit unit = codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives);
    compile::Job job;
    job.name = request.name + ".cu";
    job.text = unit.text;
    job.arch = arch.name;
    for (const auto& file : codegen::templates()) job.headers.push_back({std::string(file.name), file.text});
    for (const std::string& definition : choice.candidate.definitions) job.options.push_back("-D" + definition);
    const compile::Binary binary = compiler->compile(job);
    INFO(binary.log);
    CHECK(binary.spill_bytes == 0);
    CHECK(binary.warnings.empty());
    CHECK(binary.registers * unit.threads <= arch.registers_per_sm);
    std::printf("%-28s %5.0f ms, %d registers, %d threads, %lld bytes of shared memory\n", request.name.c_str(), binary.milliseconds,
                binary.registers, unit.threads, static_cast<long long>(unit.smem_bytes));
  }
}
