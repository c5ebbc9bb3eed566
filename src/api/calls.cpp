// The calls of each op: by its descriptor, by its configuration, on the default device, of the process-wide runtime.
//
// Decides which op a descriptor belongs to, and nothing else: how a call is served is runtime.cpp's.
#include <vector>

#include "ops/chunk_indices/chunk_indices.hpp"
#include "ops/chunk_o/chunk_o.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/validate.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/steps.hpp"
#include "runtime_impl.hpp"

namespace tj {

namespace {

using Needed = std::vector<ops::NeededKernel>;

Needed needed(const FmhaConfig& config) {
  ops::validate(config);
  return {{&ops::fmha_op(), {ops::fmha_small_key(config)}}};
}
Needed needed(const ChunkIndicesConfig&) { return {{&ops::chunk_indices_op(), {}}}; }
Needed needed(const ChunkOConfig& config) {
  return {{&ops::chunk_o_op(), {ops::chunk_o_small_key(ops::chunk_o_kernel(config))}}};
}

}  // namespace

void Runtime::fmha(const FmhaArgs& args, Stream stream) { impl_->run(ops::fmha_op(), &args, stream); }
void Runtime::gemm(const GemmArgs& args, Stream stream) { impl_->run(ops::gemm_op(), &args, stream); }
void Runtime::chunk_indices(const ChunkIndicesArgs& args, Stream stream) {
  impl_->run(ops::chunk_indices_op(), &args, stream);
}
void Runtime::chunk_o(const ChunkOArgs& args, Stream stream) { impl_->run(ops::chunk_o_op(), &args, stream); }

KernelReport Runtime::prepare(const FmhaArgs& args) { return impl_->prepare(ops::fmha_op(), &args); }
KernelReport Runtime::prepare(const GemmArgs& args) { return impl_->prepare(ops::gemm_op(), &args); }
KernelReport Runtime::prepare(const ChunkIndicesArgs& args) { return impl_->prepare(ops::chunk_indices_op(), &args); }
KernelReport Runtime::prepare(const ChunkOArgs& args) { return impl_->prepare(ops::chunk_o_op(), &args); }
KernelReport Runtime::prepare(const FmhaConfig& config, Device device) {
  return impl_->prepare(needed(config), device);
}
KernelReport Runtime::prepare(const GemmConfig& config, Device device) {
  const ops::Kernel kernel = impl_->prepared_kernel(ops::gemm_op(), ops::gemm_problem_key(config), device);
  return impl_->prepare(ops::gemm_needed_kernels(config, kernel), device);
}
KernelReport Runtime::prepare(const ChunkIndicesConfig& config, Device device) {
  return impl_->prepare(needed(config), device);
}
KernelReport Runtime::prepare(const ChunkOConfig& config, Device device) {
  return impl_->prepare(needed(config), device);
}

KernelReport Runtime::warm(const FmhaConfig& config, std::string_view target) {
  const Needed kernels = needed(config);
  return impl_->warm(kernels, arch::parse_target(target));
}
KernelReport Runtime::warm(const GemmConfig& config, std::string_view target) {
  const ops::ProblemKey problem = ops::gemm_problem_key(config);
  const arch::Target parsed = arch::parse_target(target);
  return impl_->warm(ops::gemm_needed_kernels(config, ops::gemm_op().choose(problem, *parsed.arch)), parsed);
}
KernelReport Runtime::warm(const ChunkIndicesConfig& config, std::string_view target) {
  return impl_->warm(needed(config), arch::parse_target(target));
}
KernelReport Runtime::warm(const ChunkOConfig& config, std::string_view target) {
  const Needed kernels = needed(config);
  return impl_->warm(kernels, arch::parse_target(target));
}

KernelReport Runtime::prepare(const FmhaConfig& config) { return prepare(config, default_device()); }
KernelReport Runtime::prepare(const GemmConfig& config) { return prepare(config, default_device()); }
KernelReport Runtime::prepare(const ChunkIndicesConfig& config) { return prepare(config, default_device()); }
KernelReport Runtime::prepare(const ChunkOConfig& config) { return prepare(config, default_device()); }

void fmha(const FmhaArgs& args, Stream stream) { Runtime::instance().fmha(args, stream); }
void gemm(const GemmArgs& args, Stream stream) { Runtime::instance().gemm(args, stream); }
void chunk_indices(const ChunkIndicesArgs& args, Stream stream) { Runtime::instance().chunk_indices(args, stream); }
void chunk_o(const ChunkOArgs& args, Stream stream) { Runtime::instance().chunk_o(args, stream); }
KernelReport prepare(const FmhaArgs& args) { return Runtime::instance().prepare(args); }
KernelReport prepare(const FmhaConfig& config) { return Runtime::instance().prepare(config); }
KernelReport prepare(const FmhaConfig& config, Device device) { return Runtime::instance().prepare(config, device); }
KernelReport prepare(const GemmArgs& args) { return Runtime::instance().prepare(args); }
KernelReport prepare(const GemmConfig& config) { return Runtime::instance().prepare(config); }
KernelReport prepare(const GemmConfig& config, Device device) { return Runtime::instance().prepare(config, device); }
KernelReport prepare(const ChunkIndicesArgs& args) { return Runtime::instance().prepare(args); }
KernelReport prepare(const ChunkIndicesConfig& config) { return Runtime::instance().prepare(config); }
KernelReport prepare(const ChunkIndicesConfig& config, Device device) {
  return Runtime::instance().prepare(config, device);
}
KernelReport prepare(const ChunkOArgs& args) { return Runtime::instance().prepare(args); }
KernelReport prepare(const ChunkOConfig& config) { return Runtime::instance().prepare(config); }
KernelReport prepare(const ChunkOConfig& config, Device device) { return Runtime::instance().prepare(config, device); }

}  // namespace tj
