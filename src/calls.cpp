// Calls that are made of others: by an op's name, on the default device, of the process-wide runtime. Decides nothing;
// see runtime.hpp.
#include <tilejit/runtime.hpp>

namespace tj {

void Runtime::fmha(const FmhaArgs& args, Stream stream) { run_op("fmha", &args, stream); }
void Runtime::gemm(const GemmArgs& args, Stream stream) { run_op("gemm", &args, stream); }
void Runtime::chunk_indices(const ChunkIndicesArgs& args, Stream stream) { run_op("chunk_indices", &args, stream); }
void Runtime::chunk_o(const ChunkOArgs& args, Stream stream) { run_op("chunk_o", &args, stream); }
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
