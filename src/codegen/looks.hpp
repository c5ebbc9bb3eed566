// Where a role looks at its products: which groups it waits for before a call.
//
// Decides that the first and the last iterations of a tile look where all others do, also at places whose call they
// lack. Rings count that look (sched/rings): without it, a role could wait for a filling whose slot it has not handed
// back. Does not decide what is handed back then (timeline).
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

using Instance = std::pair<int, int>;  ///< node, iteration

class Looks {
 public:
  /// A tile of so many iterations.
  Looks(const graph::Graph& graph, const sched::Schedule& schedule, int role, int trip_count);

  /// So many of the groups under way, oldest first, are waited for before a node's call of that iteration. The tile
  /// may lack the iteration: then that many are waited for in its place.
  std::size_t before_call(const std::vector<Instance>& pending, int node, int iteration) const;

 private:
  bool of_tile(int iteration) const { return iteration >= 0 && iteration < trip_count_; }
  bool not_after(const Instance& group, const Instance& source) const;
  bool hands_back(const Instance& group, bool at_end) const;

  const graph::Graph& graph_;
  const sched::Schedule& schedule_;
  int role_, trip_count_;
};

}  // namespace tj::codegen
