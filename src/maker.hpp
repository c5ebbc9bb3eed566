// Request -> loaded kernel: from disk, else made by one thread of one process.
//
// Decides who makes a kernel when several ask for it at once, how long the others wait, and what is said meanwhile. The
// steps of making are pipeline.hpp's. Invariant: whoever waits ends: with the kernel, with an error, or with a kernel
// of its own after the limit.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <tilejit/counters.hpp>

#include "backends.hpp"
#include "cache/cache.hpp"
#include "kernel_table.hpp"
#include "pipeline.hpp"
#include "support/environment.hpp"
#include "support/fork_safe.hpp"
#include "support/log.hpp"
#include "support/record_file.hpp"

namespace tj {

/// An artifact whose binary the driver has loaded.
std::unique_ptr<LoadedKernel> loaded_kernel(const std::shared_ptr<launch::Driver>& driver, int device,
                                            const arch::Arch& arch, const Artifact& artifact);

class KernelMaker {
 public:
  /// store: null when the disk is not wanted. All of them outlive this.
  KernelMaker(const support::Settings& settings, const support::Log& log, Backends& backends, cache::Store* store)
      : settings_(settings), log_(log), backends_(backends), store_(store), record_(settings.record_file, log) {}

  /// on_miss: what is done where it is not on disk. With `quick` the artifact may be a quick one.
  Artifact get(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
               MissPolicy on_miss = MissPolicy::wait);
  /// The best kernel behind a quick one that get() gave. The miss was counted then.
  Artifact best(const ops::Maker& op, const ops::Request& request, const arch::Target& target);
  void count_quick() {
    count([](Counts& counts) { ++counts.counters.quick_kernels; });
  }
  void count_replaced() {
    count([](Counts& counts) { ++counts.counters.quick_replaced; });
  }
  /// Loads an artifact that get() gave. An artifact from the disk that the driver refuses counts as damaged: it is made
  /// anew and replaced, once.
  std::unique_ptr<LoadedKernel> load(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                                     const std::shared_ptr<launch::Driver>& driver, int device,
                                     const Artifact& artifact);
  /// Would get() find it on disk? Nothing counts as used. fields: of its maker's geometry. problem: why what lies there
  /// does not serve; empty when nothing does.
  bool on_disk(const ops::Request& request, const arch::Target& target, ops::GeometryFields fields,
               std::string* problem);
  /// The counts of what was asked for and made, and of the store.
  Counters counters() const;
  /// The lines of what is asked for (manifest.hpp).
  support::RecordFile& record() noexcept { return record_; }

 private:
  /// One thread makes an artifact, and the others of this process wait.
  struct Making {
    support::Turn turn;
    std::atomic<std::chrono::steady_clock::rep> since{
        0};  ///< when the thread with the turn had waited for other processes; 0: not yet
    support::Mutex mutex;
    std::optional<Artifact> kept;  ///< for the runtime's other devices and callers
  };
  /// Of one request. The best is kept where the disk does not, the quick one until the best is there.
  struct Place {
    Making best, quick;
  };
  class Taken;
  /// What counters() says, without the store's part.
  struct Counts {
    Counters counters;
    std::vector<std::uint64_t> hits;  ///< by layer
    std::uint64_t without_fields = 0, refused_by_driver = 0;
  };
  template <class Change>
  void count(Change&& change) {
    const std::lock_guard lock(mutex_);
    change(counts_);
  }
  Artifact make_counted(const ops::Maker& op, const ops::Request& request, const arch::Target& target);
  Artifact make_alone(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                      const cache::Key& key, Making& making);
  std::optional<Artifact> make_quickly(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                                       const cache::Key& key, Making& making);
  [[noreturn]] void refuse(const std::string& name);
  Artifact make_anew(const ops::Maker& op, const ops::Request& request, const arch::Target& target);
  Place& place_of(const std::string& key);
  static std::optional<Artifact> kept(Making& making);
  static void keep(Making& making, Artifact artifact);
  bool wait_for_turn(Making& making, const std::string& name, bool& waited);
  std::shared_ptr<void> wait_for_processes(const cache::Key& key, const std::string& name, bool& waited);
  void count_wait(std::chrono::steady_clock::time_point since);
  void say_waiting(const std::string& name, double waited_s, const std::string& holder, bool over) const;
  std::optional<Artifact> from_disk(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                                    const cache::Key& key, std::string* problem = nullptr);

  const support::Settings& settings_;
  const support::Log& log_;
  Backends& backends_;
  cache::Store* store_;
  support::RecordFile record_;
  mutable support::Mutex mutex_;  ///< of what is below
  std::map<std::string, Place> places_;
  Counts counts_;
};

/// The report of a kernel that was there already: nothing was made, so its times are 0.
KernelReport without_times(KernelReport report, KernelOrigin origin);

}  // namespace tj
