// Ladders: an op's kernel beside kernels that are held to less, to see what each thing is worth.
//
// Decides how a rung is asked for. Does not decide what a rung is held to: an op's own files do. Calls that are not of
// a ladder never take a rung's kernel.
#pragma once

#include <string_view>

#include <tilejit/export.hpp>
#include <tilejit/runtime.hpp>

namespace tj {

/// Rungs are numbers. 0 is the op's own kernel, as a call without a ladder takes it. Each rung above 0 is held to one
/// thing less than the rung below it. fmha.hpp and gemm.hpp say what their rungs are. Every call throws tj::Error:
/// argument for an op without a ladder and for a rung that does not exist or does not serve the sizes, target where the
/// architecture has no ladder of the op, and what the op's own calls throw.
///
/// Thread safe, as the runtime is.
class TJ_API Ladder {
 public:
  /// Kernels of this runtime, which outlives the ladder.
  explicit Ladder(Runtime& runtime = Runtime::instance()) : runtime_(&runtime) {}

  /// Runs one rung's kernel, as Runtime::run() runs the op's own.
  template <OpArgs Args>
  void run(const Args& args, int rung, Stream stream = {}) {
    run(detail::op_of<Args>(), &args, rung, stream);
  }
  /// The same by the op's name; `args` points at its descriptor.
  void run(std::string_view op, const void* args, int rung, Stream stream = {});

  /// Makes one rung's kernel ready, as Runtime::prepare() does the op's own.
  template <OpArgs Args>
  KernelReport prepare(const Args& args, int rung) {
    return prepare(detail::op_of<Args>(), &args, rung);
  }
  KernelReport prepare(std::string_view op, const void* args, int rung);
  template <OpConfig Config>
  KernelReport prepare(const Config& config, int rung, Device device) {
    return prepare_config(detail::op_of<typename Config::Args>(), &config, rung, device);
  }

 private:
  void run(const ops::Op& op, const void* args, int rung, Stream stream);
  KernelReport prepare(const ops::Op& op, const void* args, int rung);
  KernelReport prepare_config(const ops::Op& op, const void* config, int rung, Device device);
  Runtime* runtime_;
};

}  // namespace tj
