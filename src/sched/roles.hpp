// Roles of the simple split: producers and consumers, the order inside a role, registers, and turns on a shared unit.
//
// Decides roles from the graph alone, before any cycle is known; a joint solver can take this place behind the same
// functions. Invariant: every node is in exactly one role, and a role's order agrees with its nodes' cycles.
#pragma once

#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

/// Smallest count that registers can be given away down to, on machines that move them.
inline constexpr int kMinRegisters = 24;
/// A role that only starts copies has no use for more than this.
inline constexpr int kMaxProducerRegisters = 40;

/// The work that a role is for. Loads, stores and products that a thread only starts complete by themselves, and none
/// may hold up another.
enum class RoleKind { load, store, matrix, compute };
RoleKind kind_of(const graph::Node& node);

/// Roles that load, store or start products and are smaller than a group of warps sit in one group, and have one count
/// of registers.
bool shares_group(const graph::Machine& machine, const Role& role);
/// Groups of warps that each role opens, in order; a role that fits into one that is there opens none.
std::vector<int> groups_of(const graph::Machine& machine, const Schedule& schedule);

/// Fills `roles` (name, warps, registers) and `role`; node lists stay empty. "load" holds what completes by itself
/// (asynchronous copies, variable latency), "store" what stores by itself. "mma" holds what one thread asks the matrix
/// unit for, "compute<c>" the rest of copy c. Throws tj::Error(schedule) when an edge that must stay in one role would
/// cross, or a role lacks registers.
void assign_roles(const graph::Graph& graph, Schedule& schedule);

/// Cuts each role's row of events into steps. A step begins at the role's first node, or where its turn on a shared
/// unit begins, so that no step splits a turn. Roles that do the same a shift apart then have the same steps. A role
/// that copies beside its work is cut where the fewest registers are in use. The reason: what lives from step to step
/// is moved about where the loop begins and ends.
void cut_steps(const graph::Graph& graph, Schedule& schedule);

/// Fills the roles' node lists from the cycles: iteration nodes in issue order within a step, then tile-scope nodes.
void order_roles(const graph::Graph& graph, Schedule& schedule);

/// Fills `order_barriers`: units of one instance on which two or more compute roles take turns with asynchronous nodes.
void find_order_barriers(const graph::Graph& graph, Schedule& schedule);

}  // namespace tj::sched
