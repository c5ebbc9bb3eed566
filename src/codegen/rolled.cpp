// See rolled.hpp.
#include "codegen/rolled.hpp"

#include <algorithm>

namespace tj::codegen {
namespace {

// `part` must be `whole` less some events: waits for the matrix unit or for stores, the completions and releases of
// those, and syncs. Events of `part` then begin at step `from`, the others later. False where it is something else.
bool without_waits(const std::vector<Event>& part, int from, std::vector<Rolled::Guarded>& whole) {
  std::size_t next = 0;
  for (auto& [first, event] : whole) {
    const bool present = next < part.size() && part[next] == event;
    const bool may_lack = event.kind == EventKind::matrix_wait || event.kind == EventKind::store_wait ||
                          event.kind == EventKind::done || event.kind == EventKind::release ||
                          event.kind == EventKind::wait_full || is_sync(event.kind);
    if (present && first == from + 1)
      first = from;
    else if (present || !may_lack)
      return false;  // comes and goes, or may never be left out
    next += present;
  }
  return next == part.size();
}

/// The events that belong to iterations.
std::vector<Event> without_syncs(std::vector<Event> events) {
  events.erase(std::remove_if(events.begin(), events.end(), [](const Event& event) { return is_sync(event.kind); }),
               events.end());
  return events;
}

/// The events of `steady` in step `s` whose iterations are among 0 to n - 1, without syncs. `steady` counts iterations
/// from the step, the result from `origin`.
/// - 1; those counted from `origin`.
std::vector<Event> present(const std::vector<Event>& steady, int s, int n, int origin) {
  std::vector<Event> events;
  for (Event event : without_syncs(steady)) {
    event.iteration += s;
    if (event.iteration < 0 || event.iteration >= n) continue;
    event.iteration -= origin;
    events.push_back(event);
  }
  return events;
}

}  // namespace

std::optional<Rolled> roll(const Pattern& pattern) {
  if (pattern.peel == 0 || !pattern.drain.empty()) return std::nullopt;
  Rolled rolled;
  for (const Event& event : pattern.steady) rolled.body.emplace_back(pattern.peel, event);
  for (const Event& event : pattern.drain_end) rolled.end.emplace_back(pattern.peel, event);
  for (int step = pattern.peel - 1; step >= 0; --step) {
    const auto at = static_cast<std::size_t>(step);
    if (!without_waits(relative(pattern.prologue[at], step), step, rolled.body)) return std::nullopt;
    const Timeline& shorter = pattern.shorter[at];  // a loop of `step` iterations
    for (std::size_t s = 0; s < at; ++s)
      if (shorter.steps[s] != pattern.prologue[s]) return std::nullopt;
    const auto [before, after] = split_end(shorter.tile_end, step);
    if (after != pattern.tile_end || !without_waits(before, step, rolled.end)) return std::nullopt;
  }
  // A wait for all groups returns at once where there are none. A condition would hide from the compiler that the
  // registers of the products are free behind it. ptxas 13.0 then keeps the products from overlapping.
  for (auto& [from, event] : rolled.end)
    if (event.kind == EventKind::matrix_wait && event.pending == 0) from = 0;
  return rolled;
}

bool lacks_iterations_alone(const Pattern& pattern) {
  if (pattern.drain.empty() || !pattern.drain_end.empty()) return false;
  const int drain = static_cast<int>(pattern.drain.size()), many = pattern.peel + drain;
  for (int s = 0; s < pattern.peel; ++s)
    if (without_syncs(pattern.prologue[static_cast<std::size_t>(s)]) != present(pattern.steady, s, many, 0))
      return false;
  for (int d = 0; d < drain; ++d)
    if (without_syncs(pattern.drain[static_cast<std::size_t>(d)]) != present(pattern.steady, many + d, many, many))
      return false;
  for (int n = 0; n < pattern.peel; ++n) {
    const Timeline& shorter = pattern.shorter[static_cast<std::size_t>(n)];
    for (int s = 0; s < static_cast<int>(shorter.steps.size()); ++s)
      if (without_syncs(shorter.steps[static_cast<std::size_t>(s)]) != present(pattern.steady, s, n, 0)) return false;
    const auto [before, after] = split_end(shorter.tile_end, n);
    if (!before.empty() || after != pattern.tile_end || shorter.tile_begin != pattern.tile_begin) return false;
  }
  return true;
}

bool of_earlier(const Event& event) {
  switch (event.kind) {
    case EventKind::wait_full:
    case EventKind::matrix_fence:
    case EventKind::call:
    case EventKind::done:
    case EventKind::release:
      return event.iteration < 0;
    default:
      return false;
  }
}

bool begins_as_it_repeats(const Pattern& pattern) {
  const auto& steady = pattern.steady;
  const auto is_earlier_group = [](const Event& event) {
    return event.kind == EventKind::matrix_commit && event.iteration < 0;
  };
  const auto lacks = [&](const Event& event) { return of_earlier(event) || is_earlier_group(event); };
  // The turn may come before other waits: the repeating step takes it before those of its first call.
  const auto compared = [](std::vector<Event> events) {
    const auto call =
        std::find_if(events.begin(), events.end(), [](const Event& event) { return event.kind == EventKind::call; });
    events.erase(
        std::remove_if(events.begin(), call, [](const Event& event) { return event.kind == EventKind::order_wait; }),
        call);
    std::erase_if(events, [](const Event& event) { return event.kind == EventKind::matrix_wait; });
    for (Event& event : events)
      if (event.kind == EventKind::order_arrive) event.node = -1;  // the last call of the turn, which may be lacking
    return events;
  };
  const auto turns = [](const std::vector<Event>& events) {
    return std::count_if(events.begin(), events.end(),
                         [](const Event& event) { return event.kind == EventKind::order_wait; });
  };
  if (pattern.peel == 0 || std::none_of(steady.begin(), steady.end(), is_earlier_group)) return false;
  for (int s = 0; s < pattern.peel; ++s) {
    if (turns(pattern.prologue[static_cast<std::size_t>(s)]) != turns(steady)) return false;
    std::vector<Event> expected;
    for (Event event : compared(steady))
      if (!lacks(event) || event.iteration + s >= 0) expected.push_back(event);
    if (compared(relative(pattern.prologue[static_cast<std::size_t>(s)], s)) != expected) return false;
  }
  return true;
}

}  // namespace tj::codegen
