// Calls of ladders; see tilejit/ladder.hpp.
#include <tilejit/ladder.hpp>

#include "ops/fmha/fmha.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/steps.hpp"
#include "runtime_impl.hpp"

namespace tj {

void Ladder::run(const FmhaArgs& args, int rung, Stream stream) {
  runtime_->impl_->run_rung(ops::fmha_op(), &args, rung, stream);
}
void Ladder::run(const GemmArgs& args, int rung, Stream stream) {
  runtime_->impl_->run_rung(ops::gemm_op(), &args, rung, stream);
}

KernelReport Ladder::prepare(const FmhaArgs& args, int rung) {
  return runtime_->impl_->prepare_rung(ops::fmha_op(), &args, rung);
}
KernelReport Ladder::prepare(const GemmArgs& args, int rung) {
  return runtime_->impl_->prepare_rung(ops::gemm_op(), &args, rung);
}

KernelReport Ladder::prepare(const FmhaConfig& config, int rung, Device device) {
  const ops::Op& op = ops::fmha_op();
  ops::fmha_request(config);  // refuses what is not served
  Runtime::Impl& impl = *runtime_->impl_;
  return impl.prepare({{&op, impl.rung_kernel(op, {ops::fmha_small_key(config)}, rung, device)}}, device);
}
KernelReport Ladder::prepare(const GemmConfig& config, int rung, Device device) {
  const ops::Op& op = ops::gemm_op();
  const ops::ProblemKey problem = ops::gemm_problem_key(config);
  Runtime::Impl& impl = *runtime_->impl_;
  impl.tunings.refresh(device);
  return impl.prepare(ops::gemm_needed_kernels(config, impl.rung_kernel(op, problem, rung, device)), device);
}

}  // namespace tj
