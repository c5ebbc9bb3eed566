// See rounds.hpp.
#include "sched/modulo/rounds.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/index.hpp"

namespace tj::sched {

using support::at;

Closure edges_at(const Problem& problem, int ii) {
  Closure edges(problem.size());
  for (const graph::Edge& edge : problem.edges)
    edges.set(
        edge.src, edge.dst,
        static_cast<std::int32_t>(std::max<std::int64_t>(edge.delay - std::int64_t{ii} * edge.distance, -kHorizon)));
  return edges;
}

Closure rounds_apart(const Closure& edges, int ii) {
  const int size = edges.size();
  std::vector<int> leader(at(size), -1), members(at(size), 0);
  for (int i = 0; i < size; ++i)
    for (int k = 0; k <= i && leader[at(i)] < 0; ++k)
      if (k == i || (edges.path(i, k) && edges.path(k, i))) leader[at(i)] = k;
  for (int i = 0; i < size; ++i) ++members[at(leader[at(i)])];
  // A schedule may be rotated as a whole: the largest component is pinned.
  const int pinned = static_cast<int>(std::max_element(members.begin(), members.end()) - members.begin());
  Closure root(size + 1);
  for (int i = 0; i < size; ++i) {
    const int lead = leader[at(i)];
    root.set(0, i + 1, edges.at(lead, i));
    root.set(i + 1, 0, edges.at(i, lead) - (lead == pinned ? 0 : ii - 1));
  }
  for (int i = 0; i < size; ++i)
    for (int k = 0; k < size; ++k)
      if (leader[at(i)] == leader[at(k)]) root.set(i + 1, k + 1, edges.at(i, k));
  through_origin(root);
  return root;
}

void through_origin(Closure& root) {
  for (int i = 1; i < root.size(); ++i)
    for (int k = 1; k < root.size(); ++k) root.set(i, k, root.at(i, 0) + root.at(0, k));
}

}  // namespace tj::sched
