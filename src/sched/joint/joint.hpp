// The joint schedule: cycles and roles of all iteration nodes in one exact search.
//
// Decides II, then length, then the fewest roles, then the fewest bytes between roles. Families of constraints count
// beyond edges and units:
// - roles: nodes that complete by themselves sit in roles of their kind, nothing else does. The kinds are loads
//   (asynchronous copies, variable latency), stores, and products that one thread asks the matrix unit for
//   (RoleKind::matrix). Bodies that are written for different numbers of warps (nodes with a context) sit in different
//   roles. A value in memory (Edge::value) is read in at least one role beside the one that writes it. None of this
//   holds with JointOptions::mixed_roles.
// - copies: with JointOptions::copies_apart, nodes that compute (do not complete by themselves) for different copies
//   (Node::copy) sit in different roles.
// - warps: the spans [t, t + Node::warp_cycles) of two nodes in one role, or of two rounds of one node, are disjoint
//   modulo II.
// - spills: an edge between two roles asks for Edge::spill_cycles more.
// - memory: a node's bytes of each space are held from its issue until its last reader is done. Among edges from a node
//   to itself only the shortest distance counts, when its next instance takes the place of the value.
// - registers: Node::registers are held likewise, by the node's role. They are rounded and summed as far as the machine
//   moves registers. A value that a role has to keep all the time is an edge of a node to itself.
// - waits: in the role of a node v with a blocking in-edge, no other node o issues in [t_v - (cycles(o) - 1), t_v].
//   Asynchronous nodes have only their issue in Node::cycles, so they stand in the way no longer than that.
// - slots: a value that JointOptions::slots limits is filled again so many iterations later, when its readers are done.
// II and length are the modulo ones where none of this is given. At each II lengths are searched as far as the shortest
// modulo schedule has stages; a longer pipeline is not tried before the next II. Copies are issued as late as all of
// this allows. Does not decide rings. Invariant: a found result satisfies all of the above, less what `relaxed` leaves
// out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

/// Families of constraints that are left out: to ask what a limit costs, or which one binds.
struct Relaxation {
  bool registers = false;
  bool concurrency = false;  ///< the family of waits
  bool spills = false;
  bool roles = false;             ///< the size of the pool
  bool warps = false;             ///< Node::warp_cycles
  bool bodies = false;            ///< bodies written for different numbers of warps may share a role
  bool variable_latency = false;  ///< a node that completes by itself may share a role with the rest, and with nodes of
                                  ///< another kind
  bool copies = false;            ///< nodes that JointOptions::copies_apart keeps apart
  std::string space;              ///< a memory space without limit; empty: none
};

struct JointOptions {
  std::uint64_t node_budget = 200'000;   ///< nodes of all searches for roles together; deterministic
  std::uint64_t modulo_budget = 50'000;  ///< nodes of the modulo schedules that they start from, likewise
  int max_roles = 0;   ///< the pool of roles; 0: 6, or one a node where no registers, memory or spills are given
  int max_stages = 0;  ///< 0: any
  int min_ii = 0;      ///< start no lower
  int max_ii = 0;      ///< try no higher; 0: as far as one iteration after another takes
  int most_ii = 0;     ///< as schedule_within() has it (bounds.hpp)
  int open_ii = 0;     ///< likewise
  bool streaming_latency_zero = false;  ///< as Options::streaming_latency_zero
  std::vector<int> slots;               ///< per graph value, the most that its ring may have; 0 or empty: any
  bool strict_slots = false;  ///< a slot that a matrix node reads is free when its role waits for it, not yet before
  bool mixed_roles = false;   ///< as Options::mixed_roles
  bool copies_apart = false;  ///< as Options::copies_apart
  Relaxation relaxed;
};

struct JointResult {
  bool found = false;
  int ii = 0, length = 0;
  int modulo_ii = 0, modulo_length = 0;  ///< II and length of the same graph without the constraints above
  int res_mii = 0, rec_mii = 0;
  int open_ii = 0;             ///< the smallest II that the modulo search could not decide; 0: none
  bool beyond = false;         ///< not found: its II would be above JointOptions::most_ii
  bool nowhere = false;        ///< not found, and one iteration after another is not possible either
  bool proven_ii = false;      ///< found: no smaller II exists; not found: none does
  bool proven_length = false;  ///< at this II
  bool proven_roles = false;   ///< at this II and length: fewest roles, and then fewest bytes between them
  std::vector<int> cycle;      ///< per graph node; the first iteration node is 0, tile-scope nodes have 0
  std::vector<int> role;       ///< per graph node
  int roles = 0;               ///< roles of the iteration nodes
  std::vector<int>
      role_registers;  ///< per role: what its values need in the fullest cycle, rounded to the machine's step
  std::int64_t cross_role_bytes = 0;  ///< an iteration sends from role to role
  std::vector<std::string> binding;   ///< reasons why a smaller II is impossible: "unit", "recurrence", "registers",
                                      ///< "concurrency", "spills", "roles", "warps", "bodies", "copies", "variable
                                      ///< latency", or a memory space. Several when only all of them together do
  std::string certificate;            ///< these reasons in words
  Excluded excluded;                  ///< where no limits of roles bind
  std::uint64_t search_nodes = 0;
};

/// An expected outcome is a value (found == false); throws tj::Error for a graph that is not well formed or bad
/// options. Thread safe; same input, same output.
JointResult joint_schedule(const graph::Graph& graph, const JointOptions& options = {});

/// Why two roles of a loop are two.
struct RolePair {
  int first = 0, second = 0;
  /// Constraints that must all be left out before the two could be one at this II and length, the other roles as they
  /// are. The names are those of JointResult::binding. "bodies": written for different numbers of warps; "units and
  /// recurrences": leaving out constraints is not enough. Empty when the two could be one anyway, or the budget did not
  /// tell.
  std::vector<std::string> kept_by;
};

/// For each two roles of a found result. `options` are those that it was found with. Thread safe, deterministic.
std::vector<RolePair> why_apart(const graph::Graph& graph, const JointResult& result, const JointOptions& options = {});

/// A found result as a schedule: roles with their orders and registers, and rings. Throws tj::Error(schedule,
/// unsupported) when its rings need more slots or shared memory than there are.
Schedule to_schedule(const graph::Graph& graph, const JointResult& result, const Options& options = {});

}  // namespace tj::sched
