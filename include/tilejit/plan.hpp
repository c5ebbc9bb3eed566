// A call that was validated and resolved once, to be run many times on other memory of the same shapes.
//
// Decides what may differ between runs: addresses, stream and workspace. Does not decide which kernels serve the call
// (runtime.hpp). Invariant: any thread may run a plan at any time.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tilejit/export.hpp>
#include <tilejit/kernel_report.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

/// A call that Runtime::plan() has resolved. A copy is the same plan. A plan keeps its kernels and its runtime's
/// drivers: it may be run after its Runtime has ended.
///
///   tj::Plan plan = tj::plan(tj::GemmArgs{a, b, d});
///   plan.run({a.data, b.data, d.data}, stream);
///
/// Workspace: memory that the call's launches need beside its tensors. A run writes over it, and needs nothing of an
/// earlier run but what workspace_zeroed() says. One run at a time may use it: runs on one stream follow each other,
/// runs on several streams need one each. If two threads are seen to use one workspace on different streams at the same
/// time, the second run throws.
class TJ_API Plan {
 public:
  // std::move copies, so a Plan that was moved from stays whole.
  Plan(const Plan&) = default;
  Plan& operator=(const Plan&) = default;
  ~Plan() = default;

  /// Enqueues the call on a stream; asynchronous on GPUs, finished on return on the model.
  ///
  /// addresses: one for each of tensors(), in that order. Each is as far behind a multiple of 16 bytes as the address
  /// that the plan was made with; where that changes nothing, any multiple of the element's size will do. Memory that
  /// is written overlaps no other tensor; where the call allows two tensors to be one, such as gemm's c and d, they may
  /// be. Device, shapes and strides are those of the plan: a run does not check them again. workspace:
  /// workspace_bytes() at a multiple of workspace_alignment(). Null: memory of Options::allocator, else of the
  /// library's pool, taken anew by each run. Throws tj::Error(argument) that names the tensor and what is allowed,
  /// tj::Error(launch) and (model) as the call does; nothing has been launched after an error of the arguments. A run
  /// that takes no workspace from a pool neither looks up a kernel, nor locks, nor allocates.
  void run(std::span<void* const> addresses, Stream stream = {}, void* workspace = nullptr) const;
  void run(std::initializer_list<void*> addresses, Stream stream = {}, void* workspace = nullptr) const {
    run(std::span<void* const>(addresses.begin(), addresses.size()), stream, workspace);
  }

  /// Names of the tensors that a run takes addresses of: "q", "k", "v", "o". They are those of the descriptor, in its
  /// order; tensors that were absent, and those that the call never looks at, are left out.
  const std::vector<std::string>& tensors() const noexcept;
  Device device() const noexcept;  ///< that of the tensors
  /// Bytes of workspace that a run needs; 0: none.
  std::size_t workspace_bytes() const noexcept;
  std::size_t workspace_alignment() const noexcept;  ///< bytes, a power of two
  /// True: the caller's workspace must be zeroed before its first run, and again once anything but this plan has
  /// written to it, such as another plan, or a run has failed; TJ_CHECK names what is left. Calls whose blocks draw or
  /// share tiles need it: each run leaves the counters at 0. A forked child zeroes it too, if its parent was in a run.
  bool workspace_zeroed() const noexcept;
  /// False once the runtime has read or measured other choices for the plan's device (Runtime::tune): a new plan of the
  /// same arguments may have another kernel. The plan stays right.
  bool current() const noexcept;
  /// The report that Runtime::prepare() gives for the same arguments.
  const KernelReport& report() const noexcept;

 private:
  friend class Runtime;
  struct Impl;
  explicit Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tj
