// Graph -> JSON (see json_reader.hpp). Decides the layout of the text: one instruction and one edge a line.
#include <algorithm>
#include <cstddef>

#include "graph/examples.hpp"
#include "graph/json_reader.hpp"
#include "graph/json_tree.hpp"
#include "support/fail.hpp"

namespace tj::graph {
namespace {

using support::cat;

std::string line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool same(const Machine& a, const Machine& b) {
  return a.memory_bytes == b.memory_bytes &&
         std::equal(a.units.begin(), a.units.end(), b.units.begin(), b.units.end(),
                    [](const Unit& x, const Unit& y) { return x.name == y.name && x.capacity == y.capacity; });
}

Json machine_json(const Machine& machine) {
  if (same(machine, normalised_hopper())) return "hopper";
  if (same(machine, normalised_blackwell())) return "blackwell";
  Json json = {{"functional_units", Json::object()}};
  for (const Unit& unit : machine.units) json["functional_units"][unit.name] = unit.capacity;
  for (const auto& [space, bytes] : machine.memory_bytes) json["memory"][space] = bytes;
  return json;
}

/// The reservation table: per unit what is held in each cycle of the node.
Json table_json(const Graph& graph, const Node& node) {
  int length = node.cycles;
  for (const Reservation& use : node.reservations) length = std::max(length, use.start + use.cycles);
  Json table = Json::object();
  for (const Reservation& use : node.reservations) {
    Json& row = table[graph.machine.units[static_cast<std::size_t>(use.unit)].name];
    if (row.is_null()) row = std::vector<int>(static_cast<std::size_t>(length), 0);
    for (int c = use.start; c < use.start + use.cycles; ++c) {
      Json& entry = row[static_cast<std::size_t>(c)];
      entry = entry.get<int>() + use.count;
    }
  }
  return table;
}

Json node_json(const Graph& graph, const Node& node) {
  Json json = {{"name", node.name}};
  const Reservation* only = node.reservations.size() == 1 ? &node.reservations.front() : nullptr;
  const bool simple = node.reservations.empty() || (only && only->start == 0 && only->cycles == node.cycles && only->count == 1);
  if (simple) {
    json["cycles"] = node.cycles;
    json["fu"] = only ? Json(graph.machine.units[static_cast<std::size_t>(only->unit)].name) : Json(nullptr);
  } else {
    json["rrt"] = table_json(graph, node);
  }
  if (!simple || node.latency != node.cycles) json["latency"] = node.latency;
  if (node.variable_latency) json["variable_latency"] = true;
  if (node.streaming) json["streaming"] = true;
  for (const auto& [space, bytes] : node.memory_bytes) json["memory"][space] = bytes;
  if (node.registers != 0) json["registers"] = node.registers;
  return json;
}

Json edge_json(const Graph& graph, const Edge& edge) {
  Json json = {{"src", graph.nodes[static_cast<std::size_t>(edge.src)].name},
               {"dst", graph.nodes[static_cast<std::size_t>(edge.dst)].name},
               {"delay", edge.delay}};
  if (edge.distance != 0) json["delta"] = edge.distance;
  if (edge.blocking) json["blocking"] = true;
  return json;
}

/// What decides a schedule and has no field must not get lost in silence.
void refuse_what_has_no_field(const Graph& graph) {
  const auto refuse = [&](const std::string& what, const char* why) {
    support::fail(Stage::graph, Code::unsupported, cat("graph '", graph.name, "': ", what, " ", why, ", for which the JSON format has no field"));
  };
  for (const Node& node : graph.nodes) {
    const std::string what = cat("node '", node.name, "'");
    if (node.scope != Scope::iteration) refuse(what, "runs once a tile");
    if (node.copy != 0) refuse(what, "belongs to a copy of its context");
    if (node.async == Async::matrix || (node.async == Async::copy && !node.variable_latency)) refuse(what, "completes asynchronously");
  }
  for (const Edge& edge : graph.edges) {
    const std::string what = cat("edge '", graph.nodes[static_cast<std::size_t>(edge.src)].name, "' -> '", graph.nodes[static_cast<std::size_t>(edge.dst)].name, "'");
    if (edge.spill_cycles != 0) refuse(what, "has a spill cost");
    if (edge.same_role) refuse(what, "is tied to one role");
  }
}

void write_list(std::string& out, const char* key, const std::vector<std::string>& lines) {
  out += cat(",\n  \"", key, "\": [");
  for (std::size_t i = 0; i < lines.size(); ++i) out += cat(i == 0 ? "\n    " : ",\n    ", lines[i]);
  out += lines.empty() ? "]" : "\n  ]";
}

}  // namespace

std::string to_json(const Graph& graph) {
  check(graph);
  refuse_what_has_no_field(graph);
  std::vector<std::string> nodes, edges;
  for (const Node& node : graph.nodes) nodes.push_back(line(node_json(graph, node)));
  for (const Edge& edge : graph.edges) edges.push_back(line(edge_json(graph, edge)));
  std::string out = cat("{\n  \"machine\": ", line(machine_json(graph.machine)));
  write_list(out, "instructions", nodes);
  write_list(out, "edges", edges);
  return out + "\n}\n";
}

}  // namespace tj::graph
