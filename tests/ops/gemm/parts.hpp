// A matrix product served by a choice that a test names, step by step on the model, with as many blocks as it likes.
#pragma once

#include <cstdint>
#include <string>

#include "ops/gemm/problem.hpp"
#include "ops/gemm/steps.hpp"
#include "ops/step_launcher.hpp"

namespace tj::test {

class StepKernels : public StepLauncher {
 public:
  explicit StepKernels(const std::string& arch = "sm_90a") : StepLauncher(arch) {}

  /// "", a fault, or what is wrong with the result. launches: names of the kernels, in order.
  std::string run(GemmProblem& problem, const ops::GemmChoice& choice, std::uint64_t seed, unsigned blocks) {
    launches.clear();
    const ops::Kernel kernel = ops::resolve(ops::gemm_op(), &problem.args, choice.number(), arch());
    StepScratch scratch(ops::gemm_op().scratch_bytes(&problem.args, kernel));
    std::string fault;
    ops::gemm_op().steps(&problem.args, kernel, scratch.data(), [&](const ops::Step& step) {
      if (fault.empty()) fault = launch(step, seed, blocks);
    });
    if (!fault.empty()) return fault;
    return scratch.kept_around() ? problem.problem() : "memory beside the scratch memory was written";
  }
};

}  // namespace tj::test
