// See family_text.hpp.
#include "codegen/family_text.hpp"

#include <algorithm>

#include "codegen/readers.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::codegen {

using support::cat;

std::string context_variable(const std::string& context) {
  std::string name = context;
  if (!name.empty()) name[0] = support::lower(name[0]);
  return name;
}

bool own_ring(const graph::Graph& graph, const sched::Schedule& schedule, const std::vector<int>& family, int ring) {
  const int value = schedule.rings[static_cast<std::size_t>(ring)].value;
  const bool fills = std::any_of(graph.edges.begin(), graph.edges.end(), [&](const graph::Edge& edge) {
    return edge.value == value && schedule.role[static_cast<std::size_t>(edge.src)] == family.front();
  });
  return family.size() > 1 &&
         (fills || (role_reads(graph, schedule, family[0], value) && !role_reads(graph, schedule, family[1], value)));
}

int FamilyText::ring_of(int value) const { return codegen::ring_of(schedule, value); }

std::string FamilyText::names() const {
  std::string names;
  for (int member : family)
    names += cat(names.empty() ? "" : "/", schedule.roles[static_cast<std::size_t>(member)].name);
  return names;
}

std::string FamilyText::shared_for(const char* what, int ring) const {
  const std::string base = what == std::string("columns") ? "tensor" : "shared";
  return own_ring(graph, schedule, family, ring)
             ? cat("dev::", what, "_of<", ring_type(ring), ">(", base, ", static_cast<unsigned>(member))")
             : base;
}

std::string FamilyText::variable(const graph::Node& node) const {
  const std::string name = context_variable(node.context);
  return alone() ? cat(name, node.copy) : name;
}

std::vector<int> FamilyText::copies_of(int index) const {
  const auto& nodes = role().nodes;
  const auto place = std::find(nodes.begin(), nodes.end(), index) - nodes.begin();
  std::vector<int> copies;
  for (int member : family)
    copies.push_back(schedule.roles[static_cast<std::size_t>(member)].nodes[static_cast<std::size_t>(place)]);
  return copies;
}

std::string FamilyText::placed(int index) const {
  std::string text;
  for (int same : copies_of(index))
    text += cat(text.empty() ? "" : "; ", node(same).name, ": cycle ", schedule.cycle[static_cast<std::size_t>(same)],
                ", stage ", schedule.stage(same));
  return text;
}

int FamilyText::position_in(std::size_t order) const {
  const auto& roles = schedule.order_barriers[order].roles;
  const auto found = std::find(roles.begin(), roles.end(), first);
  return found == roles.end() ? -1 : static_cast<int>(found - roles.begin());
}

std::string FamilyText::order_arguments(std::size_t order, int ahead) const {
  const auto& roles = schedule.order_barriers[order].roles;
  const auto count = static_cast<int>(roles.size());
  const auto warps = [&](int p) {
    return schedule.roles[static_cast<std::size_t>(roles[static_cast<std::size_t>((p + count) % count)])].warps;
  };
  const int barrier = layout.first_barrier_id[order], position = position_in(order);
  const int owner = (position + ahead) % count;
  const int threads = (warps(owner) + warps(owner - 1)) * graph.machine.warp_size;
  if (alone()) return cat(barrier + owner, ", ", threads);
  const std::string place = position == 0 ? "member" : cat(position, " + member");
  if (ahead == 0) return cat(barrier, " + ", place, ", ", threads);
  return cat(barrier, " + (", place, " + ", ahead, ") % ", count, ", ", threads);
}

}  // namespace tj::codegen
