// Kernels made in the background: a list that grows while it is worked at, with progress, a time limit and an end.
//
// Decides how kernels are asked for and what is told of them. Does not decide how one is made (runtime.hpp).
// Invariant: each kernel that was added ends as ready, failed or left out, and never changes then.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/custom.hpp>
#include <tilejit/error.hpp>
#include <tilejit/export.hpp>
#include <tilejit/runtime.hpp>

namespace tj {

/// - waiting: no thread has begun;
/// - making: a thread makes it, or waits for another thread or process that does;
/// - ready: compiled, cached and loaded;
/// - failed: `error` says why;
/// - left_out: not begun before cancel(), the time limit or the runtime's end, or only waited for when one of the first
///   two came, or its thread has called exit().
enum class PrepareState { waiting, making, ready, failed, left_out };

struct PreparedKernel {
  PrepareState state = PrepareState::waiting;
  KernelReport report;         ///< of a ready one; of the others the name alone
  std::optional<Error> error;  ///< of one that failed
};

struct Progress {
  std::size_t kernels = 0, ready = 0, failed = 0, left_out = 0;
  double seconds = 0;  ///< from the preparation's start to the end of its last kernel; to now while one is left
  bool ended() const noexcept { return ready + failed + left_out == kernels; }
};

/// A list of kernels that threads of the library make, in its order:
///
///   tj::Preparation list(tj::Runtime::instance(), {.threads = 4, .time_limit_s = 60});
///   for (const tj::GemmConfig& config : configs) list.add(config, device);
///   list.add_flags("fmha", "--dtype bf16 --head-dim 64,128", device);
///   while (!list.wait(1).ended()) std::printf("%zu of %zu\n", list.progress().ready, list.progress().kernels);
///
/// A kernel begins when it is added, or when a thread is free. What add() cannot resolve it throws, and adds nothing. A
/// call that needs a kernel of the list meanwhile waits for it as for any other thread's.
///
/// A copy is the same list. A list goes on when its last copy is gone. The runtime's end drops what has not begun, and
/// waits for the rest; so does the process's end, which breaks off after 10 s what it can. Both give up at once a
/// kernel that is only waited for while another process makes it: it fails. After a fork() the child goes on with what
/// was not ready, from its next call of a member on, as far as it can compile (runtime.hpp); cancel() there is the
/// child's own. Thread safe.
class TJ_API Preparation {
 public:
  /// An empty list. Throws tj::Error(argument) for options out of range.
  explicit Preparation(Runtime& runtime, const PrepareOptions& options = {});
  Preparation(const Preparation&) = default;
  Preparation& operator=(const Preparation&) = default;
  ~Preparation();

  /// Adds the kernels of a call, as Runtime::prepare() takes it; addresses may be null. Throws tj::Error(argument,
  /// target, launch) as prepare() does, and (load) where the runtime has ended, or where the system gives no thread.
  template <OpArgs Args>
  Preparation& add(const Args& args) {
    return add(detail::op_of<Args>(), &args);
  }
  /// Adds those of the op of this name; `args` points at its descriptor.
  Preparation& add(std::string_view op, const void* args);
  /// Adds what calls with these fields need.
  template <OpConfig Config>
  Preparation& add(const Config& config, Device device) {
    return add_config(detail::op_of<typename Config::Args>(), &config, device);
  }
  /// Adds a kernel of the user's own. It must be of the same runtime.
  Preparation& add(const custom::Kernel& kernel, Device device);
  /// Adds those that flags of tj-warm name, as Runtime::prepare_flags() takes them.
  Preparation& add_flags(std::string_view op, std::string_view flags, Device device);

  /// Leaves out what no thread has begun. A kernel that is being made is made: compilers cannot be interrupted. A
  /// kernel that this list only waits for, as another thread or process makes it, is left out within a second.
  void cancel();
  Progress progress() const;
  /// Waits until every kernel has ended, for so many seconds at most; negative: as long as it takes. Throws
  /// tj::Error(argument) for what is no number.
  Progress wait(double seconds = -1) const;
  /// All kernels, in the order in which they were added.
  std::vector<PreparedKernel> kernels() const;

 private:
  Preparation& add(const ops::Op& op, const void* args);
  Preparation& add_config(const ops::Op& op, const void* config, Device device);
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

template <OpArgs Args>
Preparation Runtime::prepare_async(const Args& args, const PrepareOptions& options) {
  Preparation list(*this, options);
  list.add(args);
  return list;
}
template <OpConfig Config>
Preparation Runtime::prepare_async(const Config& config, Device device, const PrepareOptions& options) {
  Preparation list(*this, options);
  list.add(config, device);
  return list;
}

/// Prepares in the background of Runtime::instance().
template <OpArgs Args>
Preparation prepare_async(const Args& args, const PrepareOptions& options = {}) {
  return Runtime::instance().prepare_async(args, options);
}
template <OpConfig Config>
Preparation prepare_async(const Config& config, Device device, const PrepareOptions& options = {}) {
  return Runtime::instance().prepare_async(config, device, options);
}

}  // namespace tj
