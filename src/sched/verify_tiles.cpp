// Checks the times of tiles against their graph alone: plays some tiles, one after another, as the emitted code would.
//
// Decides only right or wrong. Shares no code with the search for the period: each role's calls are played in the order
// of its text, and what they hand back is noted when the role knows of it. Then each filling of a slot is looked up.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sched/tile_level.hpp"
#include "sched/verify_limits.hpp"
#include "sched/verify_play.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;
using support::cat;

using graph::Edge;
using graph::Graph;
using graph::Node;
using graph::Scope;

class TileVerifier {
 public:
  TileVerifier(const Graph& graph, const Schedule& schedule, const TileTimes& times)
      : g_(graph), s_(schedule), t_(times), n_(times.iterations) {}

  std::vector<std::string> run() {
    if (!shapes()) return std::move(problems_);
    int slots = 1;
    for (const Ring& ring : s_.rings) slots = std::max(slots, ring.slots);
    tiles_ = g_.walks() ? 2 + (slots + std::max(1, n_) - 1) / std::max(1, n_) : 2;
    for (const Edge& edge : g_.edges) one_edge(edge);
    units();
    if (!g_.walks()) blocks();
    for (int r = 0; r < static_cast<int>(s_.roles.size()); ++r)
      for (std::string& each : play_role(g_, s_, t_, r, tiles_, handed_back_)) problems_.push_back(std::move(each));
    for (const Ring& ring : s_.rings) fillings(ring);
    return std::move(problems_);
  }

 private:
  template <class... Parts>
  void report(const Parts&... parts) {
    problems_.push_back(cat("tiles of ", n_, " iterations: ", parts...));
  }
  const Node& node(int i) const { return g_.nodes[at(i)]; }
  bool loops(int i) const { return node(i).scope == Scope::iteration; }
  int role(int i) const { return s_.role[at(i)]; }
  bool runs(int i) const { return n_ > 0 || !loops(i); }
  std::int64_t issue(int i, int tile, int iteration) const {
    return tile * t_.period + t_.cycle[at(i)] + (loops(i) ? std::int64_t{iteration} * s_.ii : 0);
  }

  bool shapes() {
    if (n_ < 0 || t_.period < 1) report("the period is ", t_.period, ", must be at least 1");
    if (t_.cycle.size() != g_.nodes.size() || t_.roles.size() != s_.roles.size())
      report("cycles are given for ", t_.cycle.size(), " of ", g_.nodes.size(), " nodes and ", t_.roles.size(), " of ",
             s_.roles.size(), " roles");
    return problems_.empty();
  }

  /// Results are there when they are read.
  void one_edge(const Edge& edge) {
    if (edge.value >= 0 && g_.values[at(edge.value)].scope != Scope::iteration && loops(edge.src) &&
        role(edge.src) != role(edge.dst) && t_.cycle[at(edge.dst)] < t_.roles[at(role(edge.src))].loop_end)
      report(node(edge.dst).name, " reads a sum that ", node(edge.src).name, " still adds to");
    if (!runs(edge.src) || !runs(edge.dst)) return;
    const bool crosses = role(edge.src) != role(edge.dst);
    const std::int64_t delay = (counts_as_free(g_, s_, edge.src) ? 0 : edge.delay) + (crosses ? edge.spill_cycles : 0);
    const auto late = [&](int from, int to) {
      const std::int64_t short_of = issue(edge.src, 0, from) + delay - issue(edge.dst, 0, to);
      if (short_of > 0)
        report("edge ", node(edge.src).name, " -> ", node(edge.dst).name, " is short of ", short_of, " cycles");
      return short_of > 0;
    };
    if (loops(edge.src) && loops(edge.dst)) {
      for (int i = 0; i + edge.distance < n_; ++i)
        if (late(i, i + edge.distance)) return;
    } else {
      late(n_ - 1, 0);
    }
    if (edge.value >= 0 && crosses && !loops(edge.src) && node(edge.src).async == graph::Async::none &&
        issue(edge.dst, 0, 0) < issue(edge.src, 0, 0) + node(edge.src).cycles)
      report(node(edge.dst).name, " reads what ", node(edge.src).name, " is still filling");
  }

  /// Cycles that the loops of some tiles hold each unit, and those that a tile holds it in all.
  void units() {
    for (int u = 0; u < static_cast<int>(g_.machine.units.size()); ++u) {
      std::map<std::int64_t, std::int64_t> change;
      std::int64_t all = 0;
      for (int i = 0; i < static_cast<int>(g_.nodes.size()); ++i)
        for (const graph::Reservation& use : node(i).reservations) {
          if (use.unit != u || use.cycles <= 0) continue;
          all += std::int64_t{use.cycles} * use.count * (loops(i) ? n_ : 1) * g_.blocks_per_sm;
          if (loops(i)) hold(i, use, change);
        }
      const std::int64_t capacity = g_.machine.units[at(u)].capacity;
      if (g_.walks() && all > t_.period * capacity)
        report("unit ", g_.machine.units[at(u)].name, " is held for ", all, " cycles, the period is ", t_.period);
      std::int64_t now = 0;
      for (const auto& [cycle, by] : change) {
        now += by;
        if (now <= capacity) continue;
        report("unit ", g_.machine.units[at(u)].name, " holds ", now, " of ", capacity, " at cycle ", cycle);
        break;
      }
    }
  }
  void hold(int i, const graph::Reservation& use, std::map<std::int64_t, std::int64_t>& change) const {
    for (int t = 0; t < tiles_; ++t)
      for (int k = 0; k < n_; ++k) {
        change[issue(i, t, k) + use.start] += use.count;
        change[issue(i, t, k) + use.start + use.cycles] -= use.count;
      }
  }

  /// A block of one tile: the next one begins when it has ended.
  void blocks() {
    for (const TileRole& leaves : t_.roles)
      for (const TileRole& enters : t_.roles)
        if (enters.enters + t_.period < leaves.leaves)
          report("a block begins ", leaves.leaves - enters.enters - t_.period, " cycles before the one before it ends");
  }

  /// Each filling waits until all roles have handed back what was in its slot.
  void fillings(const Ring& ring) {
    const graph::Value& value = g_.values[at(ring.value)];
    const bool each_iteration = value.scope == Scope::iteration;
    if (!each_iteration && !g_.walks()) return;
    const int per_tile = each_iteration ? n_ : 1, fillings = per_tile * (g_.walks() ? tiles_ : 1);
    for (const Edge& edge : g_.edges) {
      if (edge.value != ring.value || (each_iteration && (!runs(edge.src) || !runs(edge.dst)))) continue;
      if (role(edge.src) == role(edge.dst) && !s_.mixed_roles) continue;
      for (int f = ring.slots; f < fillings; ++f) {
        const int tile = f / per_tile, iteration = f % per_tile;
        const std::int64_t fills = loops(edge.src) && !each_iteration
                                       ? tile * t_.period + t_.roles[at(role(edge.src))].loop_begin
                                       : issue(edge.src, tile, iteration);
        const auto back = handed_back_.find({ring.value, role(edge.dst), f - ring.slots});
        if (back == handed_back_.end())
          return report("role ", s_.roles[at(role(edge.dst))].name, " never hands back filling ", f - ring.slots,
                        " of ring ", value.name);
        if (fills < back->second)
          return report(node(edge.src).name, " fills ring ", value.name, " ", back->second - fills,
                        " cycles before its slot is handed back");
      }
    }
  }

  const Graph& g_;
  const Schedule& s_;
  const TileTimes& t_;
  const int n_;
  int tiles_ = 2;
  HandedBack handed_back_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> verify_tiles(const Graph& graph, const Schedule& schedule, const TileTimes& times) {
  return TileVerifier(graph, schedule, times).run();
}

}  // namespace tj::sched
