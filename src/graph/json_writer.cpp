// Graph -> JSON (see json_reader.hpp). Decides the layout of the text: one instruction, value and edge a line.
#include <algorithm>
#include <cstddef>

#include "graph/code.hpp"
#include "graph/json_code.hpp"
#include "graph/json_machine.hpp"
#include "graph/json_reader.hpp"
#include "graph/json_tree.hpp"
#include "support/fail.hpp"

namespace tj::graph {
namespace {

using support::cat;

std::string line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

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

/// The role that runs the node, and the functions that the unit calls, where they differ from the reader's defaults.
void execution_json(const Node& node, Json& json) {
  static constexpr const char* kAsync[] = {"none", "copy", "matrix", "store", "threads", "unit"};
  const Node usual;
  if (node.body != node.name && !node.body.empty()) json["body"] = node.body;
  if (!node.context.empty()) json["context"] = node.context;
  if (node.copy != 0) json["copy"] = node.copy;
  if (node.scope != Scope::iteration) json["scope"] = scope_word(node.scope);
  if (node.async != (node.variable_latency ? Async::copy : Async::none))
    json["async"] = kAsync[static_cast<int>(node.async)];
  if (node.warps != (issued_by_one(node.async) ? 1 : usual.warps)) json["warps"] = node.warps;
  if (node.warp_cycles != 0) json["warp_cycles"] = node.warp_cycles;
  if (node.cache_hint != CacheHint::none)
    json["cache_hint"] = node.cache_hint == CacheHint::evict_first ? "evict_first" : "evict_last";
  if (node.drains) json["drains"] = true;
  if (node.merges) json["merges"] = true;
  if (node.range) json["variant"] = node.range.variant;
  if (!node.range.begin.empty()) json["variant_begin"] = node.range.begin;
  if (!node.range.end.empty()) json["variant_end"] = node.range.end;
  if (node.range.max_begin != usual.range.max_begin) json["max_variant_begin"] = node.range.max_begin;
}

Json node_json(const Graph& graph, const Node& node) {
  Json json = {{"name", node.name}};
  const Reservation* only = node.reservations.size() == 1 ? &node.reservations.front() : nullptr;
  const bool simple = node.reservations.empty() || (only && only->start == 0 && only->count == 1);
  int held = node.cycles;  // the reader's defaults for cycles and latency
  if (simple) {
    if (only) held = only->cycles;
    json["cycles"] = held;
    json["fu"] = only ? Json(graph.machine.units[static_cast<std::size_t>(only->unit)].name) : Json(nullptr);
  } else {
    for (const Reservation& use : node.reservations) held = std::max(held, use.start + use.cycles);
    json["rrt"] = table_json(graph, node);
  }
  if (node.cycles != held) json["issue_cycles"] = node.cycles;
  if (!simple || node.latency != held) json["latency"] = node.latency;
  if (node.variable_latency) json["variable_latency"] = true;
  if (node.streaming) json["streaming"] = true;
  for (const auto& [space, bytes] : node.memory_bytes) json["memory"][space] = bytes;
  if (node.registers != 0) json["registers"] = node.registers;
  execution_json(node, json);
  return json;
}

Json edge_json(const Graph& graph, const Edge& edge, bool implied_values) {
  Json json = {{"src", graph.nodes[static_cast<std::size_t>(edge.src)].name},
               {"dst", graph.nodes[static_cast<std::size_t>(edge.dst)].name},
               {"delay", edge.delay}};
  if (edge.distance != 0) json["delta"] = edge.distance;
  if (edge.blocking) json["blocking"] = true;
  if (edge.value >= 0 && !implied_values) json["value"] = graph.values[static_cast<std::size_t>(edge.value)].name;
  if (edge.spill_cycles != 0) json["spill_cycles"] = edge.spill_cycles;
  if (edge.updates) json["updates"] = true;
  if (edge.same_role != (has_code(graph) && edge.value < 0)) json["same_role"] = edge.same_role;
  return json;
}

void write_list(std::string& out, const char* key, const std::vector<std::string>& lines) {
  out += cat(",\n  \"", key, "\": [");
  for (std::size_t i = 0; i < lines.size(); ++i) out += cat(i == 0 ? "\n    " : ",\n    ", lines[i]);
  out += lines.empty() ? "]" : "\n  ]";
}

}  // namespace

std::string to_json(const Graph& graph, const std::vector<Machine>& machines) {
  check(graph);
  const bool implied = values_are_implied(graph);
  std::vector<std::string> nodes, edges, values;
  for (const Node& node : graph.nodes) nodes.push_back(line(node_json(graph, node)));
  for (const Edge& edge : graph.edges) edges.push_back(line(edge_json(graph, edge, implied)));
  for (const Value& value : graph.values) values.push_back(line(value_json(graph, value)));
  std::string out = graph.name.empty() ? "{\n" : cat("{\n  \"name\": ", line(graph.name), ",\n");
  out += cat("  \"machine\": ", line(machine_json(graph.machine, machines, graph.blocks_per_sm)));
  if (graph.cluster != 1) out += cat(",\n  \"cluster\": ", graph.cluster);
  if (graph.pairs) out += ",\n  \"pairs\": true";
  if (graph.blocks_per_sm != 1) out += cat(",\n  \"blocks_per_sm\": ", graph.blocks_per_sm);
  if (graph.walk != Graph().walk) out += cat(",\n  \"walk\": \"", name_of(graph.walk), "\"");
  if (graph.grids != Graph().grids) out += cat(",\n  \"grids\": \"", name_of(graph.grids), "\"");
  if (graph.ranges != Graph().ranges) out += cat(",\n  \"ranges\": \"", name_of(graph.ranges), "\"");
  if (graph.piece_bytes != 0) out += cat(",\n  \"piece_bytes\": ", graph.piece_bytes);
  if (graph.slices != 0) out += cat(",\n  \"slices\": ", graph.slices);
  if (graph.most_iterations != 0) out += cat(",\n  \"most_iterations\": ", graph.most_iterations);
  if (graph.least_smem_bytes != 0) out += cat(",\n  \"least_smem_bytes\": ", graph.least_smem_bytes);
  if (graph.flops_per_iteration != 0) out += cat(",\n  \"flops_per_iteration\": ", line(graph.flops_per_iteration));
  if (graph.overhead_cycles != 0) out += cat(",\n  \"overhead_cycles\": ", line(graph.overhead_cycles));
  if (has_code(graph)) out += cat(",\n  \"code\": ", line(code_json(graph)));
  write_list(out, "instructions", nodes);
  if (!implied) write_list(out, "values", values);
  write_list(out, "edges", edges);
  return out + "\n}\n";
}

}  // namespace tj::graph
