// What the joint search sees: iteration nodes, who may share a role with whom, what is held how long.
//
// Decides how the constraints of joint.hpp become rules of a TimeSearch. Searches nothing. Invariant: the rules for some of
// the roles are implied by the rules for all of them, so a partial assignment that is infeasible stays so.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sched/joint.hpp"
#include "sched/joint_time.hpp"
#include "sched/problem.hpp"

namespace tj::sched {

/// One family of constraints left out, to see whether it is the one that binds.
struct Relaxation {
  bool registers = false, concurrency = false, spills = false, roles = false;
  std::string space;  ///< a memory space without limit; empty: none
};

class JointModel {
 public:
  JointModel(const graph::Graph& graph, const JointOptions& options);

  const graph::Graph& graph() const { return graph_; }
  const Problem& problem() const { return problem_; }          ///< no spills
  const Problem& split_problem() const { return split_problem_; }  ///< spills between producers and the rest, which always count
  const std::vector<std::vector<int>>& clusters() const { return clusters_; }  ///< local nodes that must share a role
  bool produces(int node) const { return producer_[static_cast<std::size_t>(node)] != 0; }
  const std::vector<std::string>& spaces() const { return spaces_; }  ///< with a limit and a user
  bool uses_registers() const { return uses_registers_; }
  bool has_waits() const { return has_waits_; }
  bool has_spills() const { return has_spills_; }
  /// Kinds of roles that the iteration nodes need.
  int least_roles() const;

  /// What rules out every II, as (binding, words); empty when nothing simple does.
  std::pair<std::string, std::string> impossible(int max_roles) const;

  /// Units and memory; no roles yet.
  TimeRules base_rules(int ii, const Relaxation& relaxed) const;
  /// Adds what follows from the roles that are decided (`role` per local node, -1: not yet).
  void add_role_rules(const std::vector<int>& role, const Relaxation& relaxed, TimeRules& rules) const;
  /// t_dst - t_src of an edge at this II.
  static int least_distance(const graph::Edge& edge, int spill, int ii);
  /// Windows of all nodes and edges without spills, closed; not `possible` when the edges alone do not fit.
  Closure window(int ii, int length, bool& possible) const;
  /// Bytes that an iteration sends between the roles that are decided.
  std::int64_t cross_bytes(const std::vector<int>& role) const;
  /// Registers a thread that each role needs, rounded.
  std::vector<int> role_registers(const std::vector<int>& role, int roles, int ii, const std::vector<int>& cycle) const;

 private:
  void find_clusters();
  std::vector<Moment> ends(int node, int ii) const;
  Resource registers_of(const std::vector<int>& role, int r, int ii) const;
  void add_registers(const std::vector<int>& role, TimeRules& rules) const;
  void add_waits(const std::vector<int>& role, TimeRules& rules) const;
  int groups(const std::vector<int>& role, int r) const;

  const graph::Graph& graph_;
  int max_stages_;
  Problem problem_, split_problem_;
  std::vector<char> producer_, waits_;
  std::vector<std::vector<int>> clusters_;
  std::vector<std::string> spaces_;
  bool mixed_ = false;  ///< nodes that must share a role are of both kinds
  bool uses_registers_ = false, has_waits_ = false, has_spills_ = false;
};

}  // namespace tj::sched
