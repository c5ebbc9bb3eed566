// See bounds.hpp.
#include "sched/bounds.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "sched/modulo/problem.hpp"
#include "support/index.hpp"

namespace tj::sched {

using support::at;

int least_length(const graph::Graph& graph, const Options& options) {
  graph::check(graph);
  const std::vector<int> one_role(graph.nodes.size(), 0);
  const Problem problem = make_problem(graph, one_role, SlotCaps(graph.values.size(), 0), false, options);
  std::vector<int> earliest(at(problem.size()), 0);
  for (bool changed = true; changed;) {  // edges within an iteration have no cycle
    changed = false;
    for (const graph::Edge& edge : problem.edges) {
      const int least = earliest[at(edge.src)] + edge.delay;
      if (edge.distance > 0 || least <= earliest[at(edge.dst)]) continue;
      earliest[at(edge.dst)] = least;
      changed = true;
    }
  }
  int length = 1;
  for (int i = 0; i < problem.size(); ++i) length = std::max(length, earliest[at(i)] + problem.length[at(i)]);
  return length;
}

}  // namespace tj::sched
