// Tree -> graph (see json_reader.hpp): every field with its place, type and range; then check() for the graph as a
// whole.
//
// Unknown keys are refused: a misspelt optional field would otherwise change a schedule in silence.
#include "graph/json_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "graph/code.hpp"
#include "graph/json_code.hpp"
#include "graph/json_fields.hpp"
#include "graph/json_machine.hpp"
#include "graph/json_tree.hpp"
#include "support/text.hpp"

namespace tj::graph {
namespace {

using support::cat;
using support::shown;

constexpr std::size_t kMaxReservations = 4096;  ///< of all nodes: conflicts are looked for between every two
constexpr std::int64_t kMaxCopies = 64;
constexpr std::int64_t kMaxWarps = 32;
constexpr std::int64_t kMaxLeastSmem = std::int64_t{1} << 30;
constexpr int kMaxSlices = 16;

class Reader {
 public:
  Reader(const Json& tree, const std::string& subject, const std::vector<Machine>& machines, const MachineFinder& find)
      : tree_(tree), fields_(subject), machines_(machines), find_(find) {}

  Graph read(std::string_view name) {
    fields_.keys(tree_, "the document",
                 {"name", "machine", "instructions", "edges", "values", "code", "cluster", "pairs", "blocks_per_sm",
                  "walk", "grids", "ranges", "piece_bytes", "slices", "most_iterations", "least_smem_bytes",
                  "flops_per_iteration", "overhead_cycles",
                  // These keys stand beside a graph. custom/document.cpp reads them and leaves them out here.
                  "options", "targets", "parameters", "candidates", "trials", "typical_iterations", "useful_flops"});
    const Json* own_name = Fields::optional(tree_, "name");
    graph_.name = own_name ? fields_.name(fields_.text(*own_name, "name"), "name") : std::string(name);
    graph_.blocks_per_sm = fields_.number_or(tree_, "", "blocks_per_sm", 1, 1, kMaxBlocksPerSm);
    ReadMachine machine =
        read_machine(fields_, fields_.required(tree_, "", "machine"), machines_, find_, graph_.blocks_per_sm);
    graph_.machine = std::move(machine.machine);
    bounded_ = machine.bounded;
    if (const Json* cluster = Fields::optional(tree_, "cluster"))
      graph_.cluster = fields_.number(*cluster, "cluster", 1, graph_.machine.max_cluster);
    graph_.pairs = fields_.flag(tree_, "", "pairs", false);
    read_launch();
    const Json& instructions = fields_.list(fields_.required(tree_, "", "instructions"), "instructions", kMaxNodes);
    for (std::size_t i = 0; i < instructions.size(); ++i) read_node(instructions[i], cat("instructions[", i, "]"));
    if (const Json* code = Fields::optional(tree_, "code")) {
      read_code(fields_, *code, graph_);
      has_code_ = true;
    }
    if (const Json* values = Fields::optional(tree_, "values")) {
      values_ = read_values(fields_, *values, graph_);
      has_values_ = true;
    }
    if (const Json* edges = Fields::optional(tree_, "edges"))
      for (std::size_t e = 0; e < fields_.list(*edges, "edges", kMaxEdges).size(); ++e)
        read_edge((*edges)[e], cat("edges[", e, "]"));
    if (!has_values_) imply_values();
    tie_registers();
    check(graph_);
    if (has_code_) check_code(graph_);
    return std::move(graph_);
  }

 private:
  int unit(const std::string& given, const std::string& place) const {
    const int index = graph_.machine.unit_index(given);
    if (index >= 0) return index;
    std::string known;
    for (const Unit& each : graph_.machine.units) known += cat(known.empty() ? "" : ", ", each.name);
    fields_.reject(place, " names the unit '", shown(given), "'; machine '", graph_.machine.name, "' has ",
                   known.empty() ? "none" : shown(known, 300));
  }

  /// The launch, and what predictions know of a tile.
  void read_launch() {
    graph_.walk = static_cast<Walk>(fields_.word(
        tree_, "", "walk", {"one_tile", "persistent", "dynamic", "split", "sliced"}, static_cast<int>(graph_.walk)));
    graph_.grids = static_cast<Grids>(
        fields_.word(tree_, "", "grids", {"ordered", "opens", "joins"}, static_cast<int>(graph_.grids)));
    graph_.ranges =
        static_cast<Ranges>(fields_.word(tree_, "", "ranges", {"peeled", "guarded"}, static_cast<int>(graph_.ranges)));
    if (const Json* bytes = Fields::optional(tree_, "piece_bytes"))
      graph_.piece_bytes = fields_.integer(*bytes, "piece_bytes", 0, kMaxPieceBytes);
    graph_.slices = fields_.number_or(tree_, "", "slices", 0, 0, kMaxSlices);
    graph_.most_iterations = fields_.number_or(tree_, "", "most_iterations", 0, 0, kMaxTotalCycles);
    if (const Json* least = Fields::optional(tree_, "least_smem_bytes"))
      graph_.least_smem_bytes = fields_.integer(*least, "least_smem_bytes", 0, kMaxLeastSmem);
    graph_.flops_per_iteration = fields_.real_or(tree_, "", "flops_per_iteration", 0);
    graph_.overhead_cycles = fields_.real_or(tree_, "", "overhead_cycles", 0);
  }

  // --- instructions ---
  void read_node(const Json& json, const std::string& place) {
    fields_.keys(json, place,
                 {"name",
                  "cycles",
                  "fu",
                  "latency",
                  "rrt",
                  "issue_cycles",
                  "variable_latency",
                  "streaming",
                  "memory",
                  "registers",
                  "body",
                  "context",
                  "copy",
                  "scope",
                  "async",
                  "drains",
                  "warps",
                  "warp_cycles",
                  "merges",
                  "cache_hint",
                  "variant",
                  "variant_begin",
                  "variant_end",
                  "max_variant_begin"});
    Node node;
    node.name = fields_.name(fields_.text(fields_.required(json, place, "name"), place + ".name"), place + ".name");
    const auto [first, is_new] = index_.emplace(node.name, static_cast<int>(graph_.nodes.size()));
    if (!is_new)
      fields_.reject(place, ".name is '", node.name, "', as is instructions[", first->second,
                     "].name; names must be unique");
    read_use(json, place, node);
    node.latency = fields_.number_or(json, place, "latency", node.cycles, 0, kMaxTotalCycles);
    node.cycles = fields_.number_or(json, place, "issue_cycles", node.cycles, 0, kMaxTotalCycles);
    node.variable_latency = fields_.flag(json, place, "variable_latency");
    node.streaming = fields_.flag(json, place, "streaming");
    if (const Json* memory = Fields::optional(json, "memory")) read_memory(*memory, place + ".memory", node);
    node.registers = fields_.number_or(json, place, "registers", 0, 0, kMaxRegisterCount);
    read_execution(json, place, node);
    graph_.nodes.push_back(std::move(node));
  }

  /// The role that runs the node, and the functions that the unit calls.
  void read_execution(const Json& json, const std::string& place, Node& node) const {
    const auto name = [&](const char* key, const std::string& otherwise) {
      const Json* given = Fields::optional(json, key);
      return given ? fields_.name(fields_.text(*given, place + "." + key), place + "." + key) : otherwise;
    };
    node.body = name("body", node.name);
    node.context = name("context", "");
    node.copy = fields_.number_or(json, place, "copy", 0, 0, kMaxCopies - 1);
    node.scope = static_cast<Scope>(fields_.word(json, place, "scope", {"tile_begin", "iteration", "tile_end"},
                                                 static_cast<int>(Scope::iteration)));
    // A node that completes by itself does so like a copy engine: one warp starts it.
    const Async usual = node.variable_latency ? Async::copy : Async::none;
    node.async = static_cast<Async>(fields_.word(
        json, place, "async", {"none", "copy", "matrix", "store", "threads", "unit"}, static_cast<int>(usual)));
    node.warps = fields_.number_or(json, place, "warps", issued_by_one(node.async) ? 1 : Node().warps, 1, kMaxWarps);
    node.warp_cycles = fields_.number_or(json, place, "warp_cycles", 0, 0, kMaxTotalCycles);
    node.cache_hint =
        static_cast<CacheHint>(fields_.word(json, place, "cache_hint", {"none", "evict_first", "evict_last"}, 0));
    node.drains = fields_.flag(json, place, "drains");
    node.merges = fields_.flag(json, place, "merges");
    Range& range = node.range;
    range.variant = name("variant", "");
    range.begin = name("variant_begin", "");
    range.end = name("variant_end", "");
    range.max_begin = fields_.number_or(json, place, "max_variant_begin", range.max_begin, 0, range.max_begin);
  }

  void read_use(const Json& json, const std::string& place, Node& node) {
    const Json* table = Fields::optional(json, "rrt");
    const Json* cycles = table ? Fields::optional(json, "cycles") : &fields_.required(json, place, "cycles");
    if (cycles) node.cycles = fields_.number(*cycles, place + ".cycles", 0, kMaxTotalCycles);
    const Json* fu = Fields::optional(json, "fu");
    const int index = fu && !fu->is_null() ? unit(fields_.text(*fu, place + ".fu"), place + ".fu") : -1;
    if (table) {
      read_table(*table, place + ".rrt", node);
    } else if (index >= 0) {
      node.reservations = {{index, 0, node.cycles, 1}};
    }
    reservations_ += node.reservations.size();
    if (reservations_ > kMaxReservations)
      fields_.reject(place, " brings the reservations of all instructions to ", reservations_, "; at most ",
                     kMaxReservations, " are allowed, a run of equal entries of a rrt row counting as one");
  }

  /// Each run of equal entries of a row is one reservation.
  void read_table(const Json& table, const std::string& place, Node& node) {
    node.cycles = 0;
    for (const auto& [key, row] : fields_.object(table, place).items()) {
      const std::string where = place + "." + shown(key);
      const int index = unit(key, where);
      const int capacity = graph_.machine.units[static_cast<std::size_t>(index)].capacity;
      const int length = static_cast<int>(fields_.list(row, where, static_cast<std::size_t>(kMaxTotalCycles)).size());
      node.cycles = std::max(node.cycles, length);
      int previous = 0;
      for (int c = 0; c < length; ++c) {
        const Json& entry = row[static_cast<std::size_t>(c)];
        const bool plain =
            entry.is_number_unsigned() && entry.get<std::uint64_t>() <= static_cast<std::uint64_t>(capacity);
        const int count = plain ? entry.get<int>() : fields_.number(entry, cat(where, "[", c, "]"), 0, capacity);
        if (count > 0 && count == previous)
          ++node.reservations.back().cycles;
        else if (count > 0)
          node.reservations.push_back({index, c, 1, count});
        previous = count;
      }
    }
  }

  void read_memory(const Json& memory, const std::string& place, Node& node) const {
    for (const auto& [space, bytes] : fields_.object(memory, place).items()) {
      const std::string where = place + "." + shown(space);
      const auto found = graph_.machine.memory_bytes.find(space);
      if (bounded_ && found == graph_.machine.memory_bytes.end()) {
        std::string known;
        for (const auto& [each, size] : graph_.machine.memory_bytes) known += cat(known.empty() ? "" : ", ", each);
        fields_.reject(where, " is a space that machine '", graph_.machine.name, "' does not have; it has ",
                       known.empty() ? "none" : shown(known, 300));
      }
      node.memory_bytes[fields_.name(space, where)] =
          fields_.integer(bytes, where, 0, bounded_ ? found->second : kMaxSpaceBytes);
    }
  }

  // --- edges ---
  int end(const Json& edge, const std::string& place, const char* key) const {
    const std::string where = Fields::join(place, key);
    const std::string& given = fields_.text(fields_.required(edge, place, key), where);
    const auto found = index_.find(given);
    if (found == index_.end()) fields_.reject(where, " is '", shown(given), "', which no instruction is called");
    return found->second;
  }

  void read_edge(const Json& json, const std::string& place) {
    fields_.keys(json, place,
                 {"src", "dst", "delay", "delta", "blocking", "value", "spill_cycles", "same_role", "updates"});
    Edge edge;
    edge.src = end(json, place, "src");
    edge.dst = end(json, place, "dst");
    edge.delay =
        fields_.number(fields_.required(json, place, "delay"), place + ".delay", -kMaxTotalCycles, kMaxTotalCycles);
    edge.distance = fields_.number_or(json, place, "delta", 0, 0, kMaxDistance);
    edge.blocking = fields_.flag(json, place, "blocking");
    if (const Json* value = Fields::optional(json, "value")) {
      const std::string& given = fields_.text(*value, place + ".value");
      const auto found = values_.find(given);
      if (found == values_.end())
        fields_.reject(
            place, ".value is '", shown(given), "', ",
            has_values_ ? "which no entry of values is called" : "but the document has no values; list them");
      edge.value = found->second;
    }
    edge.spill_cycles = fields_.number_or(json, place, "spill_cycles", 0, 0, kMaxTotalCycles);
    edge.updates = fields_.flag(json, place, "updates");
    const Json* same_role = Fields::optional(json, "same_role");
    edge.same_role = fields_.flag(json, place, "same_role");
    untold_.push_back(same_role == nullptr);
    graph_.edges.push_back(edge);
  }

  void imply_values() {
    ImpliedValues implied = implied_values(graph_);
    graph_.values = std::move(implied.values);
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) graph_.edges[e].value = implied.of_edge[e];
  }

  /// Registers flow along an edge without a value where there is code: they do not leave their role.
  void tie_registers() {
    for (std::size_t e = 0; has_code_ && e < graph_.edges.size(); ++e)
      if (untold_[e]) graph_.edges[e].same_role = graph_.edges[e].value < 0;
  }

  const Json& tree_;
  const Fields fields_;
  const std::vector<Machine>& machines_;
  const MachineFinder& find_;
  Graph graph_;
  bool bounded_ = true;  ///< the machine says which spaces it has
  bool has_code_ = false, has_values_ = false;
  std::size_t reservations_ = 0;
  std::map<std::string, int> index_, values_;
  std::vector<bool> untold_;  ///< edges that do not say whether they stay in a role
};

constexpr std::size_t kLongestName = 128;  ///< a longer one is refused (Fields::name)

}  // namespace

Graph read_json(std::string_view text, std::string_view name, const std::vector<Machine>& machines,
                const MachineFinder& find) {
  const Json tree = parse_json(text, cat("graph '", name, "'"));
  const Json* own = tree.is_object() ? Fields::optional(tree, "name") : nullptr;
  const std::string own_name = own != nullptr && own->is_string() ? own->get_ref<const std::string&>() : "";
  const bool named = !own_name.empty() && own_name.size() <= kLongestName;
  const std::string subject = cat("graph '", named ? support::shown(own_name) : name, "'");
  return Reader(tree, subject, machines, find).read(name);
}

}  // namespace tj::graph
