// A kernel for AMD GPUs that every compiler of HIP takes without a header, and what tests of those compilers share.
#pragma once

#include <string>

#include "compile/compiler.hpp"

namespace tj::testing {

/// Doubles n floats through shared memory; 64 threads a block.
inline const std::string kHipKernel = R"(
struct Params { const float* in; float* out; int n; };
extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(64, 64))) void doubled(Params p) {
  __attribute__((shared)) float values[64];
  const int t = static_cast<int>(__builtin_amdgcn_workitem_id_x()), at = static_cast<int>(__builtin_amdgcn_workgroup_id_x()) * 64 + t;
  values[t] = at < p.n ? p.in[at] : 0.0f;
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  if (at < p.n) p.out[at] = values[63 - t] * kFactor;
}
)";

inline compile::Job hip_job(const std::string& arch,
                            const std::string& text = "#include \"parts/factor.h\"\n" + kHipKernel) {
  compile::Job job;
  job.name = "doubled.cu";
  job.text = text;
  job.headers = {{"parts/factor.h", "#include \"more.h\"\nconstexpr float kFactor = FACTOR;\n"}, {"more.h", ""}};
  job.arch = arch;
  job.options = {"-DFACTOR=2.0f"};
  return job;
}

}  // namespace tj::testing
