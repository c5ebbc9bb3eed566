// A call made ready and not launched: its kernels, their parameters, the driver beneath. For tools that look under a
// call.
//
// Decides how a loaded kernel's launch is put together, as hot calls do it too. Decides neither kernels (pipeline.hpp)
// nor choices (ops, tunings.hpp). Invariant: launching a prepared call is the launches of the call, with nothing before
// or between them.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tilejit/runtime.hpp>

#include "backends.hpp"
#include "kernel_table.hpp"
#include "launch/bare_launch.hpp"
#include "maker.hpp"
#include "ops/op.hpp"
#include "pipeline.hpp"
#include "support/walk_param.hpp"
#include "tuning/tunings.hpp"

namespace tj {

/// The maps of a launch, where its parameters want them. On the hot path: allocates nothing.
inline void encode_tensor_maps(const LoadedKernel& kernel, ops::LaunchPlan& plan) {
  std::array<launch::TensorMapPlace, ops::LaunchPlan::kMaxMaps> maps;
  for (std::size_t m = 0; m < plan.map_count; ++m)
    maps[m] = {&plan.maps[m].desc, plan.params.data() + plan.maps[m].offset};
  if (plan.map_count > 0) kernel.driver->encode_tensor_maps(kernel.device, {maps.data(), plan.map_count});
}
/// Gives the plan all of the device.
inline void set_device(const LoadedKernel& kernel, ops::LaunchPlan& plan) {
  plan.sm_count = kernel.sm_count;
  plan.blocks_per_sm = kernel.blocks_per_sm();
}
/// The memory that a planned launch takes for its walk.
inline support::WalkMemory walk_memory(const LoadedKernel& kernel, const ops::LaunchPlan& plan) {
  return support::walk_memory(kernel.shape, plan.blocks);
}
/// Parameters and grid of one launch, without tensor maps; plan says how many blocks are resident. give: called where
/// blocks draw their tiles, with what that takes. It returns where that lies.
template <class Give>
void plan_step(const ops::Step& step, const LoadedKernel& kernel, ops::LaunchPlan& plan, Give&& give) {
  step.op->plan(step.args, step.kernel, kernel.geometry, plan);
  if (!kernel.draws()) return;
  const support::WalkPlace place = give(walk_memory(kernel, plan));
  plan.params_bytes = support::add_walk(plan.params, plan.params_bytes, place, plan.blocks);
}
/// A planned step, tensor maps encoded.
template <class Give>
void plan_over(const ops::Step& step, const LoadedKernel& kernel, ops::LaunchPlan& plan, Give&& give) {
  plan_step(step, kernel, plan, give);
  encode_tensor_maps(kernel, plan);
}
/// Plans a launch over all of the device.
template <class Give>
void plan_launch(const ops::Step& step, const LoadedKernel& kernel, ops::LaunchPlan& plan, Give&& give) {
  set_device(kernel, plan);
  plan_over(step, kernel, plan, give);
}

/// Memory of a launch's walk, zeroed once: launches leave its counters as they find them. It lies until the owner dies.
std::shared_ptr<void> make_walk_memory(launch::Driver& driver, int device, const support::WalkMemory& memory);

struct PreparedLaunch {
  const LoadedKernel* kernel = nullptr;
  ops::LaunchPlan plan;

  void launch(Stream stream) const {
    kernel->driver->launch(kernel->device, *kernel->kernel, kernel->config(plan), plan.params.data(), plan.params_bytes,
                           stream);
  }
  /// Launches so many times, by the driver's own call alone.
  void launch_bare(Stream stream, int times) const {
    launch::launch_bare(*kernel->driver, kernel->device, *kernel->kernel, kernel->config(plan),
                        {plan.params.data(), plan.params_bytes}, stream, times);
  }
};

/// Dies before who prepared it and before the tensors that it was made for.
struct PreparedCall {
  Device device{};
  ops::Kernel kernel;
  std::shared_ptr<void> scratch;
  std::vector<std::shared_ptr<void>> walks;  ///< memory of launches whose blocks draw their tiles
  std::vector<PreparedLaunch> launches;

  void launch(Stream stream) const {
    for (const PreparedLaunch& each : launches) each.launch(stream);
  }
};

/// Makes the kernels of calls, or finds them on disk, where a runtime with these settings would look. Not thread safe.
class CallPreparer {
 public:
  /// Opens nothing yet.
  CallPreparer(const support::Settings& settings, support::Log log);

  Backends& backends() { return backends_; }
  /// Prepares a call, without a choice by the kernel that a call takes. Throws tj::Error as the call does.
  PreparedCall prepare(const ops::Op& op, const void* args, std::optional<int> choice = {});

 private:
  const LoadedKernel& kernel_of(const ops::Op& op, const ops::Request& request, Device device);

  const support::Settings settings_;
  const support::Log log_;
  Backends backends_;
  std::unique_ptr<cache::Store> store_;  ///< null: the disk is not wanted
  KernelMaker maker_;
  Tunings tunings_;
  struct Kept {
    std::string name;
    Device device;
    std::unique_ptr<LoadedKernel> kernel;
  };
  std::deque<Kept> kernels_;
};

}  // namespace tj
