// Protects that every rung of the ladder compiles for the real arch with NVRTC, without spills and without the compiler serialising
// the matrix instructions, and that a block which is to have its SM to itself asks for more than half of the shared memory.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "codegen/templates.hpp"
#include "compile/compiler.hpp"
#include "ops/gemm.hpp"
#include "pipeline.hpp"

using namespace tj;

TEST_CASE("each rung: no spill, no serialised matrix instruction") {
  const auto compiler = compile::make_compiler("nvrtc", {});
  if (!compiler->identity().present()) {
    std::puts("skipped: no NVRTC on this machine");
    std::exit(77);
  }
  const arch::Arch& arch = *arch::find("sm_90a");
  for (const ops::GemmRung& rung : ops::gemm_rungs()) {
    if (std::string_view(rung.name) == "none") continue;
    const bool odd = rung.thread_copies;  // the longest text: other orders, everything added
    for (const bool plain : {true, false}) {
      if (!plain && !odd) continue;
      std::map<std::string, std::vector<std::string>> flags = {{"dtype", {"f16"}}, {"rung", {rung.name}}};
      if (!plain) flags.insert({{"a-major", {"m"}}, {"b-major", {"n"}}, {"bias", {"true"}}, {"add-c", {"true"}}, {"activation", {"gelu"}}});
      const ops::Request request = ops::gemm_op().requests(flags).front();
      CAPTURE(request.name);
      const Choice choice = choose(ops::gemm_op(), request, arch);
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
      if (rung.tile_a_block) CHECK(2 * unit.smem_bytes > arch.smem_per_block_bytes);
      std::printf("%-44s II %4d, %5.0f ms, %d registers, %d threads, %lld bytes of shared memory\n", request.name.c_str(), choice.schedule.ii, binary.milliseconds,
                  binary.registers, unit.threads, static_cast<long long>(unit.smem_bytes));
    }
  }
}
