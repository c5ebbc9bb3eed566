// A matrix product served by a choice that a test names, step by step on the model, with as many blocks as it likes.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/gemm/steps.hpp"

namespace tj::test {

class StepKernels {
 public:
  explicit StepKernels(const std::string& arch = "sm_90a") : arch_(*arch::find(arch)) {}

  /// "", a fault, or what is wrong with the result. launches: names of the kernels, in order.
  std::string run(GemmProblem& problem, const ops::GemmChoice& choice, std::uint64_t seed, unsigned blocks) {
    launches.clear();
    const ops::Kernel kernel = ops::resolve(ops::gemm_op(), &problem.args, choice.number(), arch_);
    const std::size_t bytes = ops::gemm_op().scratch_bytes(&problem.args, kernel);
    std::vector<unsigned char> memory(bytes + 2 * kGuard, kPoison);
    auto* scratch = memory.data() + (kGuard - reinterpret_cast<std::uintptr_t>(memory.data()) % kGuard);
    std::string fault;
    ops::gemm_op().steps(&problem.args, kernel, scratch, [&](const ops::Step& step) {
      const auto& [op, args, by] = step;
      if (!(ops::resolve(*op, args, by.choice, arch_) == by)) fault = "a step's kernel is not that of its args";
      const ops::Request request = op->request_of(by);
      launches.push_back(request.name);
      Made& made = make(*op, request);
      ops::LaunchPlan plan;
      plan.sm_count = blocks * made.kernel->unit.shape.cluster;
      op->plan(args, by, made.geometry, plan);
      if (const std::string said = made.kernel->launch(plan, plan.blocks, seed, {}); fault.empty()) fault = said;
    });
    if (!fault.empty()) return fault;
    for (const unsigned char* at = memory.data(); at < memory.data() + memory.size(); ++at)
      if ((at < scratch || at >= scratch + bytes) && *at != kPoison)
        return "memory beside the scratch memory was written";
    return problem.problem();
  }

  std::vector<std::string> launches;

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kPoison = 0xff;  // a NaN in every type
  struct Made {
    std::unique_ptr<EmittedKernel> kernel;
    ops::Geometry geometry;
  };
  Made& make(const ops::Op& op, const ops::Request& request) {
    Made& made = made_[request.name];
    if (made.kernel) return made;
    const Choice choice = choose(op, request, arch_);
    made.kernel = std::make_unique<EmittedKernel>(choice.candidate.graph, choice.schedule, arch_);
    made.geometry = op.geometry(request, choice.candidate);
    return made;
  }

  const arch::Arch& arch_;
  std::map<std::string, Made> made_;
};

}  // namespace tj::test
