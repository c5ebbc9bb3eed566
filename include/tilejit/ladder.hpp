// Ladders: an op's kernel beside simpler kernels of it, to see what each improvement is worth.
//
// Decides how a rung is asked for. Does not decide what a rung is held to: an op's own files do. A call outside a
// ladder never takes a rung's kernel.
#pragma once

#include <functional>
#include <string_view>

#include <tilejit/export.hpp>
#include <tilejit/runtime.hpp>

namespace tj {

/// A rung is a number. Rung 0 is the op's own kernel, which a call without a ladder takes. Rung 1 is the simplest
/// kernel; each rung above it drops one restriction. fmha.hpp and gemm.hpp say what their rungs are. Every call throws
/// tj::Error as the op's own calls do. It also throws argument for an op without a ladder, and for a rung that does not
/// exist or does not serve the sizes. Where the arch has no ladder of the op, products throw argument, others target.
///
/// Thread safe, as the runtime is.
class TJ_API Ladder {
 public:
  /// A ladder of this runtime's kernels. The runtime outlives it.
  explicit Ladder(Runtime& runtime = Runtime::instance()) : runtime_(&runtime) {}

  /// Runs one rung's kernel, as Runtime::run() runs the op's own.
  template <OpArgs Args>
  void run(const Args& args, int rung, Stream stream = {}) {
    run(detail::op_of<Args>(), &args, rung, stream);
  }
  /// Runs a rung of the op of this name; `args` points at its descriptor.
  void run(std::string_view op, const void* args, int rung, Stream stream = {});

  /// Records `calls` calls of a rung as a graph, once. Each call of the function that this returns replays the graph
  /// on the device's default stream, waits for it, and gives the milliseconds that it took by device events: the host's
  /// share of a call is not in them. The graph holds neither kernels nor tensors: they stay loaded and allocated while
  /// the function is used, by one thread at a time. Run the rung once before. Throws tj::Error as run() does: argument
  /// for calls below 1; launch, unsupported, on the model and where a driver records nothing (ROCm 5).
  template <OpArgs Args>
  std::function<double()> record(const Args& args, int rung, int calls) {
    return record(detail::op_of<Args>(), &args, rung, calls);
  }

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
  std::function<double()> record(const ops::Op& op, const void* args, int rung, int calls);
  KernelReport prepare(const ops::Op& op, const void* args, int rung);
  KernelReport prepare_config(const ops::Op& op, const void* config, int rung, Device device);
  Runtime* runtime_;
};

}  // namespace tj
