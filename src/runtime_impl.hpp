// The parts of a runtime, for the files that implement its members: runtime.cpp, which knows no op, plan.cpp, and
// those of api/.
//
// Decides nothing: runtime.cpp has its functions. Invariant: nothing here knows an op by name.
#pragma once

#include <tilejit/custom.hpp>
#include <tilejit/runtime.hpp>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends.hpp"
#include "cache/cache.hpp"
#include "custom/custom.hpp"
#include "graph_op.hpp"
#include "kernel_table.hpp"
#include "maker.hpp"
#include "manifest.hpp"
#include "ops/common/tunable.hpp"
#include "ops/op.hpp"
#include "stage_line.hpp"
#include "support/environment.hpp"
#include "support/fork_safe.hpp"
#include "support/log.hpp"
#include "support/process_end.hpp"
#include "support/tool_range.hpp"
#include "support/walk_param.hpp"
#include "support/workers.hpp"
#include "tuning/tunings.hpp"

namespace tj {

/// Threads that load kernels side by side, the caller's among them. Drivers gain little from more.
inline constexpr int kLoadThreads = 4;

/// Members of Runtime come to its parts by this, each in the thread that asks.
template <class Impl>
Impl* used(const std::shared_ptr<Impl>& impl) {
  support::may_end_here();
  return impl.get();
}

struct Runtime::Impl {
  explicit Impl(const Options& options);

  // ---- one call -----------------------------------------------------------------------------------------------------
  void run(const ops::Op& op, const void* args, Stream stream);
  /// Waits for the stream, and throws tj::Error(argument) for the first bad entry of a list.
  void check_lists(const ops::Op& op, const void* args, Device device, Stream stream);
  ops::Kernel kernel_of(const ops::Op& op, const ops::ProblemKey& problem, Device device);
  void run(const ops::Step& call, Device device, Stream stream);
  void run_rung(const ops::Op& op, const void* args, int rung, Stream stream);
  KernelTable::Hold loaded(const ops::Step& step, Device device, Stream stream);
  TuneReport tune(const ops::Op& op, const ops::Problem& problem, Device device, const TuneOptions& options);
  TuneReport tune(const ops::Op& op, const void* args, const TuneOptions& options);
  static HotKey hot_key(const ops::Maker& maker, std::uint64_t small_key, Device device);
  void launch(const ops::Step& step, const KernelTable::Hold& kernel, Stream stream);
  /// Before a launch: a graph that may take it keeps the kernel loaded.
  void note_graph(const KernelTable::Hold& kernel, Stream stream) const {
    if (stream.handle != nullptr && !kernel.in_graph()) [[unlikely]]
      ask_for_graph(kernel, stream);
  }
  void ask_for_graph(const KernelTable::Hold& kernel, Stream stream) const;
  /// Logs a launch, and is its range for tools.
  support::ToolRange tell_launch(std::string_view op, const LoadedKernel& kernel, unsigned blocks) const {
    if (log.enabled(LogLevel::trace)) [[unlikely]]
      log(LogLevel::trace, launch_line(op, kernel.report, kernel.id, kernel.device, blocks));
    return support::ToolRange("launch", kernel.report.name);
  }
  /// Memory for work on the stream, until its owner lets go: the caller's allocator gives it, else the driver's pool.
  std::shared_ptr<void> workspace(Device device, std::size_t bytes, Stream stream);
  /// Memory of a launch's walk, whose counters are zero when the stream comes to the launch.
  std::shared_ptr<void> walk_memory(const LoadedKernel& kernel, const support::WalkMemory& memory, Device device,
                                    Stream stream);

  // ---- kernels of users' own: the caller is the op ------------------------------------------------------------------
  const CustomMaker& keep(std::unique_ptr<CustomMaker> made);
  /// The candidate that was measured to be the fastest on the device, counted from 1; 0: nothing was.
  int choice_of(const CustomMaker& maker, Device device);
  /// Of a maker that is kept. Throws tj::Error(argument) where its document has no trials.
  const GraphOp& graph_op(const CustomMaker& maker);
  void run(const CustomMaker& maker, Device device, const CustomLaunch& what, Stream stream);
  /// Encodes a tensor map, without a lock once the kernel is loaded there.
  void encode(const CustomMaker& maker, Device device, const support::TensorMapDesc& desc, void* out);

  // ---- the first call of a kind -------------------------------------------------------------------------------------
  KernelTable::Hold get(const ops::Maker& op, const ops::Request& request, std::uint64_t small_key, Device device,
                        Stream stream);
  KernelTable::Hold load(const ops::Maker& op, const ops::Request& request, std::uint64_t small_key, Device device,
                         MissPolicy on_miss, KernelReport* how = nullptr);
  /// Keeps a kernel that was loaded, and obeys the bound of loaded code.
  KernelTable::Hold insert(const ops::Maker& op, const ops::Request& request, std::uint64_t small_key, Device device,
                           const arch::Target& target, std::unique_ptr<LoadedKernel> kernel);
  /// A kernel that was looked for on disk: loaded, or refused by the driver. Neither: it is there already, or load()
  /// has to be asked for it.
  struct OnDisk {
    std::optional<KernelReport> report;  ///< it was loaded
    std::optional<Artifact> artifact;    ///< it was found and counted, and did not load
    std::optional<Error> refused;        ///< the driver cannot take that one: it is not asked again
  };
  class FoundOnDisk;
  /// Loads what the disk has of these, in a few threads. It makes nothing.
  std::vector<OnDisk> load_found(const std::vector<ops::NeededKernel>& kernels, Device device);
  /// Loads an artifact that did not load in load_found(), with all that may be tried beside it.
  KernelReport load_again(const ops::Op& op, const ops::Kernel& kernel, Device device, const OnDisk& found);
  /// Unloads what nobody needs until at most so many bytes of code are left on the device.
  TrimReport unload(Device device, std::uint64_t keep_bytes);
  TrimReport trim(std::optional<Device> device);
  Counters counters() const;
  std::unique_ptr<LoadedKernel> load(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                                     const std::shared_ptr<launch::Driver>& driver, Device device,
                                     const Artifact& artifact, MissPolicy on_miss = MissPolicy::wait,
                                     const Error* refused = nullptr);
  std::unique_ptr<LoadedKernel> load_quick(const ops::Maker& op, const ops::Request& request,
                                           const arch::Target& target, const std::shared_ptr<launch::Driver>& driver,
                                           Device device, const Artifact& artifact);
  /// Has the background make the best kernel for a key that has a quick one.
  void replace_later(const ops::Maker& op, const ops::Request& request, std::uint64_t small_key, Device device,
                     const arch::Target& target);
  /// Prepares the op's own kernel, or a rung's. Addresses may be null.
  KernelReport prepare(const ops::Op& op, const void* args, std::optional<int> rung = {});
  ops::Kernel rung_kernel(const ops::Op& op, const ops::ProblemKey& problem, int rung, Device device);
  /// The report is that of the step that stands for the call (ops::OwnStep).
  KernelReport load_steps(const ops::Step& call, Device device, MissPolicy on_miss = MissPolicy::wait);
  /// How kernels are chosen for a device, of what is measured by now, and for a target, as predicted.
  ops::ChooseKernel choosing(const ops::Op& op, Device device);
  static ops::ChooseKernel choosing(const ops::Op& op, const arch::Target& target);
  /// The kernel that kernel_of() gives with what is measured by now.
  ops::Kernel prepared_kernel(const ops::Op& op, const ops::ProblemKey& problem, Device device);
  /// Those that flags name; the flags of tj-warm.
  std::vector<ops::NeededKernel> needed_kernels(const ops::Op& op, std::string_view flags, Device device);
  /// The kernels' reports: prepare() makes and loads them on the device, warm() only makes them.
  std::vector<KernelReport> prepare(const std::vector<ops::NeededKernel>& kernels, Device device);
  std::vector<KernelReport> warm(const std::vector<ops::NeededKernel>& kernels, const arch::Target& target);
  KernelReport report(const ops::Op& op, const ops::Kernel& kernel, Device device);
  KernelReport report(const ops::Maker& op, const ops::Request& request, std::uint64_t small_key, Device device,
                      MissPolicy on_miss = MissPolicy::wait);

  std::unique_ptr<cache::Store> open_store();
  std::unique_ptr<cache::RemoteLayer> open_remote(const std::optional<Remote>& remote);

  support::Settings settings;
  std::optional<Allocator> allocator;
  support::Log log;
  Backends backends;
  std::unique_ptr<cache::Store> store = open_store();  ///< absent: the disk is not wanted
  KernelMaker kernel_maker{settings, log, backends, store.get()};
  Tunings tunings{store.get(), log, [this](Device device) { return tuned_machine(backends, device); },
                  settings.use_tuning, recording(kernel_maker.record())};
  KernelTable table;
  support::Mutex customs_mutex;
  std::map<std::string, std::unique_ptr<CustomMaker>>
      customs;  ///< by identity; kept, so that a key of the table stays theirs
  std::map<const CustomMaker*, std::unique_ptr<GraphOp>> graph_ops;  ///< kept for the same reason
  // Last, so that their threads end before all that they use.
  support::Workers workers;
  std::shared_ptr<support::Workers::Queue> upgrades = workers.queue(1);  ///< best kernels in the place of quick ones
  std::shared_ptr<support::Workers::Queue> loads = workers.queue(kLoadThreads - 1);
  std::unique_ptr<cache::RemoteLayer> remote;  ///< absent: nobody gave a store
};

}  // namespace tj
