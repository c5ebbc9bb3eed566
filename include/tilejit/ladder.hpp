// Ladders: an op's kernel beside kernels that are held to less, to see what each thing is worth.
//
// Decides how a rung is asked for. Does not decide what a rung is held to: an op's own files do. Calls that are not of
// a ladder never take a rung's kernel.
#pragma once

#include <string_view>

#include <tilejit/export.hpp>
#include <tilejit/ops.hpp>
#include <tilejit/runtime.hpp>

namespace tj {

/// Rungs are numbers. 0 is the op's own kernel, as a call without a ladder takes it. Each rung above 0 is held to one
/// thing less than the rung below it. Every call throws tj::Error: argument for a rung that does not exist or does not
/// serve the sizes, target where the architecture has no ladder of the op, and what the op's own calls throw.
///
///   fmha   1 basic, 2 exp2, 3 transposed_k, 4 latency, 5 occupancy, 6 division: on architectures whose products are a
///          warp's (sm_80, sm_120a and their like), with 64 rows of queries and 64 keys (samples/04_fmha_ladder)
///   gemm   1 to 9, named v1 to v9: each leaves more to the scheduler (samples/02_gemm_ladder), on Hopper and where
///          there is tensor memory; 10, v10, is the op's own kernel. v1 serves M <= 64, N <= 256, K <= 64, v2 M <= 64
///          and N <= 256, both without a batch. The others serve all sizes. Operands are f16 or bf16
///
/// Thread safe, as the runtime is.
class TJ_API Ladder {
 public:
  /// Kernels of this runtime, which outlives the ladder.
  explicit Ladder(Runtime& runtime = Runtime::instance()) : runtime_(&runtime) {}

  /// Runs one rung's kernel, as Runtime::fmha() and Runtime::gemm() run the op's own.
  void run(const FmhaArgs& args, int rung, Stream stream = {});
  void run(const GemmArgs& args, int rung, Stream stream = {});

  /// Makes one rung's kernel ready, as Runtime::prepare() does the op's own.
  KernelReport prepare(const FmhaArgs& args, int rung);
  KernelReport prepare(const GemmArgs& args, int rung);
  KernelReport prepare(const FmhaConfig& config, int rung, Device device);
  KernelReport prepare(const GemmConfig& config, int rung, Device device);

 private:
  Runtime* runtime_;
};

}  // namespace tj
