// See graph_document.hpp. Members are listed once, for both ways: Write and Read walk the same lists.
#include "custom/graph_document.hpp"

#include <concepts>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

#include "graph/json_fields.hpp"
#include "ops/common/machine.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

using graph::Json;
using support::cat;

template <class T, class U>
concept Of = std::same_as<std::remove_const_t<T>, U>;

constexpr const char* kScopes[] = {"tile_begin", "iteration", "tile_end"};
constexpr const char* kAsyncs[] = {"none", "copy", "matrix", "store", "threads", "unit"};
constexpr const char* kCacheHints[] = {"none", "evict_first", "evict_last"};
constexpr const char* kSpaces[] = {"shared", "tensor"};
constexpr const char* kGrids[] = {"ordered", "opens", "joins"};
constexpr const char* kWalks[] = {"one_tile", "persistent", "dynamic", "split", "sliced"};
constexpr const auto& words_of(Graph::Scope) { return kScopes; }
constexpr const auto& words_of(Graph::Async) { return kAsyncs; }
constexpr const auto& words_of(Graph::CacheHint) { return kCacheHints; }
constexpr const auto& words_of(Graph::Space) { return kSpaces; }
constexpr const auto& words_of(Graph::Grids) { return kGrids; }
constexpr const auto& words_of(Graph::Walk) { return kWalks; }

void walk_members(auto&& walk, Of<Graph::Machine> auto& machine) {
  walk("functional_units", machine.functional_units);
  walk("memory", machine.memory);
  walk("warps_per_group", machine.warps_per_group);
  walk("warp_size", machine.warp_size);
  walk("registers", machine.registers);
  walk("max_registers_per_thread", machine.max_registers_per_thread);
  walk("register_step", machine.register_step);
  walk("register_roles", machine.register_roles);
  walk("shared_barriers", machine.shared_barriers);
  walk("overlapped_launch", machine.overlapped_launch);
  walk("max_cluster", machine.max_cluster);
}

/// All but what holds units: cycles and fu, or rrt.
void walk_members(auto&& walk, Of<Graph::Instruction> auto& instruction) {
  walk("name", instruction.name);
  walk("latency", instruction.latency);
  walk("issue_cycles", instruction.issue_cycles);
  walk("variable_latency", instruction.variable_latency);
  walk("streaming", instruction.streaming);
  walk("memory", instruction.memory);
  walk("registers", instruction.registers);
  walk("warp_cycles", instruction.warp_cycles);
  walk("scope", instruction.scope);
  walk("async", instruction.async);
  walk("drains", instruction.drains);
  walk("warps", instruction.warps);
  walk("body", instruction.body);
  walk("context", instruction.context);
  walk("copy", instruction.copy);
  walk("merges", instruction.merges);
  walk("fast_variant", instruction.fast_variant);
  walk("max_fast_begin", instruction.max_fast_begin);
  walk("cache_hint", instruction.cache_hint);
}

void walk_members(auto&& walk, Of<Graph::Edge> auto& edge) {
  walk("src", edge.src);
  walk("dst", edge.dst);
  walk("delay", edge.delay);
  walk("delta", edge.delta);
  walk("blocking", edge.blocking);
  walk("value", edge.value);
  walk("spill_cycles", edge.spill_cycles);
  walk("same_role", edge.same_role);
  walk("updates", edge.updates);
}

void walk_members(auto&& walk, Of<Graph::Value> auto& value) {
  walk("name", value.name);
  walk("slot_bytes", value.slot_bytes);
  walk("copied_bytes", value.copied_bytes);
  walk("alignment", value.alignment);
  walk("scope", value.scope);
  walk("min_slots", value.min_slots);
  walk("max_slots", value.max_slots);
  walk("shared_by", value.shared_by);
  walk("shared_stride", value.shared_stride);
  walk("within_warp", value.within_warp);
  walk("space", value.space);
}

void walk_members(auto&& walk, Of<Graph::Code> auto& code) {
  walk("namespace", code.namespace_name);
  walk("includes", code.includes);
  walk("params_type", code.params_type);
  walk("config", code.config);
}

/// The members of a graph, all but the machine and the lists.
void walk_members(auto&& walk, Of<Graph> auto& graph) {
  walk("cluster", graph.cluster);
  walk("pairs", graph.pairs);
  walk("blocks_per_sm", graph.blocks_per_sm);
  walk("walk", graph.walk);
  walk("grids", graph.grids);
  walk("piece_bytes", graph.piece_bytes);
  walk("most_iterations", graph.most_iterations);
  walk("least_smem_bytes", graph.least_smem_bytes);
  walk("flops_per_iteration", graph.flops_per_iteration);
  walk("overhead_cycles", graph.overhead_cycles);
}

/// Texts, optional members and maps are left out when they are empty: the reader says what that means.
class Write {
 public:
  Write(const graph::Fields& fields, std::string place, Json& to)
      : fields_(fields), place_(std::move(place)), to_(to) {}

  void operator()(const char* key, const std::string& text) {
    if (!text.empty()) to_[key] = text;
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(const char* key, T number) {
    to_[key] = number;
  }
  template <class Word>
    requires std::is_enum_v<Word>
  void operator()(const char* key, Word word) {
    const auto index = static_cast<std::size_t>(word);
    const auto& words = words_of(word);
    to_[key] = index < std::size(words) ? Json(words[index]) : Json(static_cast<int>(word));  // the reader complains
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& member) {
    if (member) (*this)(key, *member);
  }
  void operator()(const char* key, const std::map<std::string, std::int64_t>& bytes) {
    for (const auto& [space, each] : bytes) to_[key][space] = each;
  }
  void operator()(const char* key, const std::vector<std::string>& texts) { to_[key] = texts; }
  void operator()(const char* key, const std::vector<Graph::Unit>& units) {
    to_[key] = Json::object();
    for (const Graph::Unit& unit : units) once(key, unit.name, unit.capacity);
  }
  void operator()(const char* key, const std::vector<Graph::Row>& rows) {
    for (const Graph::Row& row : rows) once(key, row.unit, row.held);
  }
  void operator()(const char* key, const std::vector<Graph::Constant>& constants) {
    for (const Graph::Constant& each : constants)
      once(key, each.name, std::visit([](const auto& value) { return Json(value); }, each.value));
  }

 private:
  void once(const char* key, const std::string& name, Json value) {
    Json& object = to_[key];
    if (object.contains(name))
      fields_.reject(graph::Fields::join(place_, key), ".", support::shown(name), " is given twice; keep one");
    object[name] = std::move(value);
  }

  const graph::Fields& fields_;
  const std::string place_;
  Json& to_;
};

/// Reads members from the document. A member that the document leaves out keeps the graph's default.
class Read {
 public:
  explicit Read(const Json& from) : from_(from) {}

  void operator()(const char* key, auto& member) {
    if (const auto found = from_.find(key); found != from_.end()) take(*found, member);
  }

 private:
  static void take(const Json& json, std::vector<Graph::Unit>& units) {
    for (const auto& [name, capacity] : json.items()) units.push_back({name, capacity.get<int>()});
  }
  static void take(const Json& json, std::vector<Graph::Row>& rows) {
    for (const auto& [unit, held] : json.items()) rows.push_back({unit, held.get<std::vector<int>>()});
  }
  static void take(const Json& json, std::vector<Graph::Constant>& constants) {
    for (const auto& [name, value] : json.items()) {
      Graph::Constant& constant = constants.emplace_back();
      constant.name = name;
      if (value.is_boolean())
        constant.value = value.get<bool>();
      else if (value.is_string())
        constant.value = value.get<std::string>();
      else
        constant.value = value.get<int>();
    }
  }
  template <class T>
  static void take(const Json& json, std::optional<T>& member) {
    take(json, member.emplace());
  }
  template <class T>
  static void take(const Json& json, T& member) {
    if constexpr (std::is_enum_v<T>) {
      for (std::size_t i = 0; i < std::size(words_of(T{})); ++i)
        if (support::is_text(json, words_of(T{})[i])) member = static_cast<T>(i);
    } else {
      member = json.get<T>();
    }
  }

  const Json& from_;
};

graph::Fields fields_of(const Graph& graph) { return graph::Fields(cat("graph '", support::shown(graph.name), "'")); }

Json machine_json(const graph::Fields& fields, const Graph::Machine& machine) {
  if (!machine.name.empty()) {
    Graph::Machine only;
    only.name = machine.name;
    if (machine != only)
      fields.reject("machine.name is '", support::shown(machine.name),
                    "' and other members of the machine are set; give the name alone, or all but the name");
    return machine.name;
  }
  Json json = Json::object();
  walk_members(Write(fields, "machine", json), machine);
  return json;
}

Json instruction_json(const graph::Fields& fields, const Graph::Instruction& instruction, const std::string& place) {
  Json json = Json::object();
  Write write(fields, place, json);
  walk_members(write, instruction);
  if (instruction.rrt.empty()) {
    write("cycles", instruction.cycles);
    write("fu", instruction.fu);
  } else {
    write("rrt", instruction.rrt);
  }
  return json;
}

Graph::Instruction instruction_from(const Json& json) {
  Graph::Instruction instruction;
  walk_members(Read(json), instruction);
  if (const auto table = json.find("rrt"); table != json.end()) {
    Read{json}("rrt", instruction.rrt);
    if (table->empty()) instruction.cycles = 0;
    return instruction;
  }
  Read{json}("cycles", instruction.cycles);
  if (const auto unit = json.find("fu"); unit != json.end() && !unit->is_null())
    instruction.fu = unit->get<std::string>();
  return instruction;
}

template <class T>
Json list_json(const graph::Fields& fields, const char* key, const std::vector<T>& list) {
  Json json = Json::array();
  for (const T& each : list) {
    const std::string place = cat(key, "[", json.size(), "]");
    if constexpr (std::same_as<T, Graph::Instruction>) {
      json.push_back(instruction_json(fields, each, place));
    } else {
      json.push_back(Json::object());
      walk_members(Write(fields, place, json.back()), each);
    }
  }
  return json;
}

}  // namespace

std::string to_document(const Graph& graph) {
  const graph::Fields fields = fields_of(graph);
  Json json = {{"name", graph.name}, {"machine", machine_json(fields, graph.machine)}};
  walk_members(Write(fields, "", json), graph);
  if (graph.code) {
    json["code"] = Json::object();
    walk_members(Write(fields, "code", json["code"]), *graph.code);
  }
  json["instructions"] = list_json(fields, "instructions", graph.instructions);
  if (graph.lists_values || !graph.values.empty()) json["values"] = list_json(fields, "values", graph.values);
  json["edges"] = list_json(fields, "edges", graph.edges);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Graph from_document(const Json& document) {
  Graph graph;
  Read{document}("name", graph.name);
  walk_members(Read(document), graph);
  if (const Json& machine = document.at("machine"); machine.is_string())
    graph.machine.name = machine.get<std::string>();
  else
    walk_members(Read(machine), graph.machine);
  if (const auto code = document.find("code"); code != document.end()) walk_members(Read(*code), graph.code.emplace());
  for (const Json& each : document.at("instructions")) graph.instructions.push_back(instruction_from(each));
  if (const auto values = document.find("values"); values != document.end()) {
    graph.lists_values = true;
    for (const Json& each : *values) walk_members(Read(each), graph.values.emplace_back());
  }
  if (const auto edges = document.find("edges"); edges != document.end())
    for (const Json& each : *edges) walk_members(Read(each), graph.edges.emplace_back());
  return graph;
}

Graph::Machine read_machine(const Json& json) {
  const Json probe = {{"machine", json}, {"instructions", {{{"name", "none"}, {"cycles", 1}}}}};
  ops::read_graph(probe.dump(-1, ' ', false, Json::error_handler_t::replace), "machine");
  return from_document(probe).machine;
}

graph::Graph read_document(const Graph& graph) {
  return ops::read_graph(to_document(graph), support::shown(graph.name));
}

}  // namespace tj
