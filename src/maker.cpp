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
  return made;
}

/// A place's turn, given back with this; also none, where the time to wait for it was over.
class KernelMaker::Taken {
 public:
  Taken(Place& place, bool taken) : place_(taken ? &place : nullptr) {
    if (taken) place.making_since.store(0);  // a forked child finds that of its parent
  }
  ~Taken() {
    if (place_ == nullptr) return;
    place_->making_since.store(0);
    place_->turn.unlock();
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  void making() {
    if (place_ != nullptr) place_->making_since.store(Clock::now().time_since_epoch().count());
  }

 private:
  Place* place_;
};

KernelMaker::Place& KernelMaker::place_of(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return places_[key];
}

std::optional<Artifact> KernelMaker::kept(Place& place) {
  const std::lock_guard lock(place.mutex);
  return place.kept;
}

Artifact KernelMaker::get(const ops::Maker& op, const ops::Request& request, const arch::Target& target) {
  const support::Uncancelled whole;
  if (record_.wanted()) record_.add(manifest_line(request, target));
  compile::Compiler& compiler = backends_.compiler(target);
  const cache::Key key = key_of(request, target, compiler);
  if (auto found = from_disk(op, request, target, key)) return std::move(*found);
  count([](Counts& counts) { ++counts.counters.misses; });
  const std::string name = cat(request.name, " for ", target.name());
  Place& place = place_of(key.request_hex);
  const auto since = Clock::now();
  bool waited = false;
  const bool own_turn = wait_for_turn(place, name, waited);
  Taken taken(place, own_turn);
  auto made_by_thread = kept(place);
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
  if (store_ != nullptr && store_->store(key, to_entry(made, op))) return made;
  const std::lock_guard lock(place.mutex);
  place.kept = made;
  place.kept->report = without_times(made.report, KernelOrigin::memory);
  return made;
}

Artifact KernelMaker::make_counted(const ops::Maker& op, const ops::Request& request, const arch::Target& target) {
  try {
    Artifact made = make(op, request, target, backends_.compiler(target), settings_, log_);
    count([&](Counts& counts) {
      ++counts.counters.compiles;
      counts.counters.schedule_s += made.report.schedule_ms * 1e-3;
      counts.counters.codegen_s += made.report.codegen_ms * 1e-3;
      counts.counters.compile_s += made.report.compile_ms * 1e-3;
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
bool KernelMaker::wait_for_turn(Place& place, const std::string& name, bool& waited) {
  constexpr std::chrono::seconds kLongestStep{1};
  if (place.turn.try_lock()) return true;
  waited = true;
  support::Patience patience(settings_.wait_limit_s), longest(2 * settings_.wait_limit_s);
  while (!place.turn.try_lock_for(patience.step(kLongestStep))) {
    if (patience.word_is_due()) say_waiting(name, patience.waited_s(), "another thread", false);
    const auto since = place.making_since.load();
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
