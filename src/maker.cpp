// See maker.hpp.
#include "maker.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "manifest.hpp"
#include "support/fail.hpp"
#include "support/patience.hpp"
#include "support/text.hpp"
#include "support/uncancelled.hpp"

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

namespace {

void count_stages(Counters& counters, const KernelReport& report) {
  counters.schedule_s += report.schedule_ms * 1e-3;
  counters.codegen_s += report.codegen_ms * 1e-3;
  counters.compile_s += report.compile_ms * 1e-3;
}

}  // namespace

/// A turn, given back with this; also none, where the time to wait for it was over.
class KernelMaker::Taken {
 public:
  Taken(Making& of, bool taken) : of_(taken ? &of : nullptr) {
    if (taken) of.since.store(0);  // a forked child finds that of its parent
  }
  ~Taken() {
    if (of_ == nullptr) return;
    of_->since.store(0);
    of_->turn.unlock();
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  void making() {
    if (of_ != nullptr) of_->since.store(Clock::now().time_since_epoch().count());
  }

 private:
  Making* of_;
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

Artifact KernelMaker::get(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                          MissPolicy on_miss) {
  const support::Uncancelled whole;
  if (record_.wanted()) record_.add(manifest_line(request, target));
  const cache::Key key = key_of(request, target, backends_.compiler(target));
  if (auto found = from_disk(op, request, target, key)) return std::move(*found);
  count([](Counts& counts) { ++counts.counters.misses; });
  Place& place = place_of(key.request_hex);
  if (on_miss != MissPolicy::wait) {
    if (auto made_before = kept(place.best)) {
      count([](Counts& counts) { ++counts.counters.shared; });
      return std::move(*made_before);
    }
    if (on_miss == MissPolicy::error) refuse(cat(request.name, " for ", target.name()));
    if (auto made = make_quickly(op, request, target, key, place.quick)) return std::move(*made);
  }
  return make_alone(op, request, target, key, place.best);
}

Artifact KernelMaker::best(const ops::Maker& op, const ops::Request& request, const arch::Target& target) {
  const support::Uncancelled whole;
  const cache::Key key = key_of(request, target, backends_.compiler(target));
  Place& place = place_of(key.request_hex);
  auto found = from_disk(op, request, target, key);
  Artifact artifact = found ? std::move(*found) : make_alone(op, request, target, key, place.best);
  const std::lock_guard lock(place.quick.mutex);
  place.quick.kept.reset();
  return artifact;
}

Artifact KernelMaker::make_alone(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                                 const cache::Key& key, Making& making) {
  const std::string name = cat(request.name, " for ", target.name());
  const auto since = Clock::now();
  bool waited = false;
  const bool own_turn = wait_for_turn(making, name, waited);
  Taken taken(making, own_turn);
  auto made_by_thread = kept(making);
  const auto across_processes = own_turn && !made_by_thread ? wait_for_processes(key, name, waited)
                                                            : nullptr;  // who has the turn has that lock, too
  if (waited) count_wait(since);
  if (made_by_thread) {
    count([](Counts& counts) { ++counts.counters.shared; });
    return std::move(*made_by_thread);
  }
  taken.making();
  std::string problem;
  if (auto found = from_disk(op, request, target, key, &problem)) return std::move(*found);
  if (!problem.empty()) log_(LogLevel::warn, problem);
  Artifact made = make_counted(op, request, target);
  log_(LogLevel::info,
       cat(name, ": scheduled in ", made.report.schedule_ms, " ms, compiled in ", made.report.compile_ms, " ms"));
  if (store_ == nullptr || !store_->store(key, to_entry(made, op))) keep(making, made);
  return made;
}

/// None where the compiler has no quicker way, or could not go it: then the best one is waited for.
std::optional<Artifact> KernelMaker::make_quickly(const ops::Maker& op, const ops::Request& request,
                                                  const arch::Target& target, const cache::Key& key, Making& making) {
  const std::string name = cat("a quick ", request.name, " for ", target.name());
  compile::Compiler& compiler = backends_.compiler(target);
  if (compiler.quick_options().empty()) return std::nullopt;
  const auto since = Clock::now();
  bool waited = false;
  Taken taken(making, wait_for_turn(making, name, waited));
  if (waited) count_wait(since);
  if (auto made_by_thread = kept(making)) return made_by_thread;
  std::string problem;  // which make_alone() tells
  if (auto best_meanwhile = from_disk(op, request, target, key, &problem)) return best_meanwhile;
  taken.making();
  try {
    Artifact made = make_quick(op, request, target, compiler, settings_, log_);
    count([&](Counts& counts) { count_stages(counts.counters, made.report); });
    log_(LogLevel::info, cat(name, ": compiled in ", made.report.compile_ms,
                             " ms; it serves until the best one is there (TJ_ON_MISS)"));
    keep(making, made);
    return made;
  } catch (const Error& error) {
    log_(LogLevel::info, cat(name, " could not be made, so the call waits for the best one: ", error.message));
    return std::nullopt;
  }
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

Artifact KernelMaker::make_counted(const ops::Maker& op, const ops::Request& request, const arch::Target& target) {
  try {
    Artifact made = make(op, request, target, backends_.compiler(target), settings_, log_);
    count([&](Counts& counts) {
      ++counts.counters.compiles;
      count_stages(counts.counters, made.report);
    });
    return made;
  } catch (...) {
    count([](Counts& counts) { ++counts.counters.failed_compiles; });
    throw;
  }
}

Artifact KernelMaker::make_anew(const ops::Maker& op, const ops::Request& request, const arch::Target& target) {
  compile::Compiler& compiler = backends_.compiler(target);
  Artifact artifact = make_counted(op, request, target);
  if (store_ != nullptr) store_->store(key_of(request, target, compiler), to_entry(artifact, op));
  return artifact;
}

std::unique_ptr<LoadedKernel> KernelMaker::load(const ops::Maker& op, const ops::Request& request,
                                                const arch::Target& target,
                                                const std::shared_ptr<launch::Driver>& driver, int device,
                                                const Artifact& artifact) {
  const support::Uncancelled whole;
  const auto loaded = [&](const Artifact& from) {
    const auto start = Clock::now();
    auto kernel = loaded_kernel(driver, device, *target.arch, from);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    count([seconds](Counts& counts) {
      ++counts.counters.loads;
      counts.counters.load_s += seconds;
    });
    return kernel;
  };
  if (artifact.report.origin != KernelOrigin::disk) return loaded(artifact);
  try {
    return loaded(artifact);
  } catch (const Error& e) {
    if (e.code != Code::unsupported) throw;
    count([](Counts& counts) { ++counts.refused_by_driver; });
    log_(LogLevel::warn, cat("the cache entry of ", request.name, " does not load and is made anew: ", e.message));
  }
  return loaded(make_anew(op, request, target));
}

/// False when the time is over. The thread with the turn may first wait as long for another process. The limit of the
/// threads that wait for it counts only from then: otherwise all of them would make the kernel at once.
bool KernelMaker::wait_for_turn(Making& making, const std::string& name, bool& waited) {
  constexpr std::chrono::seconds kLongestStep{1};
  if (making.turn.try_lock()) return true;
  waited = true;
  support::Patience patience(settings_.wait_limit_s), longest(2 * settings_.wait_limit_s);
  while (!making.turn.try_lock_for(patience.step(kLongestStep))) {
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
  return store_->lock(key, {settings_.wait_limit_s, says, &waited});
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

namespace {

/// The kernel in an entry that was looked up for it; empty, and why, when it is not that.
std::optional<Artifact> kernel_in(const cache::Entry& entry, const ops::Request& request, const arch::Target& target,
                                  ops::GeometryFields fields, std::string* why) {
  *why = entry_problem(entry);
  if (why->empty()) *why = other_kernel(entry, request.name, target.name());
  return why->empty() ? from_entry(entry, fields, why) : std::nullopt;
}

}  // namespace

bool KernelMaker::on_disk(const ops::Request& request, const arch::Target& target, ops::GeometryFields fields,
                          std::string* problem) {
  problem->clear();
  if (store_ == nullptr) return false;
  const auto entry = store_->look(key_of(request, target, backends_.compiler(target)), problem);
  return entry && kernel_in(*entry, request, target, fields, problem);
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
  out.stores = store.stores;
  out.failed_stores = store.failed_stores;
  out.bytes_written = store.bytes_written;
  out.evictions = store.evictions;
  out.bytes_evicted = store.bytes_evicted;
  return out;
}

std::optional<Artifact> KernelMaker::from_disk(const ops::Maker& op, const ops::Request& request,
                                               const arch::Target& target, const cache::Key& key,
                                               std::string* problem) {
  const auto entry = store_ != nullptr ? store_->load(key) : std::nullopt;
  if (!entry) return std::nullopt;
  std::string why;
  auto artifact = kernel_in(*entry, request, target, op.geometry_fields(), &why);
  const bool again = problem != nullptr;
  count([&](Counts& counts) {
    if (artifact && again) ++counts.counters.shared;
    if (artifact && !again) {
      const auto layer = static_cast<std::size_t>(entry->layer);
      counts.hits.resize(std::max(counts.hits.size(), layer + 1));
      ++counts.hits[layer];
    }
    if (!artifact && again) ++counts.without_fields;
  });
  if (artifact)
    artifact->report.origin = KernelOrigin::disk;
  else if (problem != nullptr)
    *problem = cat("cache entry ", key.request_hex, " in ", support::shown_path(store_->directory()),
                   " has not the fields of such a kernel and is made anew: ", why);
  return artifact;
}

}  // namespace tj
