// See readers.hpp.
#include "codegen/readers.hpp"

#include <algorithm>
#include <cstddef>

#include "support/index.hpp"

namespace tj::codegen {

using support::at;

using graph::Edge;

std::vector<int> readers_in(const graph::Graph& graph, const sched::Schedule& schedule, int role, int value,
                            std::optional<graph::Scope> scope) {
  std::vector<int> found;
  for (const Edge& edge : graph.edges)
    if (edge.value == value && schedule.role[at(edge.dst)] == role &&
        (!scope || graph.nodes[at(edge.dst)].scope == *scope) &&
        std::find(found.begin(), found.end(), edge.dst) == found.end())
      found.push_back(edge.dst);
  return found;
}

int reads_later(const graph::Graph& graph, int value, int reader) {
  for (const Edge& edge : graph.edges)
    if (edge.value == value && edge.dst == reader) return edge.distance;
  return 0;
}

bool read_asynchronously(const graph::Graph& graph, int value) {
  return std::any_of(graph.edges.begin(), graph.edges.end(), [&](const Edge& edge) {
    return edge.value == value && graph::reads_by_itself(graph.nodes[at(edge.dst)].async);
  });
}

std::vector<int> read_before_loop(const graph::Graph& graph, const sched::Schedule& schedule, int role) {
  std::vector<int> found;
  for (int value = 0; value < static_cast<int>(graph.values.size()); ++value) {
    const std::vector<int> all = readers_in(graph, schedule, role, value);
    if (!all.empty() && all == readers_in(graph, schedule, role, value, graph::Scope::tile_begin))
      found.push_back(value);
  }
  return found;
}

bool copies_alone(const graph::Graph& graph, const sched::Schedule& schedule, int role) {
  const std::vector<int>& nodes = schedule.roles[at(role)].nodes;
  return std::all_of(nodes.begin(), nodes.end(), [&](int index) {
    const graph::Node& node = graph.nodes[at(index)];
    return node.scope != graph::Scope::iteration || graph::issued_by_one(node.async);
  });
}

int ring_of(const sched::Schedule& schedule, int value) {
  for (std::size_t r = 0; r < schedule.rings.size(); ++r)
    if (schedule.rings[r].value == value) return static_cast<int>(r);
  return -1;
}

int turn_of(const sched::Schedule& schedule, int node) {
  for (std::size_t b = 0; b < schedule.order_barriers.size(); ++b)
    for (const auto& run : schedule.order_barriers[b].nodes)
      if (std::find(run.begin(), run.end(), node) != run.end()) return static_cast<int>(b);
  return -1;
}

}  // namespace tj::codegen
