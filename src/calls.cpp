// Calls of the process-wide runtime. Decides nothing; see runtime.hpp.
#include <tilejit/runtime.hpp>

namespace tj {

void fmha(const FmhaArgs& args, Stream stream) { Runtime::instance().fmha(args, stream); }
void gemm(const GemmArgs& args, Stream stream) { Runtime::instance().gemm(args, stream); }
void chunk_indices(const ChunkIndicesArgs& args, Stream stream) { Runtime::instance().chunk_indices(args, stream); }
KernelReport prepare(const FmhaArgs& args) { return Runtime::instance().prepare(args); }
KernelReport prepare(const FmhaConfig& config) { return Runtime::instance().prepare(config); }
KernelReport prepare(const FmhaConfig& config, Device device) { return Runtime::instance().prepare(config, device); }
KernelReport prepare(const GemmArgs& args) { return Runtime::instance().prepare(args); }
KernelReport prepare(const GemmConfig& config) { return Runtime::instance().prepare(config); }
KernelReport prepare(const GemmConfig& config, Device device) { return Runtime::instance().prepare(config, device); }
KernelReport prepare(const ChunkIndicesArgs& args) { return Runtime::instance().prepare(args); }
KernelReport prepare(const ChunkIndicesConfig& config) { return Runtime::instance().prepare(config); }
KernelReport prepare(const ChunkIndicesConfig& config, Device device) { return Runtime::instance().prepare(config, device); }

}  // namespace tj
