// A kernel that is wanted: its text, its two keys, and what the disk has of it.
//
// Decides in which order the disk is asked: by the request's alias, then by the text. Does not decide who makes a
// kernel (maker.cpp), nor what is trusted (cache/). Invariant: a kernel is taken from disk only when its entry says
// that it is the one that was asked for.
#include <algorithm>
#include <chrono>
#include <utility>

#include "maker.hpp"
#include "manifest.hpp"
#include "stage_line.hpp"
#include "support/fail.hpp"
#include "support/process_end.hpp"
#include "support/text.hpp"
#include "support/uncancelled.hpp"

namespace tj {

using support::cat;

namespace {

/// The kernel in an entry that was looked up for it; empty, and why, when it is not that.
std::optional<Artifact> kernel_in(const cache::Entry& entry, const ops::Request& request, const arch::Target& target,
                                  ops::GeometryFields fields, std::string* why) {
  *why = entry_problem(entry);
  if (why->empty()) *why = other_kernel(entry, request.name, target.name());
  return why->empty() ? from_entry(entry, fields, why) : std::nullopt;
}

/// Did another compiler make it than the one at hand?
bool is_others(const cache::Key& key, const cache::Entry& entry) {
  return !key.compiler_hex.empty() && entry.compiler_hex != key.compiler_hex;
}

}  // namespace

std::string KernelMaker::text_hex(const Wanted& what) {
  const std::lock_guard lock(what.place.mutex);
  return what.place.text_hex;
}

std::shared_ptr<const Source> KernelMaker::source_of(Wanted& what) {
  Place& place = what.place;
  const support::HeldTurn turn(place.writes_text);
  {
    const std::lock_guard lock(place.mutex);
    if (auto made_before = place.source.lock()) return made_before;
  }
  auto source = std::make_shared<const Source>(make_source(what.op, what.request, what.target));
  std::string hex = text_key_of(what.op, *source, backends_.compiler(what.target)).request_hex;
  count([&](Counts& counts) {
    counts.counters.schedule_s += source->report.schedule_ms * 1e-3;
    counts.counters.codegen_s += source->report.codegen_ms * 1e-3;
  });
  const std::lock_guard lock(place.mutex);
  place.source = source;
  place.text_hex = std::move(hex);
  return source;
}

std::shared_ptr<const Source> KernelMaker::counted_source_of(Wanted& what, bool misses) {
  try {
    return source_of(what);
  } catch (...) {
    count([&](Counts& counts) {
      counts.counters.misses += misses ? 1 : 0;
      ++counts.counters.failed_compiles;
    });
    throw;
  }
}

Artifact KernelMaker::compile_counted(const Wanted& what, const Source& source) {
  try {
    Artifact made = compile_source(what.op, source, backends_.compiler(what.target), settings_, log_);
    count([&](Counts& counts) {
      ++counts.counters.compiles;
      counts.counters.compile_s += made.report.compile_ms * 1e-3;
    });
    note_taken(what, what.key.compiler_hex);
    return made;
  } catch (...) {
    count([](Counts& counts) { ++counts.counters.failed_compiles; });
    throw;
  }
}

bool KernelMaker::publish(const Wanted& what, const cache::Entry& entry) {
  const cache::Key key{text_hex(what), what.key.compiler_hex};
  if (store_ == nullptr || !store_->store(key, entry)) return false;
  publish_alias(what);
  return true;
}

void KernelMaker::publish_alias(const Wanted& what) {
  const std::string hex = text_hex(what);
  if (hex == what.named) return;
  store_->store_alias(what.key.request_hex, {hex, what.key.compiler_hex},
                      {{"name", what.request.name}, {"target", what.target.name()}});
}

std::optional<Artifact> KernelMaker::from_remote(const Wanted& what) {
  if (remote_ == nullptr) return std::nullopt;
  std::optional<Artifact> artifact;
  const cache::Key key{text_hex(what), what.key.compiler_hex};
  const auto entry = remote_->get(key, [&](const cache::Entry& whole, std::string* why) {
    artifact = kernel_in(whole, what.request, what.target, what.op.geometry_fields(), why);
    return artifact.has_value();
  });
  if (!entry) return std::nullopt;
  artifact->report.origin = KernelOrigin::disk;
  artifact->compiler_hex = key.compiler_hex;
  log_(LogLevel::info, cat(what.title(), ": found in the remote store"));
  if (!publish(what, *entry)) keep(what.place.best, *artifact);
  return artifact;
}

void KernelMaker::put_remotely(const Wanted& what, const Artifact& artifact) {
  if (remote_ != nullptr) remote_->put({text_hex(what), what.key.compiler_hex}, to_entry(artifact, what.op));
}

void KernelMaker::note_taken(const Wanted& what, const std::string& compiler_hex) {
  const std::lock_guard lock(what.place.mutex);
  what.place.taken = compiler_hex;
}

std::optional<cache::Entry> KernelMaker::entry_of(const Wanted& what, const std::string& hex, std::string& named,
                                                  const Beside& beside) const {
  std::string taken;
  {
    const std::lock_guard lock(what.place.mutex);
    taken = what.place.taken;
  }
  const auto of = [&](const std::string& compiler_hex, cache::Served served) {
    return hex.empty() ? store_->load_aliased({what.key.request_hex, compiler_hex}, &named, served, beside.without)
                       : store_->load({hex, compiler_hex}, served, beside.without);
  };
  const std::string& own = what.key.compiler_hex;
  if (!taken.empty() && taken != own)
    if (auto entry = of(taken, cache::Served::own)) return entry;
  return of(own, !taken.empty() && taken == own && !beside.lost ? cache::Served::own : served());
}

std::optional<Artifact> KernelMaker::find(const ops::Maker& op, const ops::Request& request,
                                          const arch::Target& target) {
  const support::Uncancelled whole;
  Wanted what = wanted(op, request, target);
  auto found = from_disk(what, MissPolicy::wait, Counted::hits);
  if (found && record_.wanted()) record_.add(manifest_line(request, target));
  return found;
}

std::optional<Artifact> KernelMaker::from_disk(Wanted& what, MissPolicy on_miss, Counted counted) {
  if (store_ == nullptr) return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  const std::string hex = text_hex(what);
  const auto entry = entry_of(what, hex, what.named, beside(on_miss));
  auto artifact = kernel_of(what, entry, false, nullptr);
  if (hex.empty() && (artifact || counted == Counted::all)) {
    const bool found = !what.named.empty();
    count([&](Counts& counts) { ++(found ? counts.counters.alias_hits : counts.counters.alias_misses); });
  }
  if (artifact && log_.enabled(LogLevel::trace)) {
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    log_(LogLevel::trace, cat(stage_line(what.op.name(), what.request.name, what.target, "disk", taken.count()),
                              " layer=", entry->layer, is_others(what.key, *entry) ? " compiler=other" : ""));
  }
  return artifact;
}

std::optional<Artifact> KernelMaker::from_disk_by_text(const Wanted& what, bool made_meanwhile, std::string* problem,
                                                       MissPolicy on_miss) {
  if (store_ == nullptr) return std::nullopt;
  std::string named;
  auto artifact = kernel_of(what, entry_of(what, text_hex(what), named, beside(on_miss)), made_meanwhile, problem);
  if (artifact && !made_meanwhile) {
    log_(LogLevel::info, cat(what.title(), ": found in the cache by its text"));
    publish_alias(what);
  }
  return artifact;
}

std::optional<Artifact> KernelMaker::kernel_of(const Wanted& what, const std::optional<cache::Entry>& entry,
                                               bool made_meanwhile, std::string* problem) {
  if (!entry) return std::nullopt;
  std::string why;
  auto artifact = kernel_in(*entry, what.request, what.target, what.op.geometry_fields(), &why);
  count([&](Counts& counts) {
    if (artifact && made_meanwhile) ++counts.counters.shared;
    if (artifact && !made_meanwhile) {
      const auto layer = static_cast<std::size_t>(entry->layer);
      counts.hits.resize(std::max(counts.hits.size(), layer + 1));
      ++counts.hits[layer];
      counts.counters.other_compiler_hits += is_others(what.key, *entry) ? 1 : 0;
    }
    if (!artifact && made_meanwhile) ++counts.without_fields;
  });
  if (artifact)
    take(what, *entry, *artifact);
  else if (problem != nullptr)
    *problem = cat("cache entry ", text_hex(what), " in ", support::shown_path(store_->directory()),
                   " has not the fields of such a kernel and is made anew: ", why);
  return artifact;
}

void KernelMaker::take(const Wanted& what, const cache::Entry& entry, Artifact& artifact) const {
  note_taken(what, entry.compiler_hex);
  artifact.report.origin = KernelOrigin::disk;
  artifact.compiler_hex = entry.compiler_hex;
  if (!is_others(what.key, entry)) return;
  const std::string* maker = entry.find("compiler_version");
  log_(LogLevel::info, cat(what.title(), ": found in a pack, as another compiler made it (",
                           maker != nullptr ? support::shown(*maker) : "unknown", "; TJ_PACK_COMPILER)"));
}

/// Counts no look-up: that of the call was a hit.
std::optional<Artifact> KernelMaker::another(const Wanted& what, cache::Without without) {
  if (store_ == nullptr) return std::nullopt;
  const std::string hex = text_hex(what);
  const bool own_before = without.count(what.key.compiler_hex) != 0;
  for (std::string named, why;;) {
    const auto entry = entry_of(what, hex, named, {true, without});
    if (!entry) return std::nullopt;
    if (auto artifact = kernel_in(*entry, what.request, what.target, what.op.geometry_fields(), &why)) {
      if (own_before && is_others(what.key, *entry))
        count([](Counts& counts) { ++counts.counters.other_compiler_hits; });
      take(what, *entry, *artifact);
      return artifact;
    }
    if (!without.insert(entry->compiler_hex).second) return std::nullopt;
  }
}

bool KernelMaker::on_disk(const ops::Maker* op, const ops::Request& request, const arch::Target& target,
                          std::string* problem, bool by_text) {
  problem->clear();
  if (store_ == nullptr) return false;
  const ops::GeometryFields fields = op != nullptr ? op->geometry_fields() : ops::GeometryFields();
  compile::Compiler& compiler = backends_.compiler(target);
  const auto serves = [&](const std::optional<cache::Entry>& entry) {
    return entry && kernel_in(*entry, request, target, fields, problem);
  };
  if (serves(store_->look_aliased(key_of(request, target, compiler), problem, served()))) return true;
  if (op == nullptr || !by_text) return false;
  std::string why;
  try {
    const auto entry = store_->look(text_key_of(*op, make_source(*op, request, target), compiler), &why, served());
    if (serves(entry)) {
      problem->clear();
      return true;
    }
  } catch (const Error& error) {
    why = error.message;
  }
  if (problem->empty()) *problem = why;
  return false;
}

}  // namespace tj
