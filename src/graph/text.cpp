// A readable listing of a graph: machine, nodes, edges, values. Decides nothing; the same graph gives the same bytes.

#include <algorithm>

#include "graph/graph.hpp"
#include "support/fail.hpp"
#include "support/text_stream.hpp"

namespace tj::graph {
namespace {

const char* scope_text(Scope scope) {
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

const char* async_text(Async async) {
  switch (async) {
    case Async::copy:
      return " async-copy";
    case Async::matrix:
      return " async-matrix";
    case Async::store:
      return " async-store";
    case Async::threads:
      return " async-threads";
    case Async::unit:
      return " async-unit";
    case Async::none:
      break;
  }
  return "";
}

std::string name_or_index(const Graph& graph, int node) {
  if (node >= 0 && node < static_cast<int>(graph.nodes.size())) return graph.nodes[static_cast<std::size_t>(node)].name;
  return "#" + std::to_string(node);
}

void node_line(std::ostream& out, const Machine& machine, const Node& node) {
  out << "node " << node.name << ": " << scope_text(node.scope) << ", cycles " << node.cycles << ", latency "
      << node.latency;
  for (const Reservation& use : node.reservations) {
    const bool known = use.unit >= 0 && use.unit < static_cast<int>(machine.units.size());
    out << ", " << (known ? machine.units[static_cast<std::size_t>(use.unit)].name : "#" + std::to_string(use.unit))
        << " [" << use.start << ", " << use.start + use.cycles << ")";
    if (use.count != 1) out << " x" << use.count;
  }
  out << async_text(node.async) << (node.variable_latency ? " variable-latency" : "")
      << (node.streaming ? " streaming" : "");
  for (const auto& [space, bytes] : node.memory_bytes) out << ", " << space << " " << bytes << " bytes";
  if (node.range) out << ", " << to_text(node.range);
  out << "\n";
}

}  // namespace

const char* name_of(Grids grids) {
  switch (grids) {
    case Grids::ordered:
      return "ordered";
    case Grids::opens:
      return "opens";
    case Grids::joins:
      return "joins";
  }
  return "?";
}

const char* name_of(Walk walk) {
  switch (walk) {
    case Walk::one_tile:
      return "one_tile";
    case Walk::persistent:
      return "persistent";
    case Walk::dynamic:
      return "dynamic";
    case Walk::split:
      return "split";
    case Walk::sliced:
      return "sliced";
  }
  return "";
}

const char* name_of(Ranges ranges) { return ranges == Ranges::peeled ? "peeled" : "guarded"; }

std::string to_text(const Range& range) {
  std::string text = range.variant;
  if (!range.begin.empty()) text += support::cat(text.empty() ? "" : " ", "from ", range.begin);
  if (!range.end.empty()) text += support::cat(text.empty() ? "" : " ", "until ", range.end);
  return text;
}
bool has_ranges(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return bool(node.range); });
}

std::string to_text(const Graph& graph) {
  support::TextStream out;
  out << "graph " << graph.name << " on " << graph.machine.name;
  if (graph.cluster > 1) out << ", clusters of " << graph.cluster << " blocks";
  if (graph.pairs) out << ", products of pairs of blocks";
  if (graph.blocks_per_sm > 1) out << ", " << graph.blocks_per_sm << " blocks an SM";
  out << "\n";
  for (const Unit& unit : graph.machine.units) out << "unit " << unit.name << ": capacity " << unit.capacity << "\n";
  if (has_ranges(graph)) out << "ranges " << name_of(graph.ranges) << "\n";
  if (!graph.machine.shared_barriers) out << "no barriers in shared memory\n";
  for (const auto& [space, bytes] : graph.machine.memory_bytes)
    out << "memory " << space << ": " << bytes << " bytes\n";
  for (const Node& node : graph.nodes) node_line(out, graph.machine, node);
  for (const Edge& edge : graph.edges) {
    out << "edge " << name_or_index(graph, edge.src) << " -> " << name_or_index(graph, edge.dst) << ": delay "
        << edge.delay << ", distance " << edge.distance << (edge.blocking ? " blocking" : "")
        << (edge.same_role ? " same-role" : "");
    if (edge.value >= 0 && edge.value < static_cast<int>(graph.values.size()))
      out << " value " << graph.values[static_cast<std::size_t>(edge.value)].name;
    if (edge.updates) out << " updates";
    if (edge.spill_cycles != 0) out << " spill " << edge.spill_cycles;
    out << "\n";
  }
  for (const Value& value : graph.values) {
    out << "value " << value.name << ": " << value.slot_bytes << " bytes a slot, " << value.min_slots << " to "
        << value.max_slots << " slots, " << scope_text(value.scope);
    if (value.space == Space::tensor) out << ", in tensor memory";
    if (value.within_warp) out << ", within a warp";
    if (value.lies_in >= 0 && value.lies_in < static_cast<int>(graph.values.size()))
      out << ", in the place of " << graph.values[static_cast<std::size_t>(value.lies_in)].name;
    if (value.shared_by > 1) out << ", shared by " << value.shared_by << " blocks " << value.shared_stride << " apart";
    out << "\n";
  }
  return out.str();
}

}  // namespace tj::graph
