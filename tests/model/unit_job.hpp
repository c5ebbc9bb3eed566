// A compile job for a small hand-written unit of primitives, of the CPU model or of a device. The text stands behind
// the includes of the arch's primitives and `using namespace tj::dev`. Kernels may include the files there.
#pragma once

#include <string>
#include <string_view>

#include "arch/arch.hpp"
#include "compile/compiler.hpp"
#include "pipeline.hpp"

namespace tj::testing {

inline compile::Job unit_job(std::string_view text, const arch::Target& target) {
  compile::Job job;
  job.name = target.model ? "unit.cpp" : "unit.cu";
  job.text = "#include \"arch/" + target.arch->primitives +
             ".cuh\"\n#include \"pipeline.cuh\"\n#include \"tiles.cuh\"\nusing namespace tj::dev;\n" +
             std::string(text);
  job.arch = target.arch->name;
  job.headers = headers_for(target);
  if (target.model) job.options = {"-Wall", "-Wextra", "-Werror"};
  return job;
}
inline compile::Job device_job(std::string_view text, const arch::Arch& arch) { return unit_job(text, {&arch, false}); }

}  // namespace tj::testing
