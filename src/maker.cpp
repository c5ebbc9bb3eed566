// See maker.hpp.
#include "maker.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "manifest.hpp"
#include "stage_line.hpp"
#include "support/fail.hpp"
#include "support/patience.hpp"
#include "support/process_end.hpp"
#include "support/text.hpp"
#include "support/tool_range.hpp"
#include "support/uncancelled.hpp"
#include "support/workers.hpp"

namespace tj {

using support::cat;
using Clock = support::Patience::Clock;

KernelReport without_times(KernelReport report, KernelOrigin origin) {
  report.origin = origin;
  report.schedule_ms = report.codegen_ms = report.compile_ms = report.load_ms = 0;
  return report;
}

std::unique_ptr<LoadedKernel> loaded_kernel(const std::shared_ptr<launch::Driver>& driver, int device,
                                            const arch::Arch& arch, const Artifact& artifact) {
  auto made = std::make_unique<LoadedKernel>();
  made->driver = driver;
  made->kernel = driver->load(device, artifact.binary, artifact.shape.symbol, artifact.shape.smem_bytes);
  made->device = device;
  made->code_bytes = artifact.binary.size();
  made->sm_count = static_cast<unsigned>(driver->device_info(device).sm_count);
  made->shape = artifact.shape;
  made->waits_itself = arch.overlapped_launch;                    // every emitted unit does
  if (const unsigned cluster = made->shape.cluster; cluster > 1)  // the driver tells all blocks that fit
    made->sm_count = cluster * driver->resident_clusters(device, *made->kernel, made->config(cluster));
  made->geometry = artifact.geometry;
  made->report = artifact.report;
  made->quick = artifact.quick;
  return made;
}

/// A turn, given back with this, or by exit() in it; also none, where the time to wait for it was over.
class KernelMaker::Taken {
 public:
  Taken(Making& of, bool taken) : of_(taken ? &of : nullptr) {
    if (!taken) return;
    of.since.store(0);  // a forked child finds that of its parent
    of.holder.store(::gettid());
  }
  ~Taken() { give_back(); }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  /// The lock of other processes goes with it.
  void keep(std::shared_ptr<void> across_processes) { across_processes_ = std::move(across_processes); }
  void making() {
    if (of_ != nullptr) of_->since.store(Clock::now().time_since_epoch().count());
  }

 private:
  void give_back() {
    across_processes_.reset();
    Making* const of = std::exchange(of_, nullptr);
    if (of == nullptr || generation_ != support::process_generation()) return;  // a child's other threads may have it
    of->since.store(0);
    of->holder.store(0);
    of->turn.unlock();
  }
  struct GivesBack {
    Taken& taken;
    void operator()() const { taken.give_back(); }
  };
  Making* of_;
  const std::uint32_t generation_ = support::process_generation();
  std::shared_ptr<void> across_processes_;
  const GivesBack gives_back_{*this};
  const support::IfExitComes if_exit_comes_{gives_back_};
};

KernelMaker::Place& KernelMaker::place_of(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return places_[key];
}

std::optional<Artifact> KernelMaker::kept(Making& making) {
  const std::lock_guard lock(making.mutex);
  return making.kept;
}

void KernelMaker::keep(Making& making, Artifact artifact) {
  artifact.report = without_times(artifact.report, KernelOrigin::memory);
  const std::lock_guard lock(making.mutex);
  making.kept = std::move(artifact);
}

std::string KernelMaker::Wanted::title() const { return cat(request.name, " for ", target.name()); }

KernelMaker::Wanted KernelMaker::wanted(const ops::Maker& op, const ops::Request& request, const arch::Target& target) {
  cache::Key key = key_of(request, target, backends_.compiler(target));
  Place& place = place_of(key.request_hex);
  return {op, request, target, std::move(key), place, {}};
}

Artifact KernelMaker::get(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                          MissPolicy on_miss) {
  const support::Uncancelled whole;
  if (record_.wanted()) record_.add(manifest_line(request, target));
  Wanted what = wanted(op, request, target);
  if (auto found = from_disk(what, on_miss)) return std::move(*found);
  if (auto made_before = kept(what.place.best)) {
    count([](Counts& counts) {
      ++counts.counters.misses;
      ++counts.counters.shared;
    });
    return std::move(*made_before);
  }
  std::shared_ptr<const Source> source;
  if (store_ != nullptr || remote_ != nullptr || on_miss != MissPolicy::error) source = counted_source_of(what, true);
  if (auto found = from_disk_by_text(what, false, nullptr, on_miss)) return std::move(*found);
  count([](Counts& counts) { ++counts.counters.misses; });
  if (on_miss != MissPolicy::wait && source)
    if (auto found = from_remote(what)) return std::move(*found);
  if (on_miss == MissPolicy::error) refuse(what.title());
  if (on_miss == MissPolicy::quick)
    if (auto made = make_quickly(what, *source)) return std::move(*made);
  return make_and_put(what, *source);
}

/// Nobody waits for the store but this call.
Artifact KernelMaker::make_and_put(const Wanted& what, const Source& source) {
  Artifact artifact = make_alone(what, source);
  if (artifact.report.origin == KernelOrigin::compiled) put_remotely(what, artifact);
  return artifact;
}

Artifact KernelMaker::best(const ops::Maker& op, const ops::Request& request, const arch::Target& target) {
  const support::Uncancelled whole;
  Wanted what = wanted(op, request, target);
  auto found = from_disk(what);
  Artifact artifact = found ? std::move(*found) : make_and_put(what, *counted_source_of(what, false));
  const std::lock_guard lock(what.place.quick.mutex);
  what.place.quick.kept.reset();
  return artifact;
}

Artifact KernelMaker::make_alone(const Wanted& what, const Source& source) {
  const std::string name = what.title();
  Making& making = what.place.best;
  const auto since = Clock::now();
  bool waited = false;
  const bool own_turn = wait_for_turn(making, name, waited);
  Taken taken(making, own_turn);
  auto made_by_thread = kept(making);
  if (own_turn && !made_by_thread)  // who has the turn has that lock, too
    taken.keep(wait_for_processes({text_hex(what), what.key.compiler_hex}, name, waited));
  if (waited) count_wait(since);
  if (made_by_thread) {
    count([](Counts& counts) { ++counts.counters.shared; });
    return std::move(*made_by_thread);
  }
  taken.making();
  std::string problem;
  if (auto found = from_disk_by_text(what, true, &problem)) return std::move(*found);
  if (!problem.empty()) log_(LogLevel::warn, problem);
  if (auto found = from_remote(what)) return std::move(*found);
  bool on_disk = false;
  Artifact made = compile_and_publish(what, source, &on_disk);
  if (!on_disk) keep(making, made);
  log_(LogLevel::info,
       cat(name, ": scheduled in ", made.report.schedule_ms, " ms, compiled in ", made.report.compile_ms, " ms"));
  tell(what, "schedule", made.report.schedule_ms);
  tell(what, "codegen", made.report.codegen_ms);
  tell(what, "compile", made.report.compile_ms);
  return made;
}

/// The process's end waits for a compile by a library. So it waits for the file, too: the work would be lost otherwise.
Artifact KernelMaker::compile_and_publish(const Wanted& what, const Source& source, bool* kept) {
  std::optional<support::BeforeEnd> whole;
  if (backends_.compiler(what.target).is_library()) whole.emplace();
  Artifact made = compile_counted(what, source);
  *kept = publish(what, to_entry(made, what.op));
  return made;
}

namespace {

/// Products of warpgroups are serialised by the compiler's quick options, and the time that these save is less than
/// half (cache/README.md, "Misses").
bool quick_pays(const arch::Target& target) { return target.model || !target.arch->has_fact("product_group_cycles"); }

}  // namespace

/// None where the compiler has no quicker way that pays, or could not go it: then the best one is waited for.
std::optional<Artifact> KernelMaker::make_quickly(const Wanted& what, const Source& source) {
  const std::string name = cat("a quick ", what.title());
  compile::Compiler& compiler = backends_.compiler(what.target);
  if (compiler.quick_options().empty()) return std::nullopt;
  if (!quick_pays(what.target)) {
    log_(LogLevel::info, cat(name,
                             " would take more than half of the best one's time, and be many times as slow, so "
                             "the call waits for the best one (TJ_ON_MISS)"));
    return std::nullopt;
  }
  Making& making = what.place.quick;
  const auto since = Clock::now();
  bool waited = false;
  Taken taken(making, wait_for_turn(making, name, waited));
  if (waited) count_wait(since);
  if (auto made_by_thread = kept(making)) return made_by_thread;
  std::string problem;  // which make_alone() tells
  if (auto best_meanwhile = from_disk_by_text(what, true, &problem)) return best_meanwhile;
  taken.making();
  try {
    Artifact made = compile_source(what.op, source, compiler, settings_, log_, true);
    count([&](Counts& counts) { counts.counters.compile_s += made.report.compile_ms * 1e-3; });
    tell(what, "quick-compile", made.report.compile_ms);
    log_(LogLevel::info, cat(name, ": compiled in ", made.report.compile_ms,
                             " ms; it serves until the best one is there (TJ_ON_MISS)"));
    keep(making, made);
    return made;
  } catch (const Error& error) {
    log_(LogLevel::info, cat(name, " could not be made, so the call waits for the best one: ", error.message));
    return std::nullopt;
  }
}

void KernelMaker::tell(const Wanted& what, std::string_view stage, double milliseconds) const {
  log_(LogLevel::debug, stage_line(what.op.name(), what.request.name, what.target, stage, milliseconds));
}

void KernelMaker::refuse(const std::string& name) {
  count([](Counts& counts) { ++counts.counters.refused; });
  const std::string place = store_ == nullptr ? std::string("in memory, and the cache on disk is not used")
                                              : cat("in the cache at '", support::shown_path(store_->directory()), "'");
  support::fail(Stage::cache, Code::not_in_cache,
                cat(name, " is not ", place,
                    ", and Options::on_miss (TJ_ON_MISS) is error; make it ahead by tj-warm or prepare(), or allow "
                    "calls to make kernels: wait, quick"));
}

Artifact KernelMaker::make_anew(Wanted& what) {
  bool on_disk = false;
  return compile_and_publish(what, *counted_source_of(what, false), &on_disk);
}

std::unique_ptr<LoadedKernel> KernelMaker::load_once(const ops::Maker& op, const ops::Request& request,
                                                     const arch::Target& target,
                                                     const std::shared_ptr<launch::Driver>& driver, int device,
                                                     const Artifact& artifact) {
  const support::ToolRange range("load", request.name);
  const auto start = Clock::now();
  auto kernel = loaded_kernel(driver, device, *target.arch, artifact);
  kernel->id = kernel_id(request.name, target);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  count([seconds](Counts& counts) {
    ++counts.counters.loads;
    counts.counters.load_s += seconds;
  });
  if (log_.enabled(LogLevel::debug))
    log_(LogLevel::debug, stage_line(op.name(), request.name, target, "load", seconds * 1e3));
  return kernel;
}

void KernelMaker::refuse_unloadable(const std::string& title, const std::string& why) {
  count([](Counts& counts) { ++counts.counters.refused; });
  support::fail(Stage::cache, Code::not_in_cache,
                cat("the cache entry of ", title, " does not load (", why,
                    "), and Options::on_miss (TJ_ON_MISS) is error; make it ahead by tj-warm with this machine's "
                    "compiler (TJ_PACK_COMPILER=own), or allow calls to make kernels: wait, quick"));
}

std::unique_ptr<LoadedKernel> KernelMaker::load(const ops::Maker& op, const ops::Request& request,
                                                const arch::Target& target,
                                                const std::shared_ptr<launch::Driver>& driver, int device,
                                                const Artifact& artifact, MissPolicy on_miss,
                                                const Error* refused_before) {
  const support::Uncancelled whole;
  if (artifact.report.origin != KernelOrigin::disk) return load_once(op, request, target, driver, device, artifact);
  std::optional<Wanted> what;
  cache::Without refused;
  std::optional<Artifact> other;
  for (const Artifact* from = &artifact; from != nullptr; from = other ? &*other : nullptr) {
    try {
      if (refused_before != nullptr) throw Error(*std::exchange(refused_before, nullptr));
      return load_once(op, request, target, driver, device, *from);
    } catch (const Error& error) {
      if (error.code != Code::unsupported) throw;
      count([](Counts& counts) { ++counts.refused_by_driver; });
      if (!what) what.emplace(wanted(op, request, target));
      const bool is_new = refused.insert(from->compiler_hex).second;
      other = is_new ? another(*what, refused) : std::nullopt;
      if (!other && on_miss == MissPolicy::error) refuse_unloadable(what->title(), error.message);
      log_(LogLevel::warn, cat("the cache entry of ", request.name, " does not load and ",
                               other ? "that of another compiler is tried: " : "is made anew: ", error.message));
    }
  }
  return load_once(op, request, target, driver, device, make_anew(*what));
}

/// False when the time is over, and at once where this thread has the turn: the kernel is made here, then. The thread
/// with the turn may first wait as long for another process. The limit of the threads that wait for it counts only from
/// then: otherwise all of them would make the kernel at once.
bool KernelMaker::wait_for_turn(Making& making, const std::string& name, bool& waited) {
  constexpr std::chrono::milliseconds kLongestStep{200};
  if (making.turn.try_lock()) return true;
  if (making.holder.load() == ::gettid()) return false;  // a user's function asks for the kernel
  waited = true;
  support::Patience patience(settings_.wait_limit_s), longest(2 * settings_.wait_limit_s);
  while (!making.turn.try_lock_for(patience.step(kLongestStep))) {
    if (support::process_is_ending() || support::Workers::WaitLimit::of_this_thread_is_over())
      end_wait(name, support::Workers::why_wait_no_more());
    if (patience.word_is_due()) say_waiting(name, patience.waited_s(), "another thread", false);
    const auto since = making.since.load();
    if (since != 0) patience.counts_from(Clock::time_point(Clock::duration(since)));
    if ((since != 0 && patience.over()) || longest.over()) {
      say_waiting(name, patience.waited_s(), "another thread", true);
      return false;
    }
  }
  return true;
}

std::shared_ptr<void> KernelMaker::wait_for_processes(const cache::Key& key, const std::string& name, bool& waited) {
  if (store_ == nullptr) return nullptr;
  const auto says = [&](double waited_s, const std::string& holder, bool over) {
    say_waiting(name, waited_s, holder, over);
  };
  std::string_view why;
  const auto given_up = [&why] { return !(why = support::Workers::why_wait_no_more()).empty(); };
  auto held = store_->lock(key, {settings_.wait_limit_s, says, &waited, given_up});
  end_wait(name, why);
  return held;
}

/// A thread of the library's own, which only waits, is none that the end of its runtime or process should wait for.
void KernelMaker::end_wait(const std::string& name, std::string_view why) {
  if (!why.empty())
    support::fail(Stage::compile, Code::io, cat(name, " was waited for, and somebody else makes it: ", why));
}

void KernelMaker::count_wait(Clock::time_point since) {
  const double seconds = std::chrono::duration<double>(Clock::now() - since).count();
  count([seconds](Counts& counts) {
    ++counts.counters.waits;
    counts.counters.wait_s += seconds;
  });
}

void KernelMaker::say_waiting(const std::string& name, double waited_s, const std::string& holder, bool over) const {
  const double waited = waited_s < 1 ? waited_s : std::floor(waited_s);
  if (over)
    return log_(LogLevel::warn, cat(name, ": ", holder, " still makes it after ", waited,
                                    " s; it is made here, too (TJ_WAIT_LIMIT says how long to wait)"));
  const std::string limit = settings_.wait_limit_s > 0 ? cat(" of at most ", settings_.wait_limit_s) : "";
  log_(LogLevel::warn,
       cat(name, ": waiting for ", holder, ", which makes it, for ", waited, " s", limit, " (TJ_WAIT_LIMIT)"));
}

Counters KernelMaker::counters() const {
  Counts counts;
  {
    const std::lock_guard lock(mutex_);
    counts = counts_;
  }
  Counters out = std::move(counts.counters);
  const cache::StoreCounts store = store_ != nullptr ? store_->counts() : cache::StoreCounts();
  counts.hits.resize(store.layers.size());
  for (std::size_t i = 0; i < store.layers.size(); ++i)
    out.layers.push_back({store.layers[i].directory, counts.hits[i], store.layers[i].bytes_read});
  for (std::size_t i = 0; i < store.rejected.size(); ++i)
    out.rejected.push_back({cache::kRejectionNames[i], store.rejected[i]});
  out.rejected.push_back({"fields", counts.without_fields});
  out.rejected.push_back({"driver", counts.refused_by_driver});
  const cache::RemoteCounts remote = remote_ != nullptr ? remote_->counts() : cache::RemoteCounts();
  out.remote_hits = remote.hits;
  out.remote_misses = remote.misses;
  out.remote_failures = remote.failures;
  out.remote_rejected = remote.rejected;
  out.remote_skipped = remote.skipped;
  out.remote_puts = remote.puts;
  out.remote_bytes_read = remote.bytes_read;
  out.remote_bytes_written = remote.bytes_written;
  out.stores = store.stores;
  out.alias_stores = store.alias_stores;
  out.failed_stores = store.failed_stores;
  out.bytes_written = store.bytes_written;
  out.evictions = store.evictions;
  out.bytes_evicted = store.bytes_evicted;
  return out;
}

}  // namespace tj
