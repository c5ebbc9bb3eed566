// Graphs of users, the calls of tilejit/graph.hpp on them: check, parse, write.
//
// Decides nothing about the format (graph/json_reader.hpp) nor which machines have names (ops/common/machine.hpp).
#include <tilejit/graph.hpp>

#include "custom/graph_document.hpp"
#include "graph/json_fields.hpp"
#include "graph/json_tree.hpp"
#include "ops/common/machine.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj {

Graph::Machine Graph::Machine::described(std::string_view name) {
  Graph probe;
  probe.name = "machine";
  probe.machine.name = name;
  probe.instructions.push_back({.name = "none"});
  const graph::Machine known = read_document(probe).machine;
  Machine machine;
  for (const graph::Unit& unit : known.units) machine.functional_units.push_back({unit.name, unit.capacity});
  machine.memory = known.memory_bytes;
  machine.warps_per_group = known.warps_per_group;
  machine.warp_size = known.warp_size;
  machine.registers = static_cast<int>(known.registers);
  machine.max_registers_per_thread = known.max_registers_per_thread;
  machine.register_step = known.register_step;
  machine.register_roles = known.register_roles;
  machine.shared_barriers = known.shared_barriers;
  machine.overlapped_launch = known.overlapped_launch;
  machine.max_cluster = known.max_cluster;
  return machine;
}

Graph Graph::parse(std::string_view json, std::string_view name) {
  const std::string subject = support::cat("graph '", support::shown(name), "'");
  const std::string given = graph::Fields(subject).name(std::string(name), "name");
  const Document document(json, given);
  Graph graph = from_document(document.tree());
  if (!document.tree().contains("name")) graph.name = given;
  return graph;
}

std::string Graph::json() const {
  const graph::Graph one = read_document(*this);
  const std::string more = text_of_document(*this);
  return more.empty() ? ops::write_graph(one) : more;
}

void Graph::check() const { document_of(*this); }

Graph Graph::resolved(std::string_view target, std::string_view candidate) const {
  return from_document(document_of(*this).resolved(target, candidate));
}

std::string Graph::text() const { return graph::to_text(read_document(*this)); }

}  // namespace tj
