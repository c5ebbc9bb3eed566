// Names in the text of a family of roles: its nodes' contexts, its rings, the barriers of its turns.
//
// Decides expressions, not where they stand. Invariant: in a family of several the text has an int `member`, and
// everything that differs between members is an expression of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/layout.hpp"
#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

/// The name of a context's object: "Loader" -> "loader". Roles of one copy add its number.
std::string context_variable(const std::string& context);

/// Do the members of a family (several roles) have a ring each, and is this the first member's?
bool own_ring(const graph::Graph& graph, const sched::Schedule& schedule, const std::vector<int>& family, int ring);

class FamilyText {
 public:
  FamilyText(const graph::Graph& of_graph, const sched::Schedule& of_schedule, const Layout& in_layout,
             std::vector<int> roles)
      : graph(of_graph), schedule(of_schedule), layout(in_layout), family(std::move(roles)), first(family.front()) {}

  const graph::Node& node(int index) const { return graph.nodes[static_cast<std::size_t>(index)]; }
  const sched::Role& role() const { return schedule.roles[static_cast<std::size_t>(first)]; }
  const RolePlace& place() const { return layout.roles[static_cast<std::size_t>(first)]; }
  const graph::Value& value_of_ring(int ring) const {
    return graph.values[static_cast<std::size_t>(schedule.rings[static_cast<std::size_t>(ring)].value)];
  }
  /// The variable of a role that fills the ring together with other blocks: this block's part.
  std::string share(int ring) const { return "share_" + ring_type(ring); }
  const std::string& ring_type(int ring) const { return layout.rings[static_cast<std::size_t>(ring)].type_name; }
  int ring_of(int value) const;  ///< -1 where there is none

  bool alone() const { return family.size() == 1; }
  bool single_thread() const { return place().single_thread; }
  /// "a" or "a/b": the name of a family in site names.
  std::string names() const;
  /// The argument that stands for `shared` in a call about a ring: "slots" or "barriers", or of "columns" for `tensor`.
  std::string shared_for(const char* what, int ring) const;
  std::string variable(const graph::Node& node) const;
  /// The nodes in the place of this node of the first member, one for each member.
  std::vector<int> copies_of(int node) const;
  /// "name: cycle 800, stage 0" for every member.
  std::string placed(int node) const;

  /// Position of the family's first role among those that take turns, or -1; a family holds consecutive positions.
  int position_in(std::size_t order) const;
  /// The barrier of the turn `ahead` places after this role's, and the threads of its owner and of the role before.
  std::string order_arguments(std::size_t order, int ahead) const;

  const graph::Graph& graph;
  const sched::Schedule& schedule;
  const Layout& layout;
  const std::vector<int> family;
  const int first;  ///< the first role of the family
};

}  // namespace tj::codegen
