// See looks.hpp.
#include "codegen/looks.hpp"

#include <algorithm>

#include "codegen/readers.hpp"
#include "codegen/timeline.hpp"
#include "graph/lifetimes.hpp"
#include "support/index.hpp"

namespace tj::codegen {
namespace {

using graph::Async;
using graph::Edge;
using graph::Graph;
using graph::Scope;
using support::at;

/// The place of a value's filling is filled again so many iterations later.
int filled_again_after(const Graph& graph, const sched::Schedule& schedule, int value) {
  int after = schedule.rings[at(ring_of(schedule, value))].slots;
  for (const graph::Sharing& sharing : graph::sharings(graph)) {
    if (sharing.every_iteration && sharing.first == value) after = 0;
    if (sharing.every_iteration && sharing.second == value) after = std::min(after, 1);
  }
  return after;
}

}  // namespace

Looks::Looks(const Graph& graph, const sched::Schedule& schedule, int role, int trip_count)
    : graph_(graph), schedule_(schedule), role_(role), trip_count_(trip_count) {}

std::size_t Looks::before_call(const std::vector<Instance>& pending, int node, int iteration) const {
  std::size_t count = 0;
  const bool loops = graph_.nodes[at(node)].scope == Scope::iteration;
  for (const Edge& edge : graph_.edges) {
    if (edge.dst != node || !edge.blocking || schedule_.role[at(edge.src)] != role_ ||
        graph_.nodes[at(edge.src)].async != Async::matrix)
      continue;
    const bool in_loop = graph_.nodes[at(edge.src)].scope == Scope::iteration;
    if (in_loop && !loops) continue;  // the loop's end has waited
    const Instance source{edge.src, in_loop ? iteration - edge.distance : -1};
    const bool real = !in_loop || (of_tile(iteration) && of_tile(source.second));
    const bool at_end = iteration >= trip_count_ || source.second >= trip_count_;
    for (std::size_t p = count; p < pending.size(); ++p)
      if (real ? pending[p] == source : not_after(pending[p], source) && hands_back(pending[p], at_end)) count = p + 1;
  }
  return count;
}

/// Does the role's text have the group no later than where it would have the other one?
bool Looks::not_after(const Instance& group, const Instance& source) const {
  const auto& order = schedule_.roles[at(role_)].nodes;
  const auto step = [&](const Instance& of) { return of.second + role_stage(graph_, schedule_, of.first); };
  const auto place = [&](const Instance& of) { return std::find(order.begin(), order.end(), of.first); };
  return step(group) != step(source) ? step(group) < step(source) : place(group) <= place(source);
}

/// Does another role wait for what the group reads? At the end of a tile, only where this tile fills it again.
bool Looks::hands_back(const Instance& group, bool at_end) const {
  return std::any_of(graph_.edges.begin(), graph_.edges.end(), [&](const Edge& edge) {
    if (edge.dst != group.first || edge.value < 0 || schedule_.role[at(edge.src)] == role_ ||
        graph_.values[at(edge.value)].scope != Scope::iteration || group.second < edge.distance)
      return false;
    const int filling = group.second - edge.distance;
    return !at_end || filling + filled_again_after(graph_, schedule_, edge.value) < trip_count_;
  });
}

}  // namespace tj::codegen
