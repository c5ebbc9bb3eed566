// Roles and cycles at one II and within one length: which assignment has a schedule at all.
//
// Decides one question by depth-first assignment, each partial one checked by an exact search for cycles. Roles are
// interchangeable, so a cluster may open only the next unused one. Deterministic. Invariant: `infeasible` is a proof.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/joint/model.hpp"

namespace tj::sched {

struct RoleQuestion {
  int ii = 1, length = 1;
  int max_roles = 1;
  std::int64_t max_bytes = -1;  ///< between roles; negative: any
  Relaxation relaxed;
  /// Roles that are given, per local node, numbered in the order of the clusters that open them; or null.
  const std::vector<int>* fixed = nullptr;
  const std::vector<int>* hint =
      nullptr;  ///< cycles within the length that satisfy units and all edges certain to hold; or null
};

struct RoleAnswer {
  std::vector<int> cycle, role;  ///< per local node; cycles are not shifted to 0
  int roles = 0;
};

class RoleSearch {
 public:
  /// Takes what it visits off `budget`.
  RoleSearch(const JointModel& model, const RoleQuestion& question, std::uint64_t& budget);
  Verdict run(RoleAnswer& answer);

 private:
  struct State {
    Closure closure;
    std::vector<int> role;               ///< per local node
    std::vector<JointModel::Kind> kind;  ///< per role
    std::vector<int> cycle;              ///< satisfies all that is decided
  };

  Verdict descend(std::size_t cluster, const State& state, RoleAnswer& answer);
  /// Candidates for a cluster, those that send the fewest bytes first; the next unused role last.
  std::vector<int> candidates(std::size_t cluster, const State& state) const;
  Verdict place(std::size_t cluster, int role, State& state);
  /// Edges that follow from what is decided; false when they contradict the others. `kept` turns false when the state's
  /// cycles do not satisfy them.
  bool add_edges(State& state, bool& kept) const;
  Verdict settle(State& state, bool kept);

  const JointModel& model_;
  const RoleQuestion question_;
  std::uint64_t& budget_;
  TimeRules base_;
  bool edges_depend_;  ///< on roles
};

}  // namespace tj::sched
