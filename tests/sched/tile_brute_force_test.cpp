// Protects the least period of tiles: on tiny graphs, no cycles of any nodes make a shorter one. All of them are tried.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"
#include "sched/tile_level.hpp"
#include "tile_graphs.hpp"

namespace {

using namespace tj;

/// All cycles of nodes within a tile, for one period.
class Enumeration {
 public:
  Enumeration(const graph::Graph& graph, const sched::Schedule& schedule, int iterations, std::int64_t period,
              std::int64_t horizon)
      : g_(graph), s_(schedule), n_(iterations), horizon_(horizon) {
    times_.iterations = iterations;
    times_.period = period;
    times_.cycle.assign(graph.nodes.size(), 0);
    times_.roles.resize(schedule.roles.size());
  }
  bool any() { return from(0, false); }
  std::uint64_t asked = 0;  ///< placements that edges and orders allow

 private:
  static std::size_t spot(int i) { return static_cast<std::size_t>(i); }
  const graph::Node& node(int i) const { return g_.nodes[spot(i)]; }
  bool loops(int i) const { return node(i).scope == graph::Scope::iteration; }
  std::int64_t cycle(int i) const { return times_.cycle[spot(i)]; }

  bool from(int index, bool zero) {
    if (index == static_cast<int>(g_.nodes.size())) return zero && tiles_in_order() && legal();
    if (n_ == 0 && loops(index)) return from(index + 1, zero);
    for (std::int64_t c = 0; c < horizon_; ++c) {
      times_.cycle[spot(index)] = c;
      if (edges_hold(index) && uses_in_order(index) && from(index + 1, zero || c == 0)) return true;
    }
    times_.cycle[spot(index)] = 0;
    return false;
  }

  /// Edges to nodes that have their cycles.
  bool edges_hold(int last) const {
    return std::all_of(g_.edges.begin(), g_.edges.end(), [&](const graph::Edge& edge) {
      if (std::max(edge.src, edge.dst) != last || (n_ == 0 && (loops(edge.src) || loops(edge.dst)))) return true;
      if (loops(edge.src) && loops(edge.dst))
        return edge.distance >= n_ || cycle(edge.dst) + edge.distance * s_.ii >= cycle(edge.src) + edge.delay;
      return cycle(edge.dst) >= cycle(edge.src) + edge.delay + (loops(edge.src) ? (n_ - 1) * s_.ii : 0);
    });
  }

  /// Uses of a unit that the schedule keeps apart come in its order. Two uses on a unit that has room for both may
  /// meet.
  bool uses_in_order(int last) const {
    if (!loops(last)) return true;
    for (int other = 0; other < last; ++other)
      if (loops(other))
        for (const graph::Reservation& a : node(last).reservations)
          for (const graph::Reservation& b : node(other).reservations)
            if (a.unit == b.unit && contested(a.unit) && !pair_in_order(last, a, other, b)) return false;
    return true;
  }
  bool contested(int unit) const {
    int most = 0;
    for (const graph::Node& each : g_.nodes)
      for (const graph::Reservation& use : each.reservations)
        if (use.unit == unit && each.scope == graph::Scope::iteration)
          most += use.count * (1 + (use.cycles - 1) / s_.ii);
    return most > g_.machine.units[spot(unit)].capacity;
  }
  static std::int64_t end(std::int64_t at, const graph::Reservation& use) { return at + use.start + use.cycles; }
  bool pair_in_order(int i, const graph::Reservation& a, int j, const graph::Reservation& b) const {
    for (int x = 0; x < n_; ++x)
      for (int y = 0; y < n_; ++y) {
        const std::int64_t planned_a = s_.cycle[spot(i)] + x * s_.ii, planned_b = s_.cycle[spot(j)] + y * s_.ii;
        const std::int64_t at_a = cycle(i) + x * s_.ii, at_b = cycle(j) + y * s_.ii;
        if (end(planned_a, a) <= planned_b + b.start && end(at_a, a) > at_b + b.start) return false;
        if (end(planned_b, b) <= planned_a + a.start && end(at_b, b) > at_a + a.start) return false;
      }
    return true;
  }

  /// The loops of two tiles on units: apart, or where roles do not take turns in the order that one shift of the next
  /// loop gives. The same shift holds on all units.
  bool tiles_in_order() const {
    if (!g_.walks() || n_ == 0) return true;
    if (all_apart(true)) return true;
    for (std::int64_t shift = 0; shift <= s_.length; ++shift)
      if (all_apart(false) && all_shifted(shift)) return true;
    return false;
  }
  bool open(int unit) const {
    int first = -1;
    bool several = false;
    for (std::size_t i = 0; i < g_.nodes.size(); ++i)
      for (const graph::Reservation& use : g_.nodes[i].reservations)
        if (use.unit == unit && g_.nodes[i].scope == graph::Scope::iteration) {
          several = several || (first >= 0 && first != s_.role[i]);
          first = s_.role[i];
        }
    for (const sched::OrderBarrier& barrier : s_.order_barriers)
      if (barrier.unit == unit) return false;
    return several && g_.machine.units[spot(unit)].capacity == 1;
  }
  template <class Holds>
  bool all_uses(const Holds& holds) const {
    for (int i = 0; i < static_cast<int>(g_.nodes.size()); ++i)
      for (int j = 0; loops(i) && j < static_cast<int>(g_.nodes.size()); ++j)
        for (const graph::Reservation& a : node(i).reservations)
          for (const graph::Reservation& b : node(j).reservations)
            if (loops(j) && a.unit == b.unit && contested(a.unit) && !holds(i, a, j, b)) return false;
    return true;
  }
  bool all_apart(bool open_too) const {
    return all_uses([&](int i, const graph::Reservation& a, int j, const graph::Reservation& b) {
      return (!open_too && open(a.unit)) || end(cycle(i) + (n_ - 1) * s_.ii, a) <= cycle(j) + times_.period + b.start;
    });
  }
  bool all_shifted(std::int64_t shift) const {
    return all_uses([&](int i, const graph::Reservation& a, int j, const graph::Reservation& b) {
      if (!open(a.unit)) return true;
      for (int tiles = 1; tiles <= 3; ++tiles)
        for (int x = 0; x < n_; ++x)
          for (int y = 0; y < n_; ++y) {
            const std::int64_t planned_a = s_.cycle[spot(i)] + x * s_.ii + a.start;
            const std::int64_t planned_b = s_.cycle[spot(j)] + y * s_.ii + b.start + tiles * (n_ * s_.ii + shift);
            const std::int64_t at_a = cycle(i) + x * s_.ii, at_b = cycle(j) + y * s_.ii + tiles * times_.period;
            const bool first = s_.role[spot(i)] == s_.role[spot(j)] || planned_a <= planned_b;
            if (first ? end(at_a, a) > at_b + b.start : end(at_b, b) > at_a + a.start) return false;
          }
      return true;
    });
  }

  /// The roles' own cycles are the best that there are for these of the nodes.
  bool legal() {
    ++asked;
    std::int64_t last = 0;
    for (std::size_t r = 0; r < s_.roles.size(); ++r) last = std::max(last, place_role(static_cast<int>(r)));
    for (sched::TileRole& role : times_.roles) {
      role.enters = (g_.walks() ? role.leaves : last) - times_.period;
      role.loop_begin = std::max(role.loop_begin, role.enters);
      role.loop_end = std::max(role.loop_end, role.loop_begin);
    }
    return sched::verify_tiles(g_, s_, times_).empty();
  }
  std::int64_t place_role(int r) {
    sched::TileRole& role = times_.roles[spot(r)];
    std::int64_t begun = 0, first = INT64_MAX, loop_end = 0, end = 0;
    for (const int i : s_.roles[spot(r)].nodes) {
      const graph::Node& each = node(i);
      const std::int64_t busy = std::max(each.cycles, each.warp_cycles);
      const bool seen = each.async == graph::Async::matrix || each.async == graph::Async::store;
      const std::int64_t done = cycle(i) + (seen ? std::max<std::int64_t>(busy, each.latency) : busy);
      if (each.scope == graph::Scope::tile_begin) begun = std::max(begun, done);
      if (each.scope == graph::Scope::tile_end) end = std::max(end, done);
      if (!loops(i) || n_ == 0) continue;
      first = std::min(first, cycle(i));
      loop_end = std::max(loop_end, done + (n_ - 1) * s_.ii);
    }
    for (const graph::Edge& edge : g_.edges)
      if (s_.role[spot(edge.dst)] == r && s_.role[spot(edge.src)] != r && edge.value >= 0 &&
          g_.values[spot(edge.value)].scope == graph::Scope::tile_begin)
        begun = std::max(begun, cycle(edge.src) + edge.delay);
    role.loop_begin = first == INT64_MAX ? begun : first;
    role.loop_end = std::max(role.loop_begin, loop_end);
    role.leaves = std::max(role.loop_end, end);
    return role.leaves;
  }

  const graph::Graph& g_;
  const sched::Schedule& s_;
  const int n_;
  const std::int64_t horizon_;
  sched::TileTimes times_;
};

}  // namespace

TEST_CASE("no cycles of the nodes make a shorter period") {
  int graphs = 0, walks = 0, bound_by_waits = 0;
  std::uint64_t asked = 0;
  for (std::uint64_t seed = 0; graphs < 60; ++seed) {
    const graph::Graph graph = test::tile_graph(seed, 3);
    if (graph.nodes.size() > 5) continue;
    const sched::Schedule schedule = sched::schedule(graph);
    CAPTURE(graph::to_text(graph));
    CAPTURE(sched::to_text(graph, schedule));
    ++graphs;
    walks += graph.walks() ? 1 : 0;
    for (int n = 0; n <= 3; ++n) {
      CAPTURE(n);
      const sched::TileTimes times = sched::tile_times(graph, schedule, n);
      bound_by_waits += times.critical.empty() ? 0 : 1;
      const std::int64_t horizon = times.alone + 2;
      Enumeration same(graph, schedule, n, times.period, horizon);
      CHECK(same.any());
      for (std::int64_t period = std::max<std::int64_t>(1, times.period - 3); period < times.period; ++period) {
        CAPTURE(period);
        Enumeration shorter(graph, schedule, n, period, horizon);
        CHECK(!shorter.any());
        asked += shorter.asked;
      }
    }
  }
  MESSAGE(graphs << " graphs, " << asked << " placements refused for a shorter period");
  CHECK(walks * 2 > graphs);
  CHECK(bound_by_waits > graphs);
  CHECK(asked > 1000);
}
