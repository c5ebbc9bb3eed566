// Rules that a tile of n iterations sets to its events, and to those of the tiles before it.
//
// Decides which waits there are, and how long each takes. Finds no cycles. Invariant: every rule holds in the code that
// is emitted for the schedule, and no other wait between tiles is in it. Draws of a walk are not seen: they count as no
// time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "graph/lifetimes.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

/// Reasons of a rule; `index` of a Rule says which ring or unit.
enum class Why { order, result, ring, place, unit, loop, block };

/// Event `to`, so many tiles on, comes at least `cycles` after event `from`.
struct Rule {
  int from = 0, to = 0;
  std::int64_t cycles = 0;
  int tiles = 0;
  Why why = Why::order;
  int index = -1;
};

/// Events of a tile: each node's issue (of the loop: in iteration 0), four of each role, and the end of the tile in a
/// block that does no other.
struct TileEvents {
  int nodes = 0, roles = 0;
  int enter(int role) const { return nodes + 4 * role; }
  int loop_begin(int role) const { return nodes + 4 * role + 1; }
  int loop_end(int role) const { return nodes + 4 * role + 2; }
  int leave(int role) const { return nodes + 4 * role + 3; }
  int block_end() const { return nodes + 4 * roles; }
  int size() const { return nodes + 4 * roles + 1; }
};

class TileRules {
 public:
  /// Orders of uses more tiles apart follow from the others.
  static constexpr int kMostTiles = 64;
  static constexpr std::size_t kMostShifts = 16;

  TileRules(const graph::Graph& graph, const Schedule& schedule, int iterations);

  const std::vector<Rule>& rules() const { return rules_; }
  const TileEvents& events() const { return events_; }
  int iterations() const { return n_; }

  /// Units that serve several roles, one at a time and without turns, serve loops of two tiles in an order that is to
  /// be chosen. A shift has the order of the loop's schedule where the next tile begins so many cycles later than its
  /// first iteration would. kApart: all of a tile comes before the next one.
  static constexpr std::int64_t kApart = INT64_MAX;
  bool open() const { return !open_.empty(); }
  /// The shifts from one to another at which an order changes; the first kMostShifts of them.
  std::vector<std::int64_t> shifts(std::int64_t from, std::int64_t to) const;
  /// The rules of an order; rules() has none of it.
  std::vector<Rule> order_of_tiles(std::int64_t shift) const;
  std::string name(int event) const;
  std::string why(const Rule& rule) const;
  /// Does the event stand still beside the tile's end, not its begin, when the tile has more iterations?
  bool at_end(int event) const;
  /// The longest that a unit is held by a tile, spread over its instances: a lower bound of the period. `unit` is -1
  /// where none is used.
  std::int64_t held(int& unit) const;

 private:
  /// An event with cycles after it.
  struct Moment {
    int event = 0;
    std::int64_t cycles = 0;
  };
  struct Instance {
    int node = -1, iteration = 0;
  };
  /// The first look at a product: who waits, when the wait begins, and the same in the schedule's cycles.
  struct Look {
    Instance waiter;
    Moment begins;
    std::int64_t cycle = 0;
  };
  /// The role waits for a product before a node is issued, of so many iterations later.
  struct Wait {
    int product = 0, by = 0, distance = 0;
  };
  struct Use {
    int node = 0, start = 0, cycles = 0, count = 1;
  };
  const graph::Node& node(int i) const { return graph_.nodes[static_cast<std::size_t>(i)]; }
  int role(int i) const { return schedule_.role[static_cast<std::size_t>(i)]; }
  bool loops(int i) const { return node(i).scope == graph::Scope::iteration; }
  std::int64_t ii() const { return schedule_.ii; }
  std::int64_t cycle(int i) const { return schedule_.cycle[static_cast<std::size_t>(i)]; }
  int stage(int i) const { return schedule_.step_stage(i); }
  std::vector<int> part(int role, graph::Scope scope) const;

  void rule(const Rule& added);
  void rule(int from, int to, std::int64_t cycles, int tiles, Why why, int index = -1) {
    rule(Rule{from, to, cycles, tiles, why, index});
  }
  void follow(const Moment& moment, int to, int iteration, int tiles, Why why, int index);
  void order_of_role(int role);
  void order_of_loop(const std::vector<int>& loop);
  std::int64_t returns(const std::vector<int>& loop, std::size_t place) const;
  void results();
  void units();
  std::vector<Use> uses_of(int unit, int of_role) const;
  bool fit(const std::vector<Use>& uses, int unit, int more) const;
  void uses_apart(const std::vector<Use>& uses, int unit);
  void order_of_uses(const std::vector<Use>& uses, int unit);
  std::vector<Rule> tile_after_tile(const std::vector<Use>& uses, int unit) const;
  void rings();
  void ring_of_loop(const Ring& ring);
  void ring_of_tile(const Ring& ring);
  void places();
  void take_turns(const graph::Sharing& sharing, bool back);
  std::vector<Moment> released(const graph::Edge& read, int filling, int slots) const;
  std::vector<Moment> released_by(int value, int by) const;
  std::vector<Moment> read_at_end(int reader) const;
  std::vector<Wait> waits_of(int of) const;
  bool hands_back(int product, int iteration, bool at_end) const;
  bool looks(const Wait& wait, int product, int iteration, Instance& waiter) const;
  Look look_at(int product, int iteration) const;
  std::int64_t returns_of(int index) const;
  static std::int64_t seen_after(const graph::Node& node);
  std::vector<Moment> after_loop(int of) const;
  std::vector<Moment> looked(int product, int iteration) const;
  Instance before(int index, int iteration) const;
  Instance next_store(int index, int iteration) const;
  bool copies_alone(int of) const;
  int slots_of(int value) const;

  const graph::Graph& graph_;
  const Schedule& schedule_;
  const int n_;
  TileEvents events_;
  std::vector<Rule> rules_;
  std::vector<std::pair<int, std::vector<Use>>> open_;  ///< units whose order is to be chosen
  std::vector<std::vector<int>> from_;  ///< rules of each event: of those with one target the strongest is enough
};

}  // namespace tj::sched
