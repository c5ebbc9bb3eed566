// Whether tiles end: the events of the emitted code are played without times, in the order of each role's text, as long
// as one role can go on.
//
// Decides only whether all events happen. Places that rings have in turns are left out, so what it says waits for ever
// does so with them, too.
#include "tile_ends.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/timeline.hpp"
#include "support/index.hpp"

namespace tj::test {
namespace {

using codegen::Event;
using codegen::EventKind;
using support::at;

class Run {
 public:
  Run(const graph::Graph& graph, const sched::Schedule& schedule, int iterations, int tiles)
      : g_(graph), s_(schedule), n_(iterations) {
    for (int r = 0; r < static_cast<int>(s_.roles.size()); ++r) {
      const codegen::Timeline timeline = codegen::simulate(g_, s_, r, n_);
      roles_.emplace_back();
      for (int tile = 0; tile < tiles; ++tile) {
        add(timeline.tile_begin, tile);
        for (const auto& step : timeline.steps) add(step, tile);
        add(timeline.tile_end, tile);
      }
    }
  }

  bool ends() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < static_cast<int>(roles_.size()); ++r)
        for (Text& each = roles_[at(r)]; each.next < each.events.size() && happens(r, each.events[each.next]);
             moved = true)
          ++each.next;
    }
    return std::all_of(roles_.begin(), roles_.end(), [](const Text& each) { return each.next == each.events.size(); });
  }

 private:
  struct Text {
    std::vector<std::pair<Event, int>> events;  ///< with their tiles
    std::size_t next = 0;
  };
  void add(const std::vector<Event>& events, int tile) {
    for (const Event& event : events) roles_.back().events.emplace_back(event, tile);
  }
  /// The number of a filling since the first tile; -1 where the last iteration of none has left it.
  int filling(int ring, int iteration, int tile) const {
    if (g_.values[at(s_.rings[at(ring)].value)].scope != graph::Scope::iteration) return tile;
    return n_ == 0 ? -1 : tile * n_ + (iteration < 0 ? n_ - 1 : iteration);
  }

  /// Does the event of a role happen now? Then what follows from it does.
  bool happens(int role, const std::pair<Event, int>& next) {
    const auto& [event, tile] = next;
    if (event.ring >= 0 && filling(event.ring, event.iteration, tile) < 0) return true;  // of a tile without iterations
    switch (event.kind) {
      case EventKind::wait_full:
        return full_.count({event.ring, filling(event.ring, event.iteration, tile)}) != 0;
      case EventKind::wait_empty:
        return is_empty(event.ring, filling(event.ring, event.iteration, tile));
      case EventKind::publish:
      case EventKind::publish_copies:
      case EventKind::unit_publish:
        full_.insert({event.ring, filling(event.ring, event.iteration, tile)});
        return true;
      case EventKind::expect_full:  // the copies that follow say so themselves
        full_.insert({event.ring, filling(event.ring, event.iteration, tile)});
        return true;
      case EventKind::release:
      case EventKind::unit_release:
        handed_back_.insert({event.ring, role, filling(event.ring, event.iteration, tile)});
        return true;
      case EventKind::order_wait:
        return has_turn(event.order, role);
      case EventKind::order_arrive:
        ++arrived_[{event.order, role}];
        return true;
      default:
        return true;
    }
  }
  bool is_empty(int ring, int of) const {
    const sched::Ring& which = s_.rings[at(ring)];
    return of < which.slots || std::all_of(
                                   which.consumer_roles.begin(), which.consumer_roles.end(),
                                   [&](int role) { return handed_back_.count({ring, role, of - which.slots}) != 0; });
  }
  /// The role before it has arrived once more than this one has taken its turn; the first role has a turn ahead.
  bool has_turn(int order, int role) {
    const auto& roles = s_.order_barriers[at(order)].roles;
    const auto place = std::find(roles.begin(), roles.end(), role);
    const int ahead = place == roles.begin() ? 1 : 0, before = ahead == 1 ? roles.back() : *(place - 1);
    int& taken = taken_[{order, role}];
    if (arrived_[{order, before}] + ahead <= taken) return false;
    ++taken;
    return true;
  }

  const graph::Graph& g_;
  const sched::Schedule& s_;
  const int n_;
  std::vector<Text> roles_;
  std::set<std::pair<int, int>> full_;                  ///< ring, filling
  std::set<std::tuple<int, int, int>> handed_back_;     ///< ring, role, filling
  std::map<std::pair<int, int>, int> arrived_, taken_;  ///< order barrier, role
};

}  // namespace

bool tiles_end(const graph::Graph& graph, const sched::Schedule& schedule, int iterations, int tiles) {
  return Run(graph, schedule, iterations, tiles).ends();
}

}  // namespace tj::test
