// Request -> loaded kernel: from disk, else made by one thread of one process.
//
// Decides who makes a kernel when several ask for it at once, how long the others wait, and what is said meanwhile. The
// steps of making are pipeline.hpp's. Invariant: whoever waits ends: with the kernel, with an error, or with a kernel
// of its own after the limit. A thread in exit() gives its turn back, so nobody waits for it. The end of the runtime or
// the process ends waits of the library's own threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/counters.hpp>

#include "backends.hpp"
#include "cache/cache.hpp"
#include "cache/remote.hpp"
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

  /// A store elsewhere, which outlives this. Set before the first call.
  void use(cache::RemoteLayer* remote) { remote_ = remote; }
  /// on_miss: what is done where it is not on disk. With `quick` the artifact may be a quick one.
  Artifact get(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
               MissPolicy on_miss = MissPolicy::wait);
  /// The same for a device. Where the compiler at hand is too old for it, or there is none, PTX may serve: `target` is
  /// then that.
  Artifact get_for(const ops::Maker& op, const ops::Request& request, arch::Target& target, Device device,
                   MissPolicy on_miss = MissPolicy::wait);
  /// The kernel that the disk has, by its alias. It is counted and recorded where it is there, and not at all where
  /// get() has to be asked.
  std::optional<Artifact> find(const ops::Maker& op, const ops::Request& request, const arch::Target& target);
  /// Has `make` compile a device's kernel without a look at the disk: for `target`, or for its PTX where the compiler
  /// at hand refuses that, now or before. `target` is then the one that was made.
  template <class Make>
  void make_for(arch::Target& target, Device device, Make&& make) {
    const auto ptx = backends_.ptx_of(device, target);
    if (!ptx || !backends_.compiler(target).identity().present()) return make();
    std::string why = why_no_binary(target);
    if (why.empty()) {
      try {
        return make();
      } catch (const Error& error) {
        if (!is_refusal(target, error)) throw;
        why = error.message;
      }
    }
    backends_.warn_of_ptx(device, *ptx, why);
    target = *ptx;
    make();
  }
  /// The best kernel behind a quick one that get() gave. The miss was counted then.
  Artifact best(const ops::Maker& op, const ops::Request& request, const arch::Target& target);
  void count_quick() {
    count([](Counts& counts) { ++counts.counters.quick_kernels; });
  }
  void count_unloaded(std::uint64_t kernels, std::uint64_t bytes) {
    count([=](Counts& counts) {
      counts.counters.unloads += kernels;
      counts.counters.bytes_unloaded += bytes;
    });
  }
  void count_replaced() {
    count([](Counts& counts) { ++counts.counters.quick_replaced; });
  }
  /// Loads an artifact that get() gave. Of an artifact from the disk that the driver refuses, packs may have binaries
  /// of other compilers: these are tried in their order. Else it counts as damaged: it is made anew and replaced, once.
  /// With `error` it is not: that is refused as a miss is.
  /// refused: what load_once() threw of this artifact, of Code::unsupported; null where it was not tried.
  std::unique_ptr<LoadedKernel> load(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                                     const std::shared_ptr<launch::Driver>& driver, int device,
                                     const Artifact& artifact, MissPolicy on_miss = MissPolicy::wait,
                                     const Error* refused = nullptr);
  /// Loads an artifact or throws: nothing else is tried, made, said or counted where the driver refuses it.
  std::unique_ptr<LoadedKernel> load_once(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                                          const std::shared_ptr<launch::Driver>& driver, int device,
                                          const Artifact& artifact);
  /// Would get() find it on disk? Nothing counts as used. fields: of its maker's geometry. problem: why what lies there
  /// does not serve; empty when nothing does.
  /// op: null for a user's own kernel, which only its program can make: it is found by its alias alone.
  /// by_text false: by its alias alone, too, so that no text is made.
  bool on_disk(const ops::Maker* op, const ops::Request& request, const arch::Target& target, std::string* problem,
               bool by_text = true);
  /// The counts of what was asked for and made, and of the store.
  Counters counters() const;
  /// The lines of what is asked for (manifest.hpp).
  support::RecordFile& record() noexcept { return record_; }

 private:
  /// One thread makes an artifact, and the others of this process wait.
  struct Making {
    support::Turn turn;
    std::atomic<std::chrono::steady_clock::rep> since{
        0};                      ///< when the thread with the turn had waited for other processes; 0: not yet
    std::atomic<int> holder{0};  ///< the thread with the turn, by its number; 0: none
    support::Mutex mutex;
    std::optional<Artifact> kept;  ///< for the runtime's other devices and callers
  };
  /// Of one request. The best is kept where the disk does not, the quick one until the best is there.
  struct Place {
    Making best, quick;
    support::Turn writes_text;
    support::Mutex mutex;                ///< of what is below
    std::weak_ptr<const Source> source;  ///< while somebody needs it
    std::string text_hex;                ///< the first half of its binary's key, once known
    std::string taken;                   ///< the second half of that of the binary that was taken before
  };
  /// A kernel that somebody asks for.
  struct Wanted {
    const ops::Maker& op;
    const ops::Request& request;
    const arch::Target& target;
    cache::Key key;  ///< by which its alias is looked up
    Place& place;
    std::string named;  ///< the half that the alias on disk names
    std::string title() const;
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
  Wanted wanted(const ops::Maker& op, const ops::Request& request, const arch::Target& target);
  /// The text, made by one thread at a time.
  std::shared_ptr<const Source> source_of(Wanted& wanted);
  /// The same, where a failure is a failed compile; `misses`: and a miss.
  std::shared_ptr<const Source> counted_source_of(Wanted& wanted, bool misses);
  /// The first half of the binary's key; empty where its text was not made yet.
  static std::string text_hex(const Wanted& wanted);
  /// Why nobody here makes binaries for the target, as is known so far; empty where somebody may.
  std::string why_no_binary(const arch::Target& target);
  /// Does the error say that the compiler is too old for the target? That is then remembered, of this compiler alone.
  bool is_refusal(const arch::Target& target, const Error& error);
  void remember_refusal(const arch::Target& target);
  Artifact compile_counted(const Wanted& wanted, const Source& source);
  Artifact make_alone(const Wanted& wanted, const Source& source);
  Artifact make_and_put(const Wanted& wanted, const Source& source);
  std::optional<Artifact> make_quickly(const Wanted& wanted, const Source& source);
  void tell(const Wanted& what, std::string_view stage, double milliseconds) const;
  [[noreturn]] void refuse(const std::string& name);
  [[noreturn]] void refuse_unloadable(const std::string& title, const std::string& why);
  Artifact make_anew(Wanted& wanted);
  /// Compiles it, and keeps it on disk, as the process's end has it; `kept` says whether the disk has it.
  Artifact compile_and_publish(const Wanted& wanted, const Source& source, bool* kept);
  /// Stores a kernel's entry and its alias; false when it was not stored.
  bool publish(const Wanted& wanted, const cache::Entry& entry);
  /// Has the remote store what nobody here has? It is then kept here as what was made is.
  std::optional<Artifact> from_remote(const Wanted& wanted);
  void put_remotely(const Wanted& wanted, const Artifact& artifact);
  void publish_alias(const Wanted& wanted);
  Place& place_of(const std::string& key);
  static std::optional<Artifact> kept(Making& making);
  static void keep(Making& making, Artifact artifact);
  bool wait_for_turn(Making& making, const std::string& name, bool& waited);
  std::shared_ptr<void> wait_for_processes(const cache::Key& key, const std::string& name, bool& waited);
  /// Throws tj::Error(compile, io) where there is a reason.
  static void end_wait(const std::string& name, std::string_view why);
  void count_wait(std::chrono::steady_clock::time_point since);
  void say_waiting(const std::string& name, double waited_s, const std::string& holder, bool over) const;
  /// Which binaries of the disk serve beside the first choice.
  struct Beside {
    bool lost = false;  ///< others in packs, too, where the own one was taken before and is gone
    cache::Without without = {};
  };
  static Beside beside(MissPolicy on_miss) { return {on_miss == MissPolicy::error}; }
  /// The binary that the disk has of it, by its text, or by its alias where that is empty. A binary that was taken
  /// before is taken again: equal calls of a process give equal bits.
  std::optional<cache::Entry> entry_of(const Wanted& wanted, const std::string& text_hex, std::string& named,
                                       const Beside& beside) const;
  /// The compilers whose binaries serve.
  cache::Served served() const {
    return settings_.pack_compiler == PackCompiler::any ? cache::Served::any_packed : cache::Served::own;
  }
  static void note_taken(const Wanted& wanted, const std::string& compiler_hex);
  enum class Counted { all, hits };
  /// Finds it by its alias, or by its text where that is known. Counts a hit, and, with `all`, a missing alias.
  std::optional<Artifact> from_disk(Wanted& wanted, MissPolicy on_miss = MissPolicy::wait,
                                    Counted counted = Counted::all);
  /// Finds it by its text, and then leaves an alias. Counts a hit; `made_meanwhile`: a miss that somebody else ended.
  /// problem: why an entry that is there is not used.
  std::optional<Artifact> from_disk_by_text(const Wanted& wanted, bool made_meanwhile, std::string* problem = nullptr,
                                            MissPolicy on_miss = MissPolicy::wait);
  /// A binary that the disk has beside those of these compilers, which the driver refused.
  std::optional<Artifact> another(const Wanted& wanted, cache::Without without);
  /// Notes that the entry was taken, and says so where another compiler made it.
  void take(const Wanted& wanted, const cache::Entry& entry, Artifact& artifact) const;
  std::optional<Artifact> kernel_of(const Wanted& wanted, const std::optional<cache::Entry>& entry, bool made_meanwhile,
                                    std::string* problem);

  const support::Settings& settings_;
  const support::Log& log_;
  Backends& backends_;
  cache::Store* store_;
  cache::RemoteLayer* remote_ = nullptr;
  support::RecordFile record_;
  mutable support::Mutex mutex_;  ///< of what is below
  std::map<std::string, Place> places_;
  std::set<std::string> refused_;  ///< by target and compiler
  Counts counts_;
};

/// The report of a kernel that was there already: nothing was made, so its times are 0.
KernelReport without_times(KernelReport report, KernelOrigin origin);

}  // namespace tj
