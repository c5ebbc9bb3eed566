// Look-ups in a graph and its schedule: the readers of a value, its ring, the turn on a unit that a node belongs to.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

/// Nodes of a role that read a value, each once; with a scope given, only nodes of that scope.
std::vector<int> readers_in(const graph::Graph& graph, const sched::Schedule& schedule, int role, int value,
                            std::optional<graph::Scope> scope = {});

/// A node of the loop reads a filling of the value so many iterations later.
int reads_later(const graph::Graph& graph, int value, int reader);

/// Does the matrix unit or the copy engine read it, in any role?
bool read_asynchronously(const graph::Graph& graph, int value);

/// Values that the role reads at the tile's begin, and not behind it.
std::vector<int> read_before_loop(const graph::Graph& graph, const sched::Schedule& schedule, int role);

/// Does the role's loop only issue copies? Then waits of once a tile may stand in front of its first filling, behind
/// copies into other rings. In other roles that would be a step unlike all others.
bool copies_alone(const graph::Graph& graph, const sched::Schedule& schedule, int role);

/// The ring of a value; -1 where there is none.
int ring_of(const sched::Schedule& schedule, int value);

/// The order barrier whose runs have the node; -1 where none has.
int turn_of(const sched::Schedule& schedule, int node);

}  // namespace tj::codegen
