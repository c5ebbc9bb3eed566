// See json_code.hpp.
#include "graph/json_code.hpp"
#include "support/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>

namespace tj::graph {
namespace {

using support::cat;
using support::shown;

constexpr std::size_t kMaxIncludes = 64;
constexpr std::size_t kMaxConfig = 256;
constexpr std::size_t kMaxValues = kMaxNodes;
constexpr std::size_t kMaxTextLength = 256;  ///< the longest text of a type, a namespace or a path
constexpr std::int64_t kMaxAlignment = 4096;

// The declaration of a member, by the kind of its value.
constexpr std::string_view kNumber = "static constexpr int ", kFlag = "static constexpr bool ", kType = "using ";

std::string short_text(const Fields& fields, const Json& json, const std::string& place) {
  const std::string& text = fields.text(json, place);
  if (text.size() > kMaxTextLength)
    fields.reject(place, " has ", text.size(), " bytes; at most ", kMaxTextLength, " are allowed");
  return text;
}

bool same(const Value& a, const Value& b) {
  return a.name == b.name && a.slot_bytes == b.slot_bytes && a.alignment == b.alignment && a.scope == b.scope &&
         a.min_slots == b.min_slots && a.max_slots == b.max_slots && a.copied_bytes == b.copied_bytes &&
         a.shared_by == b.shared_by && a.shared_stride == b.shared_stride && a.within_warp == b.within_warp &&
         a.space == b.space && a.lies_in == b.lies_in;
}

}  // namespace

const char* scope_word(Scope scope) {
  switch (scope) {
    case Scope::tile_begin:
      return "tile_begin";
    case Scope::tile_end:
      return "tile_end";
    case Scope::iteration:
      break;
  }
  return "iteration";
}

void read_code(const Fields& fields, const Json& json, Graph& graph) {
  // Definitions are for the compiler: custom/document.cpp reads them.
  fields.keys(json, "code", {"namespace", "includes", "params_type", "config", "definitions"});
  graph.namespace_name = short_text(fields, fields.required(json, "code", "namespace"), "code.namespace");
  graph.params_type = short_text(fields, fields.required(json, "code", "params_type"), "code.params_type");
  const Json& includes = fields.list(fields.required(json, "code", "includes"), "code.includes", kMaxIncludes);
  for (std::size_t i = 0; i < includes.size(); ++i)
    graph.includes.push_back(short_text(fields, includes[i], cat("code.includes[", i, "]")));
  const Json* config = Fields::optional(json, "config");
  if (!config) return;
  if (fields.object(*config, "code.config").size() > kMaxConfig)
    fields.reject("code.config has ", config->size(), " members; at most ", kMaxConfig, " are allowed");
  for (const auto& [key, value] : config->items()) {
    const std::string place = "code.config." + shown(key), name = fields.name(key, place);
    if (value.is_boolean())
      graph.config.emplace_back(cat(kFlag, name), value.get<bool>() ? "true" : "false");
    else if (value.is_string())
      graph.config.emplace_back(cat(kType, name), short_text(fields, value, place));
    else if (value.is_number())
      graph.config.emplace_back(cat(kNumber, name), cat(fields.number(value, place, INT32_MIN, INT32_MAX)));
    else
      fields.reject(place, " is ", value_text(value), "; allowed are a whole number, true or false, and a type's name");
  }
}

Json code_json(const Graph& graph) {
  Json json = {{"namespace", graph.namespace_name}, {"includes", graph.includes}, {"params_type", graph.params_type}};
  for (const auto& [member, value] : graph.config) {
    const auto name_after = [&m = member](std::string_view kind) {
      return m.substr(0, kind.size()) == kind ? m.substr(kind.size()) : std::string();
    };
    int number = 0;
    const char* end = value.data() + value.size();
    if (const std::string name = name_after(kType); !name.empty())
      json["config"][name] = value;
    else if (const std::string flag = name_after(kFlag); !flag.empty() && (value == "true" || value == "false"))
      json["config"][flag] = value == "true";
    else if (const std::string count = name_after(kNumber);
             !count.empty() && std::from_chars(value.data(), end, number).ptr == end && !value.empty())
      json["config"][count] = number;
    else
      support::fail(Stage::graph, Code::unsupported,
                    cat("graph '", graph.name, "': config member '", member, " = ", value,
                        "' is no int, bool or type, for which the JSON format has no field"));
  }
  return json;
}

std::map<std::string, int> read_values(const Fields& fields, const Json& json, Graph& graph) {
  std::map<std::string, int> index;
  fields.list(json, "values", kMaxValues);
  for (std::size_t v = 0; v < json.size(); ++v) {
    const Json& entry = json[v];
    const std::string place = cat("values[", v, "]");
    fields.keys(entry, place,
                {"name", "slot_bytes", "alignment", "scope", "min_slots", "max_slots", "copied_bytes", "shared_by",
                 "shared_stride", "within_warp", "space", "lies_in"});
    Value value;
    value.name = fields.name(fields.text(fields.required(entry, place, "name"), place + ".name"), place + ".name");
    const auto [first, is_new] = index.emplace(value.name, static_cast<int>(v));
    if (!is_new)
      fields.reject(place, ".name is '", value.name, "', as is values[", first->second, "].name; names must be unique");
    value.slot_bytes =
        fields.integer(fields.required(entry, place, "slot_bytes"), place + ".slot_bytes", 0, kMaxSpaceBytes);
    value.alignment = fields.number_or(entry, place, "alignment", value.alignment, 1, kMaxAlignment);
    value.scope = static_cast<Scope>(
        fields.word(entry, place, "scope", {"tile_begin", "iteration", "tile_end"}, static_cast<int>(value.scope)));
    value.min_slots = fields.number_or(entry, place, "min_slots", value.min_slots, 1, kMaxSlots);
    value.max_slots = fields.number_or(entry, place, "max_slots", std::max(value.max_slots, value.min_slots),
                                       value.min_slots, kMaxSlots);
    value.copied_bytes =
        fields.number_or(entry, place, "copied_bytes", 0, 0, std::min<std::int64_t>(value.slot_bytes, 1 << 30));
    value.shared_by = fields.number_or(entry, place, "shared_by", 1, 1, graph.cluster);
    value.shared_stride = fields.number_or(entry, place, "shared_stride", 1, 1, graph.cluster);
    value.within_warp = fields.flag(entry, place, "within_warp", false);
    value.space =
        static_cast<Space>(fields.word(entry, place, "space", {"shared", "tensor"}, static_cast<int>(value.space)));
    if (value.space == Space::shared && value.slot_bytes == 0)
      fields.reject(place, ".slot_bytes is 0 for a value in shared memory; allowed: 1 to ", kMaxSpaceBytes);
    graph.values.push_back(std::move(value));
  }
  for (std::size_t v = 0; v < json.size(); ++v) {
    const Json* lies_in = Fields::optional(json[v], "lies_in");
    if (lies_in == nullptr) continue;
    const std::string place = cat("values[", v, "].lies_in");
    const auto found = index.find(fields.text(*lies_in, place));
    if (found == index.end() || found->second == static_cast<int>(v))
      fields.reject(place, " is ", value_text(*lies_in), "; allowed is the name of another entry of values");
    graph.values[v].lies_in = found->second;
  }
  return index;
}

Json value_json(const Graph& graph, const Value& value) {
  Json json = {{"name", value.name},           {"slot_bytes", value.slot_bytes},
               {"alignment", value.alignment}, {"scope", scope_word(value.scope)},
               {"min_slots", value.min_slots}, {"max_slots", value.max_slots}};
  if (value.copied_bytes > 0) json["copied_bytes"] = value.copied_bytes;
  if (value.shared_by != 1) json["shared_by"] = value.shared_by;
  if (value.shared_stride != 1) json["shared_stride"] = value.shared_stride;
  if (value.within_warp) json["within_warp"] = true;
  if (value.space == Space::tensor) json["space"] = "tensor";
  if (value.lies_in >= 0) json["lies_in"] = graph.values[static_cast<std::size_t>(value.lies_in)].name;
  return json;
}

ImpliedValues implied_values(const Graph& graph) {
  ImpliedValues implied;
  implied.of_edge.assign(graph.edges.size(), -1);
  std::vector<int> value_of(graph.nodes.size(), -1);
  const auto capacity = graph.machine.memory_bytes.find("SMEM");
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const Edge& edge = graph.edges[e];
    const Node& src = graph.nodes[static_cast<std::size_t>(edge.src)];
    const auto held = src.memory_bytes.find("SMEM");
    if (edge.src == edge.dst || held == src.memory_bytes.end() || held->second == 0) continue;
    int& index = value_of[static_cast<std::size_t>(edge.src)];
    if (index < 0) {
      index = static_cast<int>(implied.values.size());
      Value value;
      value.name = src.name;
      value.slot_bytes = held->second;
      value.alignment = 1;
      value.scope = src.scope;
      const std::int64_t fitting =
          capacity == graph.machine.memory_bytes.end() ? kMaxSlots : capacity->second / held->second;
      value.max_slots = static_cast<int>(std::clamp<std::int64_t>(fitting, 1, kMaxSlots));
      implied.values.push_back(std::move(value));
    }
    implied.of_edge[e] = index;
  }
  return implied;
}

bool values_are_implied(const Graph& graph) {
  const ImpliedValues implied = implied_values(graph);
  for (std::size_t e = 0; e < graph.edges.size(); ++e)
    if (graph.edges[e].value != implied.of_edge[e]) return false;
  return std::equal(graph.values.begin(), graph.values.end(), implied.values.begin(), implied.values.end(), same);
}

}  // namespace tj::graph
