// See variants.hpp.
#include "codegen/variants.hpp"

#include <algorithm>
#include <cstddef>

#include "codegen/timeline.hpp"

namespace tj::codegen {

std::vector<int> last_variants(const graph::Graph& graph, const sched::Schedule& schedule, int role) {
  const auto node = [&](int index) -> const graph::Node& { return graph.nodes[static_cast<std::size_t>(index)]; };
  std::vector<int> last;
  for (const int index : schedule.roles[static_cast<std::size_t>(role)].nodes) {
    if (!node(index).has_fast_variant) continue;
    const auto same = std::find_if(last.begin(), last.end(), [&](int other) {
      return node(other).context == node(index).context && node(other).copy == node(index).copy;
    });
    if (same == last.end())
      last.push_back(index);
    else if (role_stage(graph, schedule, index) > role_stage(graph, schedule, *same))
      *same = index;
  }
  return last;
}

}  // namespace tj::codegen
