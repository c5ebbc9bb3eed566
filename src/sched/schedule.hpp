// The result of scheduling, apart from how it was found.
//
//   cycle(node)  when an iteration's instance issues, counted from that iteration's start
//   stage(node)  = cycle / II: how many iterations later than the newest one the node runs in the steady state
//
//   iteration i    | stage 0 | stage 1 |
//   iteration i+1            | stage 0 | stage 1 |        one steady-state step = stage 1 of i and stage 0 of i+1
//
// Does not know ops or text. Invariant (verify): every edge and every unit capacity holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace tj::sched {

struct Role {
  std::string name;  ///< "load", "compute0"
  int warps = 4;
  int registers = 0;  ///< a thread; 0: leave as compiled
  int origin = 0;     ///< cycle in [0, II) at which the role's steps begin: only how its endless row of events is cut
  std::vector<int> nodes;  ///< graph node indexes, iteration nodes in issue order within a step, then by index
};

struct Ring {
  int value = 0;  ///< index into Graph::values
  int slots = 1;
  int producer_role = 0;
  std::vector<int> consumer_roles;
};

/// Roles that alternate on one unit: before its run of nodes in a step, role k waits for role k-1 (cyclic).
struct OrderBarrier {
  int unit = 0;
  std::vector<int> roles;               ///< in the order in which they hold the unit within a period
  std::vector<std::vector<int>> nodes;  ///< per role: the nodes of its run, in issue order
};

/// The interval below a schedule's, where a search had to exclude it: neither units nor recurrences alone do.
struct Excluded {
  int ii = 0;                           ///< 0: there is none
  std::vector<std::string> recurrence;  ///< nodes of the longest one, in its order; empty: there is none
  std::int64_t cycles = 0, distance = 0;
  std::string unit;  ///< without it the interval would be possible; empty: no one unit, or too much to ask
  std::vector<std::string> nodes;  ///< without any one of these on the unit it would be, too
};

struct Schedule {
  int ii = 0;
  int length = 0;
  int res_mii = 0, rec_mii = 0;
  bool proven_ii = false, proven_length = false;
  std::string certificate;  ///< the reason why a smaller II is impossible
  Excluded excluded;        ///< and what binds there
  std::uint64_t search_nodes = 0;
  double solve_ms = 0;     ///< information only; never part of a decision
  std::vector<int> cycle;  ///< per node; tile-scope nodes have 0
  std::vector<int> role;   ///< per node
  std::vector<Role> roles;
  std::vector<Ring> rings;
  std::vector<OrderBarrier> order_barriers;
  bool streaming_latency_zero = false;  ///< made with Options::streaming_latency_zero, which changes what the edges ask
  bool copies_apart =
      false;  ///< made with Options::copies_apart: what computes in the loop for different copies has different roles
  bool mixed_roles =
      false;  ///< made with Options::mixed_roles: every value has a ring, one that is read where it is written, too
  bool joint = false;  ///< from the joint search: keeps the limits of joint.hpp on memory, registers and waits as well
  /// How many steps of its role a node runs behind the newest iteration, up to a constant of the role.
  int step_stage(int node) const {
    const int since = cycle[static_cast<std::size_t>(node)] -
                      roles[static_cast<std::size_t>(role[static_cast<std::size_t>(node)])].origin;
    return since >= 0 ? since / ii : (since - ii + 1) / ii;
  }
  /// The place of a node in its role's step: cycles from the step's begin to its issue.
  int step_cycle(int node) const {
    return cycle[static_cast<std::size_t>(node)] -
           roles[static_cast<std::size_t>(role[static_cast<std::size_t>(node)])].origin - step_stage(node) * ii;
  }
  int stage(int node) const { return ii > 0 ? cycle[static_cast<std::size_t>(node)] / ii : 0; }
};

/// Options::node_budget: as many nodes as take some quarter of a second on today's machines, by the size of the graph.
inline constexpr std::uint64_t kBudgetBySize = ~std::uint64_t{0};

/// A larger budget would be spent by no machine in a day.
inline constexpr std::uint64_t kMaxNodeBudget = std::uint64_t{1} << 40;

/// A larger interval is no schedule that anybody could want, and sums of several would overflow.
inline constexpr int kMaxMinIi = 1 << 22;

struct Options {
  std::uint64_t node_budget = kBudgetBySize;  ///< of the search; deterministic
  int max_stages = 0;                         ///< 0: any; 1: no overlap between iterations; ...
  int min_ii = 0;                             ///< start the search no lower
  bool streaming_latency_zero = false;        ///< variable-latency streaming nodes without in-edges count as latency 0
  bool order_barriers = true;                 ///< allow ping-pong barriers where the schedule alternates
  int max_slots = 0;                          ///< cap on ring depths; 0: the values' own
  bool joint = true;  ///< roles and cycles in one search (joint.hpp); false: the simple split (roles.hpp)
  int max_roles = 0;  ///< joint: the pool of roles; 0: 6, more only where they cost nothing
  /// joint: any node may share a role with any other, also one that completes by itself with the rest. A value may be
  /// read in no role but its writer's. With max_roles 1 the whole loop is one role.
  bool mixed_roles = false;
  /// joint: nodes that compute for different copies of a context (Node::copy) have different roles, though one could do
  /// it all. Roles that do the same then share their text. One goes on while another waits for late work.
  bool copies_apart = false;
};

/// Modulo schedule, then roles, then rings. Throws tj::Error(schedule) when nothing fits.
Schedule schedule(const graph::Graph& graph, const Options& options = {});

/// Recomputes everything from the graph alone; empty when the schedule is right, else one line a violation.
std::vector<std::string> verify(const graph::Graph& graph, const Schedule& schedule);

/// Keys: ii, length, res_mii, rec_mii, proven_ii, proven_length, solve_ms, nodes, rings, certificate, roles, ...
std::string to_json(const graph::Graph& graph, const Schedule& schedule);
std::string to_text(const graph::Graph& graph, const Schedule& schedule);
/// The heading of a listing and of a picture: "<graph> on <machine>, pairs of blocks, 2 blocks an SM".
std::string title(const graph::Graph& graph);

/// Cycles that an iteration holds a unit, of all its instances together.
std::int64_t held_cycles(const graph::Graph& graph, int unit);

/// Predicted TFLOP/s of a device with `sm_count` SMs at `clock_ghz` for a tile of `iterations` iterations.
double predict_tflops(const graph::Graph& graph, const Schedule& schedule, int sm_count, double clock_ghz,
                      double iterations);

}  // namespace tj::sched
