// Tree -> graph (see json_reader.hpp): every field with its place, type and range; then check() for the graph as a whole.
//
// Unknown keys are refused: a misspelt optional field would otherwise change a schedule in silence.
#include "graph/json_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>

#include "graph/examples.hpp"
#include "graph/json_tree.hpp"
#include "support/fail.hpp"

namespace tj::graph {
namespace {

using support::cat;

constexpr std::size_t kMaxNameBytes = 128;
constexpr std::int64_t kMaxCapacity = 4096;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMaxRegisters = 65536;
constexpr std::size_t kMaxReservations = 4096;  ///< of all nodes: conflicts are looked for between every two
constexpr std::int64_t kMaxSlots = 1024;

/// A value for a message, whatever it is.
std::string value_text(const Json& json) {
  if (json.is_object()) return "an object";
  if (json.is_array()) return cat("an array of ", json.size());
  return shown(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

class Reader {
 public:
  Reader(const Json& tree, std::string subject) : tree_(tree), subject_(std::move(subject)) {}

  Graph read(std::string_view name) {
    graph_.name = name;
    keys(tree_, "the document", {"machine", "instructions", "edges"});
    read_machine(required(tree_, "", "machine"));
    const Json& instructions = list(required(tree_, "", "instructions"), "instructions", kMaxNodes);
    for (std::size_t i = 0; i < instructions.size(); ++i) read_node(instructions[i], cat("instructions[", i, "]"));
    if (const Json* edges = optional(tree_, "edges"))
      for (std::size_t e = 0; e < list(*edges, "edges", kMaxEdges).size(); ++e) read_edge((*edges)[e], cat("edges[", e, "]"));
    make_values();
    check(graph_);
    return std::move(graph_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void reject(const Parts&... parts) const {
    support::fail(Stage::graph, Code::invalid_argument, cat(subject_, ": ", parts...));
  }

  static std::string join(const std::string& place, const std::string& key) { return place.empty() ? key : place + "." + key; }

  // --- values of a type, or a complaint ---
  void keys(const Json& json, const std::string& place, std::initializer_list<const char*> allowed) const {
    if (!json.is_object()) reject(place, " is ", value_text(json), "; it must be an object");
    for (const auto& [key, value] : json.items()) {
      if (std::any_of(allowed.begin(), allowed.end(), [&k = key](const char* each) { return k == each; })) continue;
      std::string known;
      for (const char* each : allowed) known += cat(known.empty() ? "" : ", ", each);
      reject(place, " has the key '", shown(key), "'; allowed are ", known);
    }
  }

  static const Json* optional(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }

  const Json& required(const Json& object, const std::string& place, const char* key) const {
    const Json* found = optional(object, key);
    if (!found) reject(join(place, key), " is missing; give it");
    return *found;
  }

  const Json& list(const Json& json, const std::string& place, std::size_t most) const {
    if (!json.is_array()) reject(place, " is ", value_text(json), "; it must be an array");
    if (json.size() > most) reject(place, " has ", json.size(), " entries; at most ", most, " are allowed");
    return json;
  }

  const Json& object(const Json& json, const std::string& place) const {
    if (!json.is_object()) reject(place, " is ", value_text(json), "; it must be an object");
    return json;
  }

  std::int64_t integer(const Json& json, const std::string& place, std::int64_t low, std::int64_t high) const {
    const bool whole = json.is_number_integer();
    const bool wide = json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(high);
    if (!whole || wide || json.get<std::int64_t>() < low || json.get<std::int64_t>() > high)
      reject(place, " is ", value_text(json), "; it must be a whole number from ", low, " to ", high);
    return json.get<std::int64_t>();
  }

  int number(const Json& json, const std::string& place, std::int64_t low, std::int64_t high) const {
    return static_cast<int>(integer(json, place, low, high));
  }

  bool flag(const Json& node, const std::string& place, const char* key) const {
    const Json* json = optional(node, key);
    if (json && !json->is_boolean()) reject(join(place, key), " is ", value_text(*json), "; it must be true or false");
    return json && json->get<bool>();
  }

  const std::string& text(const Json& json, const std::string& place) const {
    if (!json.is_string()) reject(place, " is ", value_text(json), "; it must be a string");
    return json.get_ref<const std::string&>();
  }

  std::string name(const std::string& given, const std::string& place) const {
    const bool plain = std::none_of(given.begin(), given.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
    if (given.empty() || given.size() > kMaxNameBytes || !plain)
      reject(place, " is '", shown(given), "'; a name has 1 to ", kMaxNameBytes, " bytes and no control characters");
    return given;
  }

  // --- machine ---
  void read_machine(const Json& json) {
    if (json.is_string()) {
      const std::string& known = json.get_ref<const std::string&>();
      if (known != "hopper" && known != "blackwell") reject("machine is '", shown(known), "'; allowed are hopper, blackwell, or an object");
      graph_.machine = known == "hopper" ? normalised_hopper() : normalised_blackwell();
      return;
    }
    if (!json.is_object()) reject("machine is ", value_text(json), "; allowed are \"hopper\", \"blackwell\", or an object");
    keys(json, "machine", {"functional_units", "memory"});
    graph_.machine.name = "custom";
    for (const auto& [unit, capacity] : object(required(json, "machine", "functional_units"), "machine.functional_units").items()) {
      const std::string place = "machine.functional_units." + shown(unit);
      graph_.machine.units.push_back({name(unit, place), number(capacity, place, 1, kMaxCapacity)});
    }
    if (const Json* memory = optional(json, "memory"))
      for (const auto& [space, bytes] : object(*memory, "machine.memory").items()) {
        const std::string place = "machine.memory." + shown(space);
        graph_.machine.memory_bytes[name(space, place)] = integer(bytes, place, 1, kMaxBytes);
      }
    else
      bounded_ = false;
  }

  int unit(const std::string& given, const std::string& place) const {
    const int index = graph_.machine.unit_index(given);
    if (index >= 0) return index;
    std::string known;
    for (const Unit& each : graph_.machine.units) known += cat(known.empty() ? "" : ", ", each.name);
    reject(place, " names the unit '", shown(given), "'; machine '", graph_.machine.name, "' has ", known.empty() ? "none" : shown(known, 300));
  }

  // --- instructions ---
  void read_node(const Json& json, const std::string& place) {
    keys(json, place, {"name", "cycles", "fu", "latency", "rrt", "variable_latency", "streaming", "memory", "registers"});
    Node node;
    node.name = name(text(required(json, place, "name"), place + ".name"), place + ".name");
    node.body = node.name;
    const auto [first, is_new] = index_.emplace(node.name, static_cast<int>(graph_.nodes.size()));
    if (!is_new) reject(place, ".name is '", node.name, "', as is instructions[", first->second, "].name; names must be unique");
    read_use(json, place, node);
    const Json* latency = optional(json, "latency");
    node.latency = latency ? number(*latency, place + ".latency", 0, kMaxTotalCycles) : node.cycles;
    node.variable_latency = flag(json, place, "variable_latency");
    node.streaming = flag(json, place, "streaming");
    if (node.variable_latency) {  // as a copy engine does it: started by one warp, complete by itself
      node.async = Async::copy;
      node.warps = 1;
    }
    if (const Json* memory = optional(json, "memory")) read_memory(*memory, place + ".memory", node);
    if (const Json* registers = optional(json, "registers")) node.registers = number(*registers, place + ".registers", 0, kMaxRegisters);
    graph_.nodes.push_back(std::move(node));
  }

  void read_use(const Json& json, const std::string& place, Node& node) {
    const Json* table = optional(json, "rrt");
    const Json* cycles = table ? optional(json, "cycles") : &required(json, place, "cycles");
    if (cycles) node.cycles = number(*cycles, place + ".cycles", 0, kMaxTotalCycles);
    const Json* fu = optional(json, "fu");
    const int index = fu && !fu->is_null() ? unit(text(*fu, place + ".fu"), place + ".fu") : -1;
    if (table) {
      read_table(*table, place + ".rrt", node);
    } else if (index >= 0) {
      node.reservations = {{index, 0, node.cycles, 1}};
    }
    reservations_ += node.reservations.size();
    if (reservations_ > kMaxReservations)
      reject(place, " brings the reservations of all instructions to ", reservations_, "; at most ", kMaxReservations,
             " are allowed, a run of equal entries of a rrt row counting as one");
  }

  /// Each run of equal entries of a row is one reservation.
  void read_table(const Json& table, const std::string& place, Node& node) {
    node.cycles = 0;
    for (const auto& [key, row] : object(table, place).items()) {
      const std::string where = place + "." + shown(key);
      const int index = unit(key, where);
      const int capacity = graph_.machine.units[static_cast<std::size_t>(index)].capacity;
      const int length = static_cast<int>(list(row, where, static_cast<std::size_t>(kMaxTotalCycles)).size());
      node.cycles = std::max(node.cycles, length);
      int previous = 0;
      for (int c = 0; c < length; ++c) {
        const Json& entry = row[static_cast<std::size_t>(c)];
        const bool plain = entry.is_number_unsigned() && entry.get<std::uint64_t>() <= static_cast<std::uint64_t>(capacity);
        const int count = plain ? entry.get<int>() : number(entry, cat(where, "[", c, "]"), 0, capacity);
        if (count > 0 && count == previous)
          ++node.reservations.back().cycles;
        else if (count > 0)
          node.reservations.push_back({index, c, 1, count});
        previous = count;
      }
    }
  }

  void read_memory(const Json& memory, const std::string& place, Node& node) const {
    for (const auto& [space, bytes] : object(memory, place).items()) {
      const std::string where = place + "." + shown(space);
      const auto found = graph_.machine.memory_bytes.find(space);
      if (bounded_ && found == graph_.machine.memory_bytes.end()) {
        std::string known;
        for (const auto& [each, size] : graph_.machine.memory_bytes) known += cat(known.empty() ? "" : ", ", each);
        reject(where, " is a space that machine '", graph_.machine.name, "' does not have; it has ", known.empty() ? "none" : shown(known, 300));
      }
      node.memory_bytes[name(space, where)] = integer(bytes, where, 0, bounded_ ? found->second : kMaxBytes);
    }
  }

  // --- edges ---
  int end(const Json& edge, const std::string& place, const char* key) const {
    const std::string where = join(place, key);
    const std::string& given = text(required(edge, place, key), where);
    const auto found = index_.find(given);
    if (found == index_.end()) reject(where, " is '", shown(given), "', which no instruction is called");
    return found->second;
  }

  void read_edge(const Json& json, const std::string& place) {
    keys(json, place, {"src", "dst", "delay", "delta", "blocking"});
    Edge edge;
    edge.src = end(json, place, "src");
    edge.dst = end(json, place, "dst");
    edge.delay = number(required(json, place, "delay"), place + ".delay", -kMaxTotalCycles, kMaxTotalCycles);
    if (const Json* delta = optional(json, "delta")) edge.distance = number(*delta, place + ".delta", 0, kMaxDistance);
    edge.blocking = flag(json, place, "blocking");
    graph_.edges.push_back(edge);
  }

  /// What a node holds in shared memory is what it hands on.
  void make_values() {
    std::vector<int> value_of(graph_.nodes.size(), -1);
    const auto capacity = graph_.machine.memory_bytes.find("SMEM");
    for (Edge& edge : graph_.edges) {
      const Node& src = graph_.nodes[static_cast<std::size_t>(edge.src)];
      const auto held = src.memory_bytes.find("SMEM");
      if (edge.src == edge.dst || held == src.memory_bytes.end() || held->second == 0) continue;
      int& index = value_of[static_cast<std::size_t>(edge.src)];
      if (index < 0) {
        index = static_cast<int>(graph_.values.size());
        Value value;
        value.name = src.name;
        value.slot_bytes = held->second;
        value.alignment = 1;
        const std::int64_t fitting = capacity == graph_.machine.memory_bytes.end() ? kMaxSlots : capacity->second / held->second;
        value.max_slots = static_cast<int>(std::clamp<std::int64_t>(fitting, 1, kMaxSlots));
        graph_.values.push_back(std::move(value));
      }
      edge.value = index;
    }
  }

  const Json& tree_;
  std::string subject_;
  Graph graph_;
  bool bounded_ = true;  ///< the machine says which spaces it has
  std::size_t reservations_ = 0;
  std::map<std::string, int> index_;
};

}  // namespace

Graph read_json(std::string_view text, std::string_view name) {
  const std::string subject = cat("graph '", name, "'");
  const Json tree = parse_json(text, subject);
  return Reader(tree, subject).read(name);
}

}  // namespace tj::graph
