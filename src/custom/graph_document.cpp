// See graph_document.hpp. Write and Read walk the lists of graph_members.hpp.
#include "custom/graph_document.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include "custom/graph_members.hpp"
#include "graph/json_fields.hpp"
#include "ops/common/machine.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

using graph::Json;
using support::cat;

/// A text that is a number stands as one.
Json number_or_text(const std::string& text) {
  const Json number = Json::parse(text, nullptr, false);
  return number.is_number() && number.dump() == text ? number : Json(text);
}
template <class T>
concept Listed = Of<T, GraphTrial> || Of<T, GraphTrialTensor> || Of<T, GraphTrialParam>;

std::string text_of(const Json& json) { return json.is_string() ? json.get<std::string>() : json.dump(); }

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
  void operator()(const char* key, const std::vector<std::string>& texts) {
    const bool numbers = std::string_view(key) == "shape" || std::string_view(key) == "box";
    to_[key] = Json::array();
    for (const std::string& text : texts) to_[key].push_back(numbers ? number_or_text(text) : Json(text));
  }
  /// The objects of a list, whose members stand in graph_members.hpp.
  template <class T>
    requires Listed<T>
  void operator()(const char* key, const std::vector<T>& list) {
    to_[key] = Json::array();
    for (const T& each : list) {
      to_[key].push_back(Json::object());
      walk_members(
          Write(fields_, cat(graph::Fields::join(place_, key), "[", to_[key].size() - 1, "]"), to_[key].back()), each);
    }
  }
  void operator()(const char* key, const std::vector<Graph::Parameter>& parameters) {
    to_[key] = Json::object();
    for (const Graph::Parameter& each : parameters) once(key, each.name, number_or_text(each.value));
  }
  void operator()(const char* key, const std::vector<Graph::Candidate>& candidates) {
    to_[key] = Json::array();
    for (const Graph::Candidate& each : candidates) {
      Json own = Json::object();
      for (const auto& [name, value] : each.parameters) own[name] = number_or_text(value);
      to_[key].push_back({{"name", each.name}, {"parameters", std::move(own)}});
    }
  }
  /// Texts in the place of numbers: "cycles", "memory.SMEM".
  void expressions(const char* list, const Graph::Expressions& texts) {
    for (const auto& [member, text] : texts) {
      if (!may_be_expression(list, member))
        fields_.reject(graph::Fields::join(place_, "expressions"), " has '", support::shown(member),
                       "', which is no number of ", place_.empty() ? "a graph" : place_);
      if (constexpr std::string_view memory = "memory."; member.substr(0, memory.size()) == memory)
        to_["memory"][member.substr(memory.size())] = text;
      else
        to_[member] = text;
    }
  }
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
  /// `texts` takes what stands in the place of numbers.
  explicit Read(const Json& from, Graph::Expressions* texts = nullptr) : from_(from), texts_(texts) {}

  void operator()(const char* key, auto& member) const {
    const auto found = from_.find(key);
    if (found == from_.end()) return;
    if constexpr (is_number(std::type_identity<std::remove_cvref_t<decltype(member)>>())) {
      if (texts_ != nullptr && found->is_string()) {
        texts_->emplace(key, found->template get<std::string>());
        return;
      }
    }
    take(*found, member);
  }
  void operator()(const char* key, std::map<std::string, std::int64_t>& bytes) const {
    const auto found = from_.find(key);
    if (found == from_.end()) return;
    for (const auto& [space, each] : found->items()) {
      if (texts_ != nullptr && each.is_string())
        texts_->emplace(cat(key, ".", space), each.template get<std::string>());
      else
        bytes[space] = each.template get<std::int64_t>();
    }
  }

 private:
  template <class T>
  static constexpr bool is_number(std::type_identity<T>) {
    return std::is_arithmetic_v<T> && !std::same_as<T, bool>;
  }
  template <class T>
  static constexpr bool is_number(std::type_identity<std::optional<T>>) {
    return is_number(std::type_identity<T>());
  }

  static void take(const Json& json, std::string& text) { text = text_of(json); }
  static void take(const Json& json, std::vector<std::string>& texts) {
    for (const Json& each : json) texts.push_back(text_of(each));
  }
  template <class T>
    requires Listed<T>
  static void take(const Json& json, std::vector<T>& list) {
    for (const Json& each : json) walk_members(Read(each), list.emplace_back());
  }
  static void take(const Json& json, std::vector<Graph::Parameter>& parameters) {
    for (const auto& [name, value] : json.items()) parameters.push_back({name, text_of(value)});
  }
  static void take(const Json& json, std::vector<Graph::Candidate>& candidates) {
    for (const Json& each : json) {
      Graph::Candidate& candidate = candidates.emplace_back();
      candidate.name = each.at("name").get<std::string>();
      for (const auto& [name, value] : each.at("parameters").items()) candidate.parameters[name] = text_of(value);
    }
  }
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
  Graph::Expressions* const texts_;
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
  write.expressions("instructions", instruction.expressions);
  return json;
}

Graph::Instruction instruction_from(const Json& json) {
  Graph::Instruction instruction;
  const Read read(json, &instruction.expressions);
  walk_members(read, instruction);
  if (const auto table = json.find("rrt"); table != json.end()) {
    read("rrt", instruction.rrt);
    if (table->empty()) instruction.cycles = 0;
    return instruction;
  }
  read("cycles", instruction.cycles);
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
      Write write(fields, place, json.back());
      walk_members(write, each);
      write.expressions(key, each.expressions);
    }
  }
  return json;
}

}  // namespace

Json document_json(const Graph& graph) {
  const graph::Fields fields = fields_of(graph);
  Json json = {{"name", graph.name}, {"machine", machine_json(fields, graph.machine)}};
  Write write(fields, "", json);
  walk_members(write, graph);
  write.expressions("", graph.expressions);
  json["options"] = Json::object();
  walk_members(Write(fields, "options", json["options"]), graph.options);
  if (graph.code) {
    json["code"] = Json::object();
    walk_members(Write(fields, "code", json["code"]), *graph.code);
  }
  json["instructions"] = list_json(fields, "instructions", graph.instructions);
  if (graph.lists_values || !graph.values.empty()) json["values"] = list_json(fields, "values", graph.values);
  json["edges"] = list_json(fields, "edges", graph.edges);
  return json;
}

std::string to_document(const Graph& graph) {
  return document_json(graph).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Graph from_document(const Json& document) {
  Graph graph;
  Read{document}("name", graph.name);
  walk_members(Read(document, &graph.expressions), graph);
  if (const auto options = document.find("options"); options != document.end())
    walk_members(Read(*options), graph.options);
  if (const Json& machine = document.at("machine"); machine.is_string())
    graph.machine.name = machine.get<std::string>();
  else
    walk_members(Read(machine), graph.machine);
  if (const auto code = document.find("code"); code != document.end()) {
    graph.code = Graph::Code();  // clang 14 takes no emplace() of a class within the one that has the member
    walk_members(Read(*code), *graph.code);
  }
  for (const Json& each : document.at("instructions")) graph.instructions.push_back(instruction_from(each));
  if (const auto values = document.find("values"); values != document.end()) {
    graph.lists_values = true;
    for (const Json& each : *values) {
      Graph::Value& value = graph.values.emplace_back();
      walk_members(Read(each, &value.expressions), value);
    }
  }
  if (const auto edges = document.find("edges"); edges != document.end())
    for (const Json& each : *edges) {
      Graph::Edge& edge = graph.edges.emplace_back();
      walk_members(Read(each, &edge.expressions), edge);
    }
  return graph;
}

Graph::Machine read_machine(const Json& json) {
  const Json probe = {{"machine", json}, {"instructions", {{{"name", "none"}, {"cycles", 1}}}}};
  ops::read_graph(probe.dump(-1, ' ', false, Json::error_handler_t::replace), "machine");
  return from_document(probe).machine;
}

Document document_of(const Graph& graph) { return Document(to_document(graph), support::shown(graph.name)); }

graph::Graph read_document(const Graph& graph) { return document_of(graph).form("", "").graph; }

}  // namespace tj
