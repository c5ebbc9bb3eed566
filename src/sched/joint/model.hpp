// Rules of the joint search: iteration nodes, who may share a role with whom, what is held how long.
//
// Decides how the constraints of joint.hpp become rules of a TimeSearch. Searches nothing. Invariant: the rules for all
// roles imply the rules for some of them. So a partial assignment that is infeasible stays so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sched/joint/joint.hpp"
#include "sched/joint/time.hpp"
#include "sched/modulo/problem.hpp"
#include "sched/roles.hpp"

namespace tj::sched {

class JointModel {
 public:
  JointModel(const graph::Graph& graph, const JointOptions& options);

  const graph::Graph& graph() const { return graph_; }
  const Problem& problem() const { return problem_; }  ///< no spills, no slots, no warps
  /// The problem with the limits that hold whatever the roles: spills and slots between producers and the rest, warps
  /// of nodes that share a role.
  const Problem& certain_problem() const { return certain_problem_; }
  const std::vector<std::vector<int>>& clusters() const { return clusters_; }  ///< local nodes that must share a role
  /// The kind of a cluster: does it complete by itself, into shared memory or out of it? And how many warps are its
  /// bodies written for (0: any)?
  struct Kind {
    RoleKind of = RoleKind::compute;
    int warps = 0;
    int copy = -1;  ///< the copy among several that must be apart; -1: any
    bool agrees(const Kind& other, const Relaxation& relaxed) const {
      return (relaxed.variable_latency || of == other.of) &&
             (relaxed.copies || copy < 0 || other.copy < 0 || copy == other.copy) &&
             (relaxed.bodies || warps == 0 || other.warps == 0 || warps == other.warps);
    }
    /// The kinds that a role has taken in: it is bound to them once another kind has joined it.
    void join(const Kind& other) {
      if (other.warps != 0) warps = other.warps;
      if (other.copy >= 0) copy = other.copy;
    }
  };
  const Kind& kind(std::size_t cluster) const { return kinds_[cluster]; }
  bool has_producers() const { return has_producers_; }
  bool has_warps() const { return has_warps_; }
  /// Do roles decide edges?
  bool edges_depend() const;
  const std::vector<std::string>& spaces() const { return spaces_; }  ///< with a limit and a user
  bool uses_registers() const { return uses_registers_; }
  bool has_waits() const { return has_waits_; }
  bool has_spills() const { return has_spills_; }
  /// Does one more role cost nothing?
  bool roles_are_free() const { return !uses_registers_ && !has_spills_ && !graph_.machine.register_roles; }
  /// Kinds of roles that the iteration nodes need.
  int least_roles(const Relaxation& relaxed) const;

  /// Each family of constraints that the graph has, left out beside what JointOptions::relaxed leaves out.
  std::vector<std::pair<std::string, Relaxation>> families() const;

  /// Limits that rule out every II, as (binding, words); empty when nothing simple does.
  std::pair<std::string, std::string> impossible(int max_roles) const;

  /// Units and memory; no roles yet.
  TimeRules base_rules(int ii, const Relaxation& relaxed) const;
  /// Adds the rules that follow from the roles that are decided (`role` per local node, -1: not yet).
  void add_role_rules(const std::vector<int>& role, const Relaxation& relaxed, TimeRules& rules) const;
  /// Edges that follow from decided roles: spills, and slots that are filled again. Local nodes; delays include the
  /// spill.
  std::vector<graph::Edge> role_edges(const std::vector<int>& role, const Relaxation& relaxed) const;
  bool has_bodies() const { return has_bodies_; }  ///< written for more than one number of warps
  bool has_copies() const { return has_copies_; }  ///< are there copies that must be apart?
  /// False when all readers of a value are decided to be in its writer's role.
  bool values_cross(const std::vector<int>& role, const Relaxation& relaxed) const;
  /// Do cycles that satisfy certain_problem() satisfy everything with these roles, all decided?
  bool satisfied(const std::vector<int>& role, int ii, const std::vector<int>& cycle, const Relaxation& relaxed) const;
  /// A first guess at roles: one for each kind, or what completes by itself and one for each copy of the rest. False
  /// when there is no such guess.
  bool seed(bool by_copy, const Relaxation& relaxed, std::vector<int>& role) const;
  /// Bytes that go from role to role whatever the roles.
  std::int64_t least_bytes(const Relaxation& relaxed) const;
  /// The problem with these roles, all decided: the room that a node may be moved in.
  Problem decided_problem(const std::vector<int>& role) const;
  /// t_dst - t_src of an edge at this II.
  static int least_distance(const graph::Edge& edge, int ii);
  /// Windows of all nodes and edges without spills, closed; not `possible` when the edges alone do not fit.
  Closure window(int ii, int length, bool& possible) const;
  /// Bytes that an iteration sends between the roles that are decided.
  std::int64_t cross_bytes(const std::vector<int>& role) const;
  /// Registers a thread that each role needs, rounded.
  std::vector<int> role_registers(const std::vector<int>& role, int roles, int ii, const std::vector<int>& cycle) const;

 private:
  void find_clusters();
  int copy_of(const std::vector<int>& cluster);
  void make_certain_problem();
  void take_role_edges(const std::vector<int>& role, Problem& problem) const;
  const graph::Node& node_of(int local) const {
    return graph_.nodes[static_cast<std::size_t>(problem_.node[static_cast<std::size_t>(local)])];
  }
  Sharing sharing(const std::vector<int>& role, const Relaxation& relaxed) const;
  void add_memory(const Relaxation& relaxed, TimeRules& rules) const;
  void add_warps(const std::vector<int>& role, TimeRules& rules) const;
  std::int64_t bytes_of(int node, const std::string& space) const {
    const auto found = node_of(node).memory_bytes.find(space);
    return found == node_of(node).memory_bytes.end() ? 0 : found->second;
  }
  std::int64_t threads_of_group() const {
    return std::int64_t{graph_.machine.warps_per_group} * graph_.machine.warp_size;
  }
  std::int64_t held_at_issue(int i, const std::function<std::int64_t(int)>& amount) const;
  std::vector<Moment> ends(int node, int ii) const;
  Resource registers_of(const std::vector<int>& role, int r, int ii) const;
  void add_registers(const std::vector<int>& role, TimeRules& rules) const;
  void add_waits(const std::vector<int>& role, TimeRules& rules) const;
  /// Needs of a role whatever the cycles are.
  struct Need {
    int groups = 1;  ///< groups of warps; 0: it sits in that of role `host`
    int host = -1;
    int once = 0;           ///< registers a thread of what runs once a tile
    int warps = 1;          ///< of the role, and of those that sit in its group
    bool computes = false;  ///< something of it does not complete by itself
  };
  std::vector<Need> needs(const std::vector<int>& role) const;
  void share_groups(std::vector<Need>& needs) const;

  const graph::Graph& graph_;
  const JointOptions options_;
  Options modulo_;  ///< options of the problems
  SlotCaps caps_;
  Problem problem_, warps_problem_,
      certain_problem_;              ///< warps_problem_: with warps of nodes that share a role for certain
  std::vector<int> local_;           ///< per graph node
  std::vector<RoleKind> role_kind_;  ///< per local node
  std::vector<char> waits_;
  std::vector<std::vector<int>> clusters_;
  std::vector<int> cluster_of_;  ///< per local node
  std::vector<Kind> kinds_;      ///< per cluster
  std::vector<std::string> spaces_;
  std::string unlike_;       ///< a node that must share a role with one of another number of warps
  std::string tied_copies_;  ///< two nodes that must share a role and must not, for their copies
  std::string mixed_;        ///< an edge whose nodes must share a role, but are of both kinds
  bool uses_registers_ = false, has_waits_ = false, has_spills_ = false, has_warps_ = false, has_producers_ = false,
       has_bodies_ = false, has_copies_ = false;
};

}  // namespace tj::sched
