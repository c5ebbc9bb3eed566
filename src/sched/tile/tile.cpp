// The least period of tiles, and the cycles that have it (see tile_level.hpp).
//
// Rules are differences between events, so the least period is the largest delay over tiles of a cycle of rules. Seen
// from the tile's end, what happens there does not move when the tile has more iterations. A rule whose delay stands
// still then holds for all n. The others ask for less with each iteration. So c falls with n until only the first kind
// is left.
#include <algorithm>
#include <cstddef>
#include <optional>

#include "sched/tile/rules.hpp"
#include "sched/tile_level.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;
using support::cat;

constexpr std::int64_t kMostCycles = 1 << 29;  ///< of a tile, so that no sum of a few overflows
constexpr int kFewest = 2;                     ///< periods of 0 to so many iterations are always told
constexpr int kFarEnough = 64;                 ///< c is looked for up to so many iterations

constexpr std::int64_t kNone = INT64_MAX;

struct Least {
  std::int64_t period = 1;  ///< kNone: no period satisfies all rules
  std::vector<int> cycle;   ///< rules that ask for it, in walking order; empty: none asks for more than `from`
};

/// A cycle of the rules by which events were moved last, in walking order; empty: there is none.
std::vector<int> moved_in_a_cycle(const std::vector<Rule>& rules, const std::vector<int>& by) {
  std::vector<int> seen(by.size(), -1);
  for (std::size_t first = 0; first < by.size(); ++first) {
    int event = static_cast<int>(first);
    while (by[at(event)] >= 0 && seen[at(event)] < 0) {
      seen[at(event)] = static_cast<int>(first);
      event = rules[at(by[at(event)])].from;
    }
    if (by[at(event)] < 0 || seen[at(event)] != static_cast<int>(first)) continue;
    std::vector<int> cycle;
    const int last = event;
    do {
      cycle.push_back(by[at(event)]);
      event = rules[at(by[at(event)])].from;
    } while (event != last);
    std::reverse(cycle.begin(), cycle.end());
    return cycle;
  }
  return {};
}

/// Rules that no cycles satisfy at a period: a cycle that asks for more; empty: all can be satisfied. As
/// graph::positive_cycle(), but it looks after each round.
std::vector<int> too_much(const std::vector<Rule>& rules, int events, std::int64_t period) {
  std::vector<std::int64_t> time(at(events), 0);
  std::vector<int> by(at(events), -1);
  for (;;) {
    bool moved = false;
    for (std::size_t r = 0; r < rules.size(); ++r) {
      const Rule& rule = rules[r];
      const std::int64_t least = time[at(rule.from)] + rule.cycles - period * rule.tiles;
      if (least <= time[at(rule.to)]) continue;
      time[at(rule.to)] = least;
      by[at(rule.to)] = static_cast<int>(r);
      moved = true;
    }
    if (!moved) return {};
    if (std::vector<int> cycle = moved_in_a_cycle(rules, by); !cycle.empty()) return cycle;
  }
}

/// The least period from `from` to `to` that satisfies all rules.
Least least_period(const std::vector<Rule>& rules, int events, std::int64_t from, std::int64_t to = kNone - 1) {
  Least least{from, {}};
  for (;;) {
    std::vector<int> cycle = too_much(rules, events, least.period);
    if (cycle.empty()) return least;
    std::int64_t delay = 0, tiles = 0;
    for (const int e : cycle) delay += rules[at(e)].cycles, tiles += rules[at(e)].tiles;
    if (tiles <= 0) return {kNone, std::move(cycle)};
    least.period = (delay + tiles - 1) / tiles;
    if (least.period > to) return {kNone, {}};
    least.cycle = std::move(cycle);
  }
}

/// The earliest cycles of all events where `anchor` is at 0; without one, all are at 0 or later. Empty where some event
/// does not follow from the anchor.
std::vector<std::int64_t> earliest(const std::vector<Rule>& rules, int events, std::int64_t period, int anchor) {
  constexpr std::int64_t kNever = INT64_MIN / 4;
  std::vector<std::int64_t> time(at(events), anchor < 0 ? 0 : kNever);
  if (anchor >= 0) time[at(anchor)] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Rule& rule : rules) {
      const std::int64_t least = time[at(rule.from)] + rule.cycles - period * rule.tiles;
      if (time[at(rule.from)] == kNever || least <= time[at(rule.to)]) continue;
      time[at(rule.to)] = least;
      changed = true;
    }
  }
  if (std::find(time.begin(), time.end(), kNever) != time.end()) return {};
  return time;
}

/// Rules of a tile that no other comes before or after: the next one begins when all roles are done.
std::vector<Rule> rules_alone(const TileRules& tiles) {
  std::vector<Rule> alone;
  for (const Rule& rule : tiles.rules())
    if (rule.tiles == 0) alone.push_back(rule);
  const TileEvents& events = tiles.events();
  for (int r = 0; r < events.roles; ++r) {
    alone.push_back({events.leave(r), events.block_end(), 0, 0, Why::block});
    alone.push_back({events.block_end(), events.enter(r), 0, 1, Why::block});
  }
  return alone;
}

/// Tiles of n iterations, with the best order on units that leave one open.
class Tiles {
 public:
  Tiles(const graph::Graph& graph, const Schedule& schedule, int iterations)
      : graph_(graph), schedule_(schedule), n_(iterations), rules_(graph, schedule, iterations), all_(rules_.rules()) {
    choose();
  }

  std::int64_t period() const { return least_.period; }
  const TileRules& rules() const { return rules_; }
  const std::vector<std::int64_t>& shifts() const { return shifts_; }  ///< that were tried
  std::int64_t held() const {
    int unit = -1;
    return std::max<std::int64_t>(1, rules_.held(unit));
  }
  /// Cycles of one tile where none is before or after it.
  std::int64_t alone() const { return least_period(rules_alone(rules_), events(), 0).period; }
  std::string reason() const;
  std::string walk() const;  ///< the rules that set the period, or allow none, in words
  TileTimes times() const;

 private:
  std::vector<Rule> with(std::int64_t shift) const {
    std::vector<Rule> all = rules_.rules();
    const std::vector<Rule> order = rules_.order_of_tiles(shift);
    all.insert(all.end(), order.begin(), order.end());
    return all;
  }
  int events() const { return rules_.events().size(); }

  /// No order is better than none. Where a tile behind the other is worse, shifts between the two are asked for less.
  void choose() {
    least_ = least_period(all_, events(), held());
    if (!rules_.open() || n_ == 0) return;
    if (least_.period == kNone) return;
    const std::int64_t bound = least_.period;
    const std::vector<int> without = least_.cycle;  // its rules are the first in all orders
    all_ = with(TileRules::kApart);
    least_ = least_period(all_, events(), bound);
    if (least_.cycle.empty()) least_.cycle = without;
    const std::int64_t iterations = n_ * std::int64_t{schedule_.ii};
    shifts_ = rules_.shifts(bound - iterations, least_.period - iterations);
    for (const std::int64_t shift : shifts_) {
      std::vector<Rule> rules = with(shift);
      Least less = least_period(rules, events(), bound, least_.period - 1);
      if (less.period >= least_.period) continue;
      least_ = std::move(less);
      if (least_.cycle.empty()) least_.cycle = without;
      all_ = std::move(rules);
      if (least_.period == bound) return;
    }
  }

  void place(const std::vector<std::int64_t>& time, TileTimes& times) const;

  const graph::Graph& graph_;
  const Schedule& schedule_;
  const int n_;
  const TileRules rules_;
  std::vector<Rule> all_;
  std::vector<std::int64_t> shifts_;
  Least least_;
};

std::string Tiles::reason() const {
  int unit = -1;
  const std::int64_t held = rules_.held(unit);
  if (least_.cycle.empty())
    return unit < 0 || held < least_.period ? "no wait asks for more"
                                            : cat("unit ", graph_.machine.units[at(unit)].name, " is held for ", held,
                                                  " cycles of ", n_, " iterations");
  return walk();
}

std::string Tiles::walk() const {
  std::string text;
  int tiles = 0;
  for (const int e : least_.cycle) {
    const Rule& rule = all_[at(e)];
    if (text.empty()) text = rules_.name(rule.from);
    text += cat(" -> ", rules_.name(rule.to), " (", rules_.why(rule),
                rule.tiles == 0  ? ""
                : rule.tiles > 0 ? ", next tile"
                                 : ", tile before",
                ")");
    tiles += rule.tiles;
  }
  return cat(text, tiles > 1 ? cat(", over ", tiles, " tiles") : "");
}

TileTimes Tiles::times() const {
  TileTimes times;
  times.iterations = n_;
  times.period = least_.period;
  const int anchor = least_.cycle.empty() ? rules_.events().enter(0) : all_[at(least_.cycle.front())].from;
  std::vector<std::int64_t> time = earliest(all_, events(), times.period, anchor);
  if (time.empty()) time = earliest(all_, events(), times.period, -1);
  place(time, times);
  times.alone = alone();
  for (const int e : least_.cycle) {
    const Rule& rule = all_[at(e)];
    times.critical.push_back({rules_.name(rule.from), rules_.name(rule.to), rules_.why(rule), rule.cycles, rule.tiles});
  }
  times.reason = reason();
  return times;
}

/// Cycles from the tile's first node on; of nodes that do not run, 0.
void Tiles::place(const std::vector<std::int64_t>& time, TileTimes& times) const {
  const TileEvents& events = rules_.events();
  const auto runs = [&](int i) { return n_ > 0 || graph_.nodes[at(i)].scope != graph::Scope::iteration; };
  std::int64_t first = INT64_MAX, last = INT64_MIN;
  for (int i = 0; i < events.nodes; ++i)
    if (runs(i)) first = std::min(first, time[at(i)]);
  if (first == INT64_MAX) first = time[at(events.enter(0))];
  for (int i = 0; i < events.nodes; ++i) times.cycle.push_back(runs(i) ? time[at(i)] - first : 0);
  for (int r = 0; r < events.roles; ++r) {
    times.roles.push_back({time[at(events.enter(r))] - first, time[at(events.loop_begin(r))] - first,
                           time[at(events.loop_end(r))] - first, time[at(events.leave(r))] - first});
    last = std::max(last, times.roles.back().leaves);
  }
  for (int r = 0; r < events.roles; ++r) {
    std::int64_t begin = INT64_MAX;
    for (const int i : schedule_.roles[at(r)].nodes)
      if (runs(i)) begin = std::min(begin, times.cycle[at(i)]);
    const bool any = begin != INT64_MAX && graph_.walks();
    times.ahead.push_back(any ? std::max<std::int64_t>(0, last - (begin + times.period)) : 0);
  }
}

/// Adds the rules that ask the same of longer tiles, with the delays of this one.
void add_lasting(const TileRules& tiles, const std::vector<Rule>& rules, const std::vector<Rule>& longer,
                 std::int64_t ii, std::vector<Rule>& lasting) {
  for (const Rule& rule : rules) {
    const std::int64_t moves = (tiles.at_end(rule.to) ? 1 : 0) - (tiles.at_end(rule.from) ? 1 : 0) + rule.tiles;
    if (std::any_of(longer.begin(), longer.end(), [&](const Rule& other) {
          return other.from == rule.from && other.to == rule.to && other.tiles == rule.tiles &&
                 other.cycles == rule.cycles + moves * ii;
        }))
      lasting.push_back(rule);
  }
}

/// Does no order have a smaller c for any longer tile? Waits of these iterations are far from each other.
bool lasts(const Tiles& tiles, const Tiles& longer, std::int64_t ii) {
  std::vector<std::int64_t> shifts = {TileRules::kApart};
  const std::int64_t from = longer.held() - tiles.held() == ii ? tiles.held() : 1;
  if (from >= tiles.period()) return true;
  const TileRules &rules = tiles.rules(), &others = longer.rules();
  if (rules.open()) {
    const std::vector<std::int64_t> more = tiles.shifts();
    shifts.insert(shifts.end(), more.begin(), more.end());
  }
  std::vector<Rule> common;
  add_lasting(rules, rules.rules(), others.rules(), ii, common);
  return std::all_of(shifts.begin(), shifts.end(), [&](std::int64_t shift) {
    std::vector<Rule> lasting = common;
    add_lasting(rules, rules.order_of_tiles(shift), others.order_of_tiles(shift), ii, lasting);
    return least_period(lasting, rules.events().size(), from, tiles.period() - 1).period == kNone;
  });
}

/// Does no longer tile take less beside its iterations where it is alone?
bool lasts_alone(const Tiles& tiles, const Tiles& longer, std::int64_t ii) {
  std::vector<Rule> lasting;
  add_lasting(tiles.rules(), rules_alone(tiles.rules()), rules_alone(longer.rules()), ii, lasting);
  return least_period(lasting, tiles.rules().events().size(), 0, tiles.alone() - 1).period == kNone;
}

/// So many iterations that no wait reaches over the whole tile.
int far(const graph::Graph& graph, const Schedule& schedule) {
  int distance = 1;
  for (const graph::Edge& edge : graph.edges) distance = std::max(distance, edge.distance);
  for (const Ring& ring : schedule.rings) distance = std::max(distance, ring.slots);
  return kFewest + distance + schedule.length / std::max(1, schedule.ii);
}

}  // namespace

TileTimes tile_times(const graph::Graph& graph, const Schedule& schedule, int iterations) {
  if (graph.nodes.size() > kMostTileNodes)
    support::fail(Stage::schedule, Code::invalid_argument,
                  cat("graph '", graph.name, "' has ", graph.nodes.size(), " nodes; tiles are told for at most ",
                      kMostTileNodes));
  if (const std::int64_t most = kMostCycles / std::max(1, schedule.ii); iterations < 0 || iterations > most)
    support::fail(Stage::schedule, Code::invalid_argument,
                  cat("iterations is ", iterations, "; allowed are 0 to ", most));
  const Tiles tiles(graph, schedule, iterations);
  if (tiles.period() == kNone)
    support::fail(Stage::schedule, Code::invalid_argument,
                  cat("graph '", graph.name, "': a tile of ", iterations, " iterations cannot keep the interval of ",
                      schedule.ii, " cycles: ", tiles.walk()));
  return tiles.times();
}

std::optional<TileLevel> tile_level(const graph::Graph& graph, const Schedule& schedule, TileLate* late) {
  const int most = static_cast<int>(kMostCycles / std::max(1, schedule.ii)) / 2;
  int n = far(graph, schedule);
  if (graph.nodes.size() > kMostTileNodes || n > most) return std::nullopt;
  const auto none = [&](const Tiles& tiles) {
    if (tiles.period() == kNone && late) *late = {tiles.rules().iterations(), tiles.walk()};
    return tiles.period() == kNone;
  };
  TileLevel level;
  level.ii = schedule.ii;
  level.walks = graph.walks();
  for (;; n *= 2) {
    const Tiles tiles(graph, schedule, n), longer(graph, schedule, n + 1);
    if (none(tiles)) return std::nullopt;
    level.c = tiles.period() - n * std::int64_t{schedule.ii};
    level.alone = tiles.alone() - n * std::int64_t{schedule.ii};
    level.proven = lasts(tiles, longer, schedule.ii) && lasts_alone(tiles, longer, schedule.ii);
    if (!level.proven && n < kFarEnough && 2 * n <= most) continue;
    level.n0 = level.alone_n0 = n;
    level.certificate = tiles.reason();
    break;
  }
  const auto loop = [&](int of) { return of * std::int64_t{schedule.ii}; };
  std::vector<std::int64_t> alone;
  for (int of = 0; of < level.n0 || of <= kFewest; ++of) {
    const Tiles tiles(graph, schedule, of);
    if (none(tiles)) return std::nullopt;
    level.periods.push_back(tiles.period());
    alone.push_back(tiles.alone());
  }
  while (level.n0 > 0 && level.periods[at(level.n0 - 1)] == loop(level.n0 - 1) + level.c) --level.n0;
  while (level.alone_n0 > 0 && alone[at(level.alone_n0 - 1)] == loop(level.alone_n0 - 1) + level.alone)
    --level.alone_n0;
  level.periods.resize(at(std::max(level.n0, kFewest) + 1), loop(level.n0) + level.c);
  level.steady = Tiles(graph, schedule, std::max(level.n0, kFewest)).times();
  return level;
}

}  // namespace tj::sched
