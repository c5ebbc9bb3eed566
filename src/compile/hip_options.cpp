// See hip_options.hpp.
#include "compile/hip_options.hpp"

#include "support/fail.hpp"

namespace tj::compile {

std::vector<std::string> hip_options(std::string_view arch) {
  // Options that are given although most are some compiler's default. hiprtc's default is C++14, and the default of
  // contraction has another name in each clang.
  std::vector<std::string> options{support::cat("--offload-arch=", arch), "-std=c++17", "-O3", "-ffp-contract=fast"};
  // From gfx10 on, two compute units can run a block as one. Kernels here count on the shared memory and the barrier of
  // one compute unit. The default of compilers changed with ROCm 6. Before gfx10 there is no such choice.
  if (!arch.starts_with("gfx9")) options.emplace_back("-mcumode");
  return options;
}

}  // namespace tj::compile
