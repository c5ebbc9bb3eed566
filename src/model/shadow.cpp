// See shadow.hpp.
#include "model/shadow.hpp"

#include <algorithm>

namespace tj::model {

void Shadow::reset(std::size_t bytes, std::uint32_t base) {
  base_ = base;
  accesses_.assign(2, Access{});
  writer_.assign((bytes + kGrain - 1) / kGrain, kNever);
  readers_.assign(writer_.size(), 0);
  sets_.assign(1, {});
  next_.clear();
}

Shadow::Id Shadow::add(const Access& access) {
  accesses_.push_back(access);
  return static_cast<Id>(accesses_.size() - 1);
}

std::size_t Shadow::run_end(std::size_t at, std::size_t end) const {
  const Id writer = writer_[at];
  const std::uint32_t readers = readers_[at];
  for (++at; at < end && writer_[at] == writer && readers_[at] == readers;) ++at;
  return at;
}

Shadow::Conflict Shadow::placed(Conflict conflict, std::size_t first, std::size_t end) const {
  conflict.address = base_ + static_cast<std::uint32_t>(first) * kGrain;
  conflict.bytes = static_cast<std::uint32_t>(end - first) * kGrain;
  return conflict;
}

/// knows_work(): is the asynchronous work of `prior` known to be done? knows(section): is a thread's access known, in
/// that sense?
template <class Work, class Knows>
std::optional<Shadow::Conflict> Shadow::judge(const Access& access, Id prior_id, const Work& knows_work,
                                              const Knows& knows) const {
  using Section = Order::Section;
  const Access& prior = accesses_[prior_id];
  const Conflict conflict{prior_id, 0, 0, false, false};
  if (prior.by != Access::By::thread) return knows_work() ? std::nullopt : std::optional(conflict);
  const bool async = access.by != Access::By::thread, proxied = async && access.by != Access::By::thread_copy;
  if (!knows(prior.write ? Section::writes : Section::reads)) return conflict;
  if (prior.write && proxied && !knows(Section::proxied_writes)) return Conflict{prior_id, 0, 0, true, false};
  if (!prior.write && async && !knows(Section::arrived_reads)) return Conflict{prior_id, 0, 0, false, true};
  return std::nullopt;
}

std::optional<Shadow::Conflict> Shadow::after(const Access& access, unsigned thread, Id prior_id) const {
  const Access& prior = accesses_[prior_id];
  // Lanes of one warp may write the same place: their order is the hardware's.
  const bool lanes = access.by == Access::By::thread && prior.by == Access::By::thread && access.write && prior.write &&
                     prior.thread / warp_threads_ == thread / warp_threads_;
  if (lanes) return std::nullopt;
  return judge(
      access, prior_id, [&] { return order_.knows(thread, prior.agent, prior.time); },
      [&](Order::Section section) { return order_.knows(thread, section, prior.thread, prior.time); });
}

std::optional<Shadow::Conflict> Shadow::after(const Access& access, const Told& told, Id prior_id) const {
  const Access& prior = accesses_[prior_id];
  const auto knows_work = [&] {
    return (prior.agent == told.agent && prior.time <= told.time) || order_.knows(told.known, prior.agent, prior.time);
  };
  return judge(access, prior_id, knows_work,
               [&](Order::Section section) { return order_.knows(told.known, section, prior.thread, prior.time); });
}

std::optional<Shadow::Conflict> Shadow::untold(Id id, const Told& told, std::uint32_t address,
                                               std::uint32_t bytes) const {
  const Access& access = accesses_[id];
  const Range all = range(address, bytes);
  for (std::size_t at = all.first; at < all.end;) {
    const std::size_t end = run_end(at, all.end);
    std::optional<Conflict> conflict;
    if (access.write) {
      for (const Id reader : sets_[readers_[at]])
        if (!conflict) conflict = after(access, told, reader);
    } else if (writer_[at] != kNever && writer_[at] != kBarrier) {
      conflict = after(access, told, writer_[at]);
    }
    if (conflict) return placed(*conflict, at, end);
    at = end;
  }
  return std::nullopt;
}

std::optional<Shadow::Conflict> Shadow::read(Id access, std::uint32_t address, std::uint32_t bytes, Reading* reading) {
  const Range all = range(address, bytes);
  const unsigned thread = accesses_[access].thread;
  for (std::size_t at = all.first; at < all.end;) {
    const std::size_t end = run_end(at, all.end);
    const Id writer = writer_[at];
    if (writer == kBarrier || (writer == kNever && reading == nullptr))
      return placed({writer, 0, 0, false, false}, at, end);
    if (writer == kNever)
      reading->unwritten += static_cast<std::uint32_t>(end - at) * kGrain;
    else if (auto conflict = after(accesses_[access], thread, writer))
      return placed(*conflict, at, end);
    else if (reading != nullptr &&
             std::find(reading->writers.begin(), reading->writers.end(), writer) == reading->writers.end())
      reading->writers.push_back(writer);
    std::fill(readers_.begin() + static_cast<std::ptrdiff_t>(at), readers_.begin() + static_cast<std::ptrdiff_t>(end),
              with(readers_[at], access));
    at = end;
  }
  return std::nullopt;
}

std::optional<Shadow::Conflict> Shadow::write(Id access, std::uint32_t address, std::uint32_t bytes) const {
  const Range all = range(address, bytes);
  const unsigned thread = accesses_[access].thread;
  for (std::size_t at = all.first; at < all.end;) {
    const std::size_t end = run_end(at, all.end);
    const Id writer = writer_[at];
    if (writer == kBarrier) return placed({writer, 0, 0, false, false}, at, end);
    for (const Id reader : sets_[readers_[at]])
      if (auto conflict = after(accesses_[access], thread, reader)) return placed(*conflict, at, end);
    if (writer != kNever)
      if (auto conflict = after(accesses_[access], thread, writer)) return placed(*conflict, at, end);
    at = end;
  }
  return std::nullopt;
}

void Shadow::wrote(Id access, std::uint32_t address, std::uint32_t bytes) {
  const Range all = range(address, bytes);
  std::fill(writer_.begin() + static_cast<std::ptrdiff_t>(all.first),
            writer_.begin() + static_cast<std::ptrdiff_t>(all.end), access);
  std::fill(readers_.begin() + static_cast<std::ptrdiff_t>(all.first),
            readers_.begin() + static_cast<std::ptrdiff_t>(all.end), 0u);
}

void Shadow::set_barrier(std::uint32_t address, std::uint32_t bytes) {
  const Range all = range(address, bytes);
  std::fill(writer_.begin() + static_cast<std::ptrdiff_t>(all.first),
            writer_.begin() + static_cast<std::ptrdiff_t>(all.end), kBarrier);
  std::fill(readers_.begin() + static_cast<std::ptrdiff_t>(all.first),
            readers_.begin() + static_cast<std::ptrdiff_t>(all.end), 0u);
}

std::uint32_t Shadow::with(std::uint32_t readers, Id access) {
  const std::uint64_t key = std::uint64_t{readers} << 32 | access;
  const auto found = next_.find(key);
  if (found != next_.end()) return found->second;
  const Access& added = accesses_[access];
  std::vector<Id> set;
  for (const Id id : sets_[readers]) {
    if (id == access) return next_[key] = readers;
    // Knowing of the later read of a thread or unit is knowing of its earlier ones.
    const Access& earlier = accesses_[id];
    const bool same =
        earlier.by == added.by &&
        (added.by == Access::By::thread ? earlier.thread == added.thread : earlier.agent == added.agent) &&
        earlier.time <= added.time;
    if (!same) set.push_back(id);
  }
  set.push_back(access);
  sets_.push_back(std::move(set));
  return next_[key] = static_cast<std::uint32_t>(sets_.size() - 1);
}

}  // namespace tj::model
