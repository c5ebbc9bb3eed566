// Roles, results and units of a tile (see rules.hpp); rings.cpp has what its slots ask.
#include "sched/tile/rules.hpp"

#include <algorithm>
#include <cstddef>

#include "graph/lifetimes.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {

using support::at;
using support::cat;

using graph::Async;
using graph::Edge;
using graph::Scope;

namespace {

/// Its role has other work meanwhile, and looks for its end before it goes on to another part of the tile.
bool observed(const graph::Node& node) { return node.async == Async::matrix || node.async == Async::store; }

/// The warps of a node's role are busy for so long.
std::int64_t busy(const graph::Node& node) { return std::max(node.cycles, node.warp_cycles); }

std::int64_t floor_of(std::int64_t value, std::int64_t by) {
  return value >= 0 ? value / by : -((-value + by - 1) / by);
}

/// A streaming load that the schedule counts with latency 0.
bool free_load(const graph::Graph& graph, const Schedule& schedule, int node) {
  const graph::Node& n = graph.nodes[at(node)];
  return schedule.streaming_latency_zero && n.variable_latency && n.streaming &&
         std::none_of(graph.edges.begin(), graph.edges.end(), [&](const Edge& edge) {
           return edge.dst == node && graph.nodes[at(edge.src)].scope == Scope::iteration;
         });
}

}  // namespace

TileRules::TileRules(const graph::Graph& graph, const Schedule& schedule, int iterations)
    : graph_(graph),
      schedule_(schedule),
      n_(iterations),
      events_{static_cast<int>(graph.nodes.size()), static_cast<int>(schedule.roles.size())},
      from_(at(events_.size())) {
  for (int r = 0; r < events_.roles; ++r) order_of_role(r);
  if (!graph.walks())
    for (int r = 0; r < events_.roles; ++r) {
      rule(events_.leave(r), events_.block_end(), 0, 0, Why::block);
      rule(events_.block_end(), events_.enter(r), 0, 1, Why::block);
    }
  results();
  units();
  rings();
  places();
}

std::vector<int> TileRules::part(int role, Scope scope) const {
  std::vector<int> nodes;
  for (const int index : schedule_.roles[at(role)].nodes)
    if (node(index).scope == scope) nodes.push_back(index);
  return nodes;
}

void TileRules::rule(const Rule& added) {
  for (const int known : from_[at(added.from)]) {
    Rule& other = rules_[at(known)];
    if (other.to != added.to || other.tiles != added.tiles) continue;
    if (added.cycles > other.cycles) other = added;
    return;
  }
  from_[at(added.from)].push_back(static_cast<int>(rules_.size()));
  rules_.push_back(added);
}

// ---- roles ----------------------------------------------------------------------------------------------------------
/// The role knows that a call of the loop is done so many cycles after its issue, where nothing else holds it up.
std::int64_t TileRules::seen_after(const graph::Node& node) {
  return observed(node) ? std::max<std::int64_t>(busy(node), node.latency) : busy(node);
}

void TileRules::order_of_role(int role) {
  const int enter = events_.enter(role), begin = events_.loop_begin(role), end = events_.loop_end(role),
            leave = events_.leave(role);
  Moment last{enter, 0};
  for (const int index : part(role, Scope::tile_begin)) {
    rule(last.event, index, last.cycles, 0, Why::order);
    last = {index, busy(node(index))};
    if (observed(node(index))) rule(index, begin, node(index).latency, 0, Why::result);
  }
  rule(last.event, begin, last.cycles, 0, Why::order);
  rule(begin, end, 0, 0, Why::order);
  const std::vector<int> loop = part(role, Scope::iteration);
  if (n_ > 0) {
    order_of_loop(loop);
    for (const int index : loop) {
      rule(begin, index, 0, 0, Why::order);
      rule(index, end, (n_ - 1) * ii() + seen_after(node(index)), 0, Why::loop);
    }
  }
  last = {end, 0};
  int store = -1, awaited = -1;  // where a block goes on, one store may be under way while the next one is asked for
  for (const int index : part(role, Scope::tile_end)) {
    rule(last.event, index, last.cycles, 0, Why::order);
    last = {index, busy(node(index))};
    if (observed(node(index))) rule(index, leave, node(index).latency, 0, Why::result);
    if (awaited >= 0) rule(awaited, index, node(awaited).latency, 0, Why::result);
    awaited = -1;
    if (node(index).async != Async::store || !graph_.walks()) continue;
    awaited = store;
    store = index;
  }
  rule(last.event, leave, last.cycles, 0, Why::order);
  if (graph_.walks()) rule(leave, enter, 0, 1, Why::order);
}

/// The text of a step is fixed. Two nodes of a role come in its order in all steps that have both, and in no order
/// where the tile is too short for that.
void TileRules::order_of_loop(const std::vector<int>& loop) {
  if (loop.empty()) return;
  int first = stage(loop.front()), last = first;
  for (const int index : loop) first = std::min(first, stage(index)), last = std::max(last, stage(index));
  const bool all = n_ <= last - first + 1;  // else each node and the next one, round the step, say it all
  for (std::size_t u = 0; u < loop.size(); ++u)
    for (std::size_t v = 0; v < loop.size(); ++v) {
      if (u == v || (!all && v != (u + 1) % loop.size())) continue;
      const int ahead = stage(loop[v]) - stage(loop[u]) - (u > v ? 1 : 0);  // iterations of u less those of v
      if (ahead <= -n_) continue;
      rule(loop[u], loop[v], std::min(ahead, n_ - 1) * ii() + returns(loop, u), 0, Why::order);
    }
}

/// A call returns after its cycles, and before the role's next call in the schedule.
std::int64_t TileRules::returns(const std::vector<int>& loop, std::size_t place) const {
  const auto in_step = [&](int index) { return cycle(index) - stage(index) * ii(); };
  const bool last = place + 1 == loop.size();
  const std::int64_t next = last ? in_step(loop.front()) + ii() : in_step(loop[place + 1]);
  return std::clamp<std::int64_t>(next - in_step(loop[place]), 0, node(loop[place]).cycles);
}

// ---- results --------------------------------------------------------------------------------------------------------
void TileRules::results() {
  for (const Edge& edge : graph_.edges) {
    const bool from_loop = loops(edge.src), to_loop = loops(edge.dst);
    const bool crosses = role(edge.src) != role(edge.dst);
    if (from_loop && crosses && edge.value >= 0 && graph_.values[at(edge.value)].scope != Scope::iteration)
      rule(events_.loop_end(role(edge.src)), edge.dst, 0, 0, Why::result);  // a sum is handed on after the loop
    if (from_loop && n_ == 0) continue;
    std::int64_t delay = free_load(graph_, schedule_, edge.src) ? 0 : edge.delay;
    if (crosses) delay += edge.spill_cycles;
    // The node hands on what it has filled when its call is over.
    if (edge.value >= 0 && crosses && !from_loop && node(edge.src).async == Async::none)
      delay = std::max<std::int64_t>(delay, node(edge.src).cycles);
    if (from_loop && to_loop) {
      if (edge.distance < n_ && edge.src != edge.dst)
        rule(edge.src, edge.dst, delay - edge.distance * ii(), 0, Why::result);
      if (edge.distance > 0 && edge.value >= 0 && crosses)  // what the last iteration leaves is waited for, too
        rule(edge.src, events_.loop_end(role(edge.dst)), delay + (n_ - 1) * ii(), 0, Why::result);
      continue;
    }
    if (!to_loop || n_ > 0) rule(edge.src, edge.dst, delay + (from_loop ? (n_ - 1) * ii() : 0), 0, Why::result);
    if (edge.value < 0 || !crosses) continue;
    if (graph_.values[at(edge.value)].scope == Scope::tile_begin)  // waited for before the loop
      rule(edge.src, events_.loop_begin(role(edge.dst)), delay, 0, Why::result);
  }
}

// ---- units ----------------------------------------------------------------------------------------------------------
/// Uses of a unit by nodes of the loop; of warps, those of one role.
std::vector<TileRules::Use> TileRules::uses_of(int unit, int of_role) const {
  std::vector<Use> uses;
  const auto add = [&](int node, int start, int cycles, int count) {
    if (cycles > 0 && count > 0) uses.push_back({node, start, cycles, count});
  };
  for (int i = 0; i < events_.nodes; ++i) {
    if (!loops(i)) continue;
    if (unit < 0 && role(i) == of_role) add(i, 0, node(i).warp_cycles, 1);
    for (const graph::Reservation& held : node(i).reservations)
      if (unit >= 0 && held.unit == unit) add(i, held.start, held.cycles, held.count);
  }
  return uses;
}

/// Do all uses fit at once, each with so many of its next iterations more than the interval brings together?
bool TileRules::fit(const std::vector<Use>& uses, int unit, int more) const {
  std::int64_t most = 0;
  for (const Use& use : uses) most += std::int64_t{use.count} * (1 + (use.cycles - 1) / ii() + more);
  return most <= (unit < 0 ? 1 : graph_.machine.units[at(unit)].capacity);
}

/// A use that fits beside all others meets no more of its own than within a tile.
void TileRules::uses_apart(const std::vector<Use>& uses, int unit) {
  for (const Use& use : uses) {
    const std::int64_t meets = (use.cycles - 1) / ii();
    const std::int64_t apart = n_ > meets ? use.cycles - meets * ii() : ii();
    rule({use.node, use.node, (n_ - 1) * ii() + apart, 1, Why::unit, unit});
  }
}

void TileRules::units() {
  if (n_ == 0) return;
  for (int r = 0; r < events_.roles; ++r)
    if (const std::vector<Use> uses = uses_of(-1, r); !fit(uses, -1, 0)) order_of_uses(uses, -1);
  for (int u = 0; u < static_cast<int>(graph_.machine.units.size()); ++u) {
    const std::vector<Use> uses = uses_of(u, -1);
    if (fit(uses, u, 0)) {
      if (!fit(uses, u, 1)) uses_apart(uses, u);
      continue;
    }
    order_of_uses(uses, u);
    const bool turns = std::any_of(schedule_.order_barriers.begin(), schedule_.order_barriers.end(),
                                   [&](const OrderBarrier& barrier) { return barrier.unit == u; });
    const bool shared = std::any_of(uses.begin(), uses.end(),
                                    [&](const Use& use) { return role(use.node) != role(uses.front().node); });
    if (graph_.walks() && shared && !turns && graph_.machine.units[at(u)].capacity == 1)
      open_.emplace_back(u, uses);
    else
      for (const Rule& each : tile_after_tile(uses, u)) rule(each);
  }
}

/// Uses that the schedule keeps apart keep their order. Those that meet in it may meet: so many fit.
void TileRules::order_of_uses(const std::vector<Use>& uses, int unit) {
  for (const Use& a : uses)
    for (const Use& b : uses) {
      if (a.node == b.node) continue;
      const std::int64_t end = a.start + a.cycles - b.start;
      const std::int64_t ahead =
          floor_of(cycle(b.node) - cycle(a.node) - end, ii());  // iterations of a less those of b
      if (ahead > -n_) rule({a.node, b.node, end + std::min<std::int64_t>(ahead, n_ - 1) * ii(), 0, Why::unit, unit});
    }
}

std::vector<Rule> TileRules::tile_after_tile(const std::vector<Use>& uses, int unit) const {
  std::vector<Rule> rules;
  for (const Use& a : uses)
    for (const Use& b : uses)
      rules.push_back({a.node, b.node, a.start + a.cycles - b.start + (n_ - 1) * ii(), 1, Why::unit, unit});
  return rules;
}

std::vector<Rule> TileRules::order_of_tiles(std::int64_t shift) const {
  std::vector<Rule> rules;
  for (const auto& each : open_) {
    const int unit = each.first;
    const std::vector<Use>& uses = each.second;
    if (shift == kApart) {
      const std::vector<Rule> apart = tile_after_tile(uses, unit);
      rules.insert(rules.end(), apart.begin(), apart.end());
      continue;
    }
    for (const Use& a : uses)
      for (const Use& b : uses) {
        const std::int64_t end = a.start + a.cycles - b.start;
        // In the loop's schedule, `b` of so many tiles on begins so long after `a`. The earlier tile is first in a tie.
        const auto before = [&](int tiles) {
          const std::int64_t later = cycle(b.node) + b.start - cycle(a.node) - a.start + tiles * (n_ * ii() + shift);
          return role(a.node) == role(b.node) ? (tiles > 0 ? n_ - 1 : -n_)
                                              : floor_of(later - (tiles < 0 ? 1 : 0), ii());
        };
        const auto add = [&](std::int64_t ahead, int tiles) {
          rules.push_back({a.node, b.node, end + std::min<std::int64_t>(ahead, n_ - 1) * ii(), tiles, Why::unit, unit});
        };
        for (int tiles = 1, all = 0; all == 0 && tiles <= kMostTiles; ++tiles) {
          if (before(tiles) > -n_) add(before(tiles), tiles);
          all = before(tiles) >= n_ - 1 ? 1 : 0;
        }
        for (int tiles = -1; before(tiles) > -n_ && tiles >= -kMostTiles; --tiles) add(before(tiles), tiles);
      }
  }
  return rules;
}

std::vector<std::int64_t> TileRules::shifts(std::int64_t from, std::int64_t to) const {
  std::vector<std::int64_t> all;
  for (const auto& [unit, uses] : open_)
    for (const Use& a : uses)
      for (const Use& b : uses)
        if (role(a.node) != role(b.node)) {
          const std::int64_t since = cycle(a.node) + a.start - cycle(b.node) - b.start;  // one order changes there
          for (std::int64_t shift = since + floor_of(from - since + ii() - 1, ii()) * ii(); shift < to; shift += ii())
            all.push_back(shift);
        }
  if (from < to) all.push_back(from);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.size() > kMostShifts) all.resize(kMostShifts);
  return all;
}

std::int64_t TileRules::held(int& unit) const {
  std::int64_t most = 0;
  unit = -1;
  for (int u = 0; u < static_cast<int>(graph_.machine.units.size()); ++u) {
    std::int64_t cycles = 0;
    for (const graph::Node& each : graph_.nodes)
      for (const graph::Reservation& use : each.reservations)
        if (use.unit == u) cycles += std::int64_t{use.cycles} * use.count * (each.scope == Scope::iteration ? n_ : 1);
    const std::int64_t capacity = graph_.machine.units[at(u)].capacity;
    cycles = (cycles * graph_.blocks_per_sm + capacity - 1) / capacity;
    if (cycles > most) most = cycles, unit = u;
  }
  return most;
}

// ---- names ----------------------------------------------------------------------------------------------------------
bool TileRules::at_end(int event) const {
  if (event < events_.nodes) return node(event).scope == Scope::tile_end;
  return event == events_.block_end() || (event - events_.nodes) % 4 >= 2;
}

std::string TileRules::name(int event) const {
  if (event < events_.nodes) return node(event).name;
  if (event == events_.block_end()) return "end of the block";
  static constexpr const char* kParts[] = {"begin", "loop", "loop's end", "end"};
  const int role = (event - events_.nodes) / 4;
  return cat(schedule_.roles[at(role)].name, "'s ", kParts[(event - events_.nodes) % 4]);
}

std::string TileRules::why(const Rule& rule) const {
  const auto value = [&] { return graph_.values[at(rule.index)].name; };
  switch (rule.why) {
    case Why::order:
      return "order";
    case Why::result:
      return "result";
    case Why::ring:
      return cat("ring ", value());
    case Why::place:
      return cat("place of ", value());
    case Why::unit:
      return rule.index < 0 ? "warps" : cat("unit ", graph_.machine.units[at(rule.index)].name);
    case Why::loop:
      return "loop";
    case Why::block:
      break;
  }
  return "block";
}

}  // namespace tj::sched
