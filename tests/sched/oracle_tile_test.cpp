// Protects the least period of tiles against the code that is emitted: its events, in the order of each role's text,
// become a formula over the times of a tile. Z3 agrees that the period is possible and that no shorter one is.
#include <doctest/doctest.h>

#if TJ_HAS_Z3

#include <z3++.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/timeline.hpp"
#include "graph/graph.hpp"
#include "sched/schedule.hpp"
#include "sched/tile_level.hpp"
#include "tile_graphs.hpp"

namespace {

using namespace tj;
using codegen::Event;
using codegen::EventKind;
using graph::Async;
using graph::Scope;

#ifdef TJ_SANITIZED
constexpr int kGraphs = 10;  // the sanitizer looks at our code, which is the same in all of them
#else
constexpr int kGraphs = 20;
#endif

std::size_t spot(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Tiles of n iterations with one period. `shift`: that of loops on units which several roles share; none: apart.
class Formula {
 public:
  Formula(z3::context& context, const graph::Graph& graph, const sched::Schedule& schedule, int iterations,
          std::int64_t period, std::optional<std::int64_t> shift)
      : c_(context), g_(graph), s_(schedule), n_(iterations), period_(period), shift_(shift), solver_(context) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) issue_.push_back(fresh());
    for (int r = 0; r < static_cast<int>(schedule.roles.size()); ++r) list_events(r);
    for (int r = 0; r < static_cast<int>(schedule.roles.size()); ++r) play(r);
    for (const graph::Edge& edge : graph.edges) result(edge);
    for (int u = 0; u < static_cast<int>(graph.machine.units.size()); ++u) unit(u);
    for (int r = 0; r < static_cast<int>(schedule.roles.size()); ++r) warps(r);
  }
  bool possible() { return fits_ && solver_.check() == z3::sat; }
  bool open() const { return open_; }  ///< is there a unit on which the shift says something?

 private:
  z3::expr fresh() { return z3::expr(c_, Z3_mk_fresh_const(c_, "t", c_.int_sort())); }
  z3::expr number(std::int64_t value) { return c_.int_val(value); }
  const graph::Node& node(int i) const { return g_.nodes[spot(i)]; }
  bool loops(int i) const { return node(i).scope == Scope::iteration; }
  int role(int i) const { return s_.role[spot(i)]; }
  z3::expr at(int i, std::int64_t iteration) { return issue_[spot(i)] + number(loops(i) ? iteration * s_.ii : 0); }
  std::int64_t planned(int i, std::int64_t iteration) const { return s_.cycle[spot(i)] + iteration * s_.ii; }
  static std::int64_t busy(const graph::Node& node) { return std::max(node.cycles, node.warp_cycles); }

  /// A role's events in a tile, a time for each, and one more where it has done with the tile.
  struct Played {
    std::vector<Event> events;
    std::size_t end = 0;  ///< the first event behind the loop
    std::vector<z3::expr> time;
  };
  void list_events(int r) {
    const codegen::Timeline timeline = codegen::simulate(g_, s_, r, n_);
    Played played;
    played.events = timeline.tile_begin;
    for (const auto& step : timeline.steps) played.events.insert(played.events.end(), step.begin(), step.end());
    played.end = played.events.size();
    played.events.insert(played.events.end(), timeline.tile_end.begin(), timeline.tile_end.end());
    for (std::size_t e = 0; e <= played.events.size() + 1; ++e)
      played.time.push_back(fresh());  // the last but one: enters
    for (std::size_t e = 0; e < played.events.size(); ++e)
      if (const Event& event = played.events[e]; event.kind == EventKind::release)
        handed_back_.emplace(std::make_tuple(event.ring, r, event.iteration), played.time[e]);
    roles_.push_back(std::move(played));
  }
  void after(const z3::expr& later, const z3::expr& earlier, std::int64_t cycles) {
    solver_.add(later >= earlier + number(cycles));
  }

  void play(int r) {
    const Played& role = roles_[spot(r)];
    const std::size_t count = role.events.size();
    const z3::expr &enters = role.time[count + 1], &leaves = role.time[count];
    after(count > 0 ? role.time[0] : leaves, enters, 0);
    for (std::size_t other = 0; other < roles_.size(); ++other)
      if (!g_.walks() || spot(r) == other) after(enters, roles_[other].time[roles_[other].events.size()], -period_);
    groups_.clear();
    stores_.clear();
    for (std::size_t e = 0; e < count; ++e) {
      after(role.time[e + 1 == count ? count : e + 1], role.time[e], 0);
      one_event(r, role, e);
    }
  }

  void one_event(int r, const Played& role, std::size_t e) {
    const Event& event = role.events[e];
    const z3::expr& now = role.time[e];
    if (event.kind == EventKind::call) {
      solver_.add(now == at(event.node, event.iteration));
      called(role, e);
      if (node(event.node).async == Async::matrix) groups_.push_back({event.node, event.iteration});
      if (node(event.node).async == Async::store) stores_.push_back({event.node, event.iteration});
    } else if (event.kind == EventKind::matrix_wait) {
      finished(groups_, event.pending, now);
    } else if (event.kind == EventKind::store_wait) {
      finished(stores_, event.pending, now);
    } else if (event.kind == EventKind::wait_full) {
      wait_full(r, event, now);
    } else if (event.kind == EventKind::wait_empty) {
      wait_empty(event, now);
    }
  }
  /// The role goes on when the call returns; in the loop, no later than the schedule has its next call.
  void called(const Played& role, std::size_t e) {
    const Event& call = role.events[e];
    const graph::Node& n = node(call.node);
    if (!loops(call.node)) return after(role.time[e + 1], role.time[e], busy(n));
    std::int64_t returns = n.cycles;
    bool later = false;  // in the text of a step
    for (const int other : s_.roles[spot(this->role(call.node))].nodes) {
      later = later || other == call.node;
      for (int step = -1; loops(other) && other != call.node && step <= 1; ++step)
        if (const std::int64_t since = in_step(other) + step * s_.ii - in_step(call.node);
            since > 0 || (since == 0 && later))
          returns = std::min(returns, since);
    }
    after(role.time[e + 1], role.time[e], std::min<std::int64_t>(returns, s_.ii));
    after(role.time[role.end], role.time[e], busy(n));
  }
  std::int64_t in_step(int i) const { return planned(i, 0) - std::int64_t{s_.step_stage(i)} * s_.ii; }
  void finished(std::vector<std::pair<int, int>>& list, int pending, const z3::expr& now) {
    while (list.size() > spot(pending)) {
      after(now, at(list.front().first, list.front().second), node(list.front().first).latency);
      list.erase(list.begin());
    }
  }
  void wait_full(int r, const Event& event, const z3::expr& now) {
    const int value = s_.rings[spot(event.ring)].value;
    for (const graph::Edge& edge : g_.edges)
      if (edge.value == value && role(edge.dst) == r && (!loops(edge.src) || event.iteration >= 0))
        after(now, at(edge.src, event.iteration), edge.delay);
  }
  /// All that read the slot before have handed it back, and were done with it.
  void wait_empty(const Event& event, const z3::expr& now) {
    const sched::Ring& ring = s_.rings[spot(event.ring)];
    const bool each = g_.values[spot(ring.value)].scope == Scope::iteration;
    std::int64_t filling = each ? event.iteration - ring.slots : -1, tiles = each ? 0 : ring.slots;
    for (; each && filling < 0; ++tiles) filling += n_;
    if (tiles > 0 && !g_.walks()) return;
    for (const int reader : ring.consumer_roles)
      after(now, handed_back_.at({event.ring, reader, static_cast<int>(filling)}), -tiles * period_);
    for (const graph::Edge& edge : g_.edges)
      if (edge.value == ring.value && each && loops(edge.dst) && node(edge.dst).async == Async::none &&
          filling + edge.distance < n_)
        after(now, at(edge.dst, filling + edge.distance), node(edge.dst).latency - tiles * period_);
      else if (edge.value == ring.value && !loops(edge.dst))
        after(now, at(edge.dst, -1), std::max(node(edge.dst).cycles, node(edge.dst).latency) - tiles * period_);
  }

  void result(const graph::Edge& edge) {
    if (n_ == 0 && (loops(edge.src) || loops(edge.dst))) return;
    if (loops(edge.src) && loops(edge.dst)) {
      for (int i = 0; i + edge.distance < n_; ++i) after(at(edge.dst, i + edge.distance), at(edge.src, i), edge.delay);
      return;
    }
    after(at(edge.dst, 0), at(edge.src, n_ - 1), edge.delay);
    if (edge.value >= 0 && node(edge.src).async == Async::none)
      after(at(edge.dst, 0), at(edge.src, 0), node(edge.src).cycles);
  }

  // ---- units --------------------------------------------------------------------------------------------------------
  struct Use {
    int node = 0;
    std::int64_t start = 0, cycles = 0;
  };
  void unit(int u) {
    std::vector<Use> uses;
    std::int64_t most = 0, held = 0;
    const std::int64_t capacity = g_.machine.units[spot(u)].capacity;
    bool several = false;
    for (int i = 0; i < static_cast<int>(g_.nodes.size()); ++i)
      for (const graph::Reservation& use : node(i).reservations) {
        if (use.unit != u || use.cycles == 0) continue;
        held += std::int64_t{use.cycles} * use.count * (loops(i) ? n_ : 1);
        if (!loops(i)) continue;
        uses.push_back({i, use.start, use.cycles});
        most += use.count * (1 + (use.cycles - 1) / s_.ii);
        several = several || role(i) != role(uses.front().node);
      }
    fits_ = fits_ && held <= capacity * period_;
    if (most <= capacity) return;
    const bool turns = std::any_of(s_.order_barriers.begin(), s_.order_barriers.end(),
                                   [&](const sched::OrderBarrier& barrier) { return barrier.unit == u; });
    in_order(uses, several && !turns && capacity == 1);
  }
  void warps(int r) {
    std::vector<Use> uses;
    for (int i = 0; i < static_cast<int>(g_.nodes.size()); ++i)
      if (loops(i) && role(i) == r && node(i).warp_cycles > 0) uses.push_back({i, 0, node(i).warp_cycles});
    if (uses.size() > 1) in_order(uses, false);
  }
  void in_order(const std::vector<Use>& uses, bool open) {
    open_ = open_ || open;
    for (const Use& a : uses)
      for (const Use& b : uses)
        for (int i = 0; i < n_; ++i)
          for (int j = 0; j < n_; ++j) {
            if (a.node != b.node && planned(a.node, i) + a.start + a.cycles <= planned(b.node, j) + b.start)
              before(a, i, b, j, 0);
            for (int tiles = 1; tiles <= 3 && g_.walks(); ++tiles) {
              const bool first =
                  !open || !shift_ || role(a.node) == role(b.node) ||
                  planned(a.node, i) + a.start <= planned(b.node, j) + b.start + tiles * (n_ * s_.ii + *shift_);
              if (first)
                before(a, i, b, j, tiles);
              else
                before(b, j, a, i, -tiles);
            }
          }
  }
  void before(const Use& a, int i, const Use& b, int j, int tiles) {
    after(at(b.node, j), at(a.node, i), a.start + a.cycles - b.start - tiles * period_);
  }

  z3::context& c_;
  const graph::Graph& g_;
  const sched::Schedule& s_;
  const int n_;
  const std::int64_t period_;
  const std::optional<std::int64_t> shift_;
  z3::solver solver_;
  bool fits_ = true, open_ = false;
  std::vector<z3::expr> issue_;
  std::vector<Played> roles_;
  std::map<std::tuple<int, int, int>, z3::expr> handed_back_;
  std::vector<std::pair<int, int>> groups_, stores_;
};

bool possible(z3::context& context, const graph::Graph& graph, const sched::Schedule& schedule, int n,
              std::int64_t period) {
  Formula apart(context, graph, schedule, n, period, std::nullopt);
  if (apart.possible()) return true;
  for (std::int64_t shift = 0; n > 0 && graph.walks() && apart.open() && shift <= schedule.length; ++shift)
    if (Formula(context, graph, schedule, n, period, shift).possible()) return true;
  return false;
}

/// Two products of a role that are waited for together are done one by one in the loop's schedule, and here as the
/// younger one is.
bool one_product_a_role(const graph::Graph& graph, const sched::Schedule& schedule) {
  std::vector<int> products(schedule.roles.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].async == Async::matrix) ++products[spot(schedule.role[i])];
  return std::all_of(products.begin(), products.end(), [](int count) { return count <= 1; });
}

TEST_CASE("Z3 finds the period of tiles in the events of the emitted code, and no shorter one") {
  z3::context context;
  int graphs = 0, periods = 0;
  for (std::uint64_t seed = 10'000; graphs < kGraphs; ++seed) {
    const graph::Graph graph = test::tile_graph(seed, 7);
    const sched::Schedule schedule = sched::schedule(graph);
    if (!one_product_a_role(graph, schedule)) continue;
    CAPTURE(seed);
    CAPTURE(graph::to_text(graph));
    CAPTURE(sched::to_text(graph, schedule));
    ++graphs;
    for (int n = 0; n <= 4; ++n) {
      CAPTURE(n);
      const sched::TileTimes times = sched::tile_times(graph, schedule, n);
      CAPTURE(times.period);
      CHECK(possible(context, graph, schedule, n, times.period));
      if (times.period > 1) CHECK(!possible(context, graph, schedule, n, times.period - 1));
      ++periods;
    }
  }
  MESSAGE(graphs << " graphs, " << periods << " periods");
}

}  // namespace

#else

#include <cstdio>
#include <cstdlib>

TEST_CASE("Z3 finds the period of tiles in the events of the emitted code, and no shorter one") {
  std::puts("skipped: built without z3++.h and libz3 (Debian: libz3-dev)");
  std::exit(77);
}

#endif
