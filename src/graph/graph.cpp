// Look-ups and the check of a graph's invariant (see graph.hpp).
//
// Decides what a legal graph is, within the limits of graph.hpp. Does not decide whether a schedule exists.
#include "graph/graph.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <set>

#include "graph/cycles.hpp"
#include "graph/lifetimes.hpp"
#include "support/fail.hpp"

namespace tj::graph {
namespace {

template <class... Parts>
[[noreturn]] void reject(const Graph& graph, const Parts&... parts) {
  support::fail(Stage::graph, Code::invalid_argument, support::cat("graph '", graph.name, "': ", parts...));
}

void check_machine(const Graph& graph) {
  std::set<std::string> names;
  for (const Unit& unit : graph.machine.units) {
    if (unit.name.empty()) reject(graph, "a unit of machine '", graph.machine.name, "' has no name; give it one");
    if (!names.insert(unit.name).second)
      reject(graph, "unit '", unit.name, "' is given twice; unit names must be unique");
    if (unit.capacity < 1)
      reject(graph, "unit '", unit.name, "' has capacity ", unit.capacity, "; it must be at least 1");
  }
  for (const auto& [space, bytes] : graph.machine.memory_bytes)
    if (bytes < 0) reject(graph, "memory '", space, "' has ", bytes, " bytes; it must not be negative");
}

void check_cluster(const Graph& graph) {
  const int most = graph.machine.max_cluster;
  if (most < 1)
    reject(graph, "machine '", graph.machine.name, "' has clusters of at most ", most,
           " blocks; it must be at least 1");
  if (graph.cluster < 1 || graph.cluster > most)
    reject(graph, "runs in clusters of ", graph.cluster, " blocks; allowed on machine '", graph.machine.name,
           "' are 1 to ", most);
  if (graph.pairs && (graph.cluster % 2 != 0 || graph.machine.memory_bytes.count("TMEM") == 0))
    reject(graph, "multiplies in pairs of blocks and runs in clusters of ", graph.cluster, " on machine '",
           graph.machine.name, "', which has ", graph.machine.memory_bytes.count("TMEM") == 0 ? "no " : "",
           "tensor memory (\"TMEM\"); pairs need a cluster of 2, 4, ... blocks and tensor memory");
  if (graph.pairs &&
      std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.async == Async::unit; }))
    reject(graph,
           "multiplies in pairs of blocks, but no node of it is a product in tensor memory (async unit); allowed is no "
           "\"pairs\", or such a node");
}

void check_launch(const Graph& graph) {
  if (graph.grids == Grids::joins && graph.draws())
    reject(graph, "has grids 'joins' and the walk '", name_of(graph.walk),
           "', whose counters the grid beside it may use; allowed is a walk that draws nothing");
  if (graph.most_iterations < 0)
    reject(graph, "has at most ", graph.most_iterations, " iterations a tile; allowed are 0 (any number) and more");
  if (graph.blocks_per_sm < 1 || graph.blocks_per_sm > kMaxBlocksPerSm)
    reject(graph, "runs ", graph.blocks_per_sm, " blocks an SM; allowed are 1 to ", kMaxBlocksPerSm);
  if (graph.piece_bytes < 0 || graph.piece_bytes > kMaxPieceBytes || graph.piece_bytes % kPieceAlignment != 0)
    reject(graph, "has ", graph.piece_bytes, " bytes a piece; allowed are multiples of ", kPieceAlignment, " up to ",
           kMaxPieceBytes);
  const bool merges = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.merges; });
  if (graph.cuts() && (!merges || graph.piece_bytes == 0))
    reject(graph, "has the walk '", name_of(graph.walk), "' and ", merges ? "0 bytes a piece" : "no node that merges",
           "; give it both: a node of the tile's end that adds the sums of pieces, and the bytes that a block leaves");
}

/// Blocks share what blocks of other tiles need in the same iterations: those of the same slice.
void check_slices(const Graph& graph) {
  if (graph.walk != Walk::sliced) {
    if (graph.slices != 0)
      reject(graph, "has ", graph.slices, " slices and the walk '", name_of(graph.walk),
             "'; allowed is 0 where the walk is not 'sliced'");
    return;
  }
  if (graph.cluster < 2 || graph.pairs || !graph.machine.shared_barriers)
    reject(graph, "has the walk 'sliced' and runs in ", graph.pairs ? "pairs of blocks, " : "", "clusters of ",
           graph.cluster, " blocks on machine '", graph.machine.name, "', which has ",
           graph.machine.shared_barriers ? "" : "no ",
           "barriers in shared memory; slices need clusters of 2 blocks or more, barriers there, and no pairs");
  if (graph.slices != 0 && (graph.slices < 2 || graph.cluster % graph.slices != 0))
    reject(graph, "has ", graph.slices, " slices; allowed are 0 (as many as a cluster has blocks) and divisors of ",
           graph.cluster, " from 2 on");
  const int tiles = graph.cluster / graph.slice_count();
  for (const Value& value : graph.values)
    if (value.shared_by > 1 && tiles % (value.shared_by * value.shared_stride) != 0)
      reject(graph, "value '", value.name, "' is shared by ", value.shared_by, " blocks whose ranks are ",
             value.shared_stride,
             " apart; allowed where the walk is 'sliced' are 1 block, or those whose product divides ", tiles,
             ", the tiles of a cluster: blocks of other ranks have other iterations");
}

/// Every block belongs to one set of sharers, and all sets are alike.
void check_sharing(const Graph& graph, const Value& value) {
  if (value.shared_by < 1 || value.shared_by > graph.cluster)
    reject(graph, "value '", value.name, "' is shared by ", value.shared_by, " blocks; allowed are 1 to ",
           graph.cluster, ", those of a cluster");
  if (value.shared_stride < 1 || (value.shared_by == 1 && value.shared_stride != 1) ||
      value.shared_stride > graph.cluster / value.shared_by ||
      graph.cluster % (value.shared_by * value.shared_stride) != 0)
    reject(graph, "value '", value.name, "' is shared by ", value.shared_by, " blocks whose ranks are ",
           value.shared_stride, " apart; allowed is 1, or a distance whose product with ", value.shared_by, " divides ",
           graph.cluster, ", the blocks of a cluster");
}

void check_node(const Graph& graph, const Node& node) {
  if (node.cycles < 0) reject(graph, "node '", node.name, "' has cycles ", node.cycles, "; it must be at least 0");
  if (node.latency < 0) reject(graph, "node '", node.name, "' has latency ", node.latency, "; it must be at least 0");
  if (node.warps < 1) reject(graph, "node '", node.name, "' has ", node.warps, " warps; it must be at least 1");
  if (node.registers < 0)
    reject(graph, "node '", node.name, "' has ", node.registers, " registers; it must be at least 0");
  for (const auto& [space, bytes] : node.memory_bytes)
    if (bytes < 0)
      reject(graph, "node '", node.name, "' takes ", bytes, " bytes of '", space, "'; it must not be negative");
  for (const Reservation& use : node.reservations) {
    if (use.unit < 0 || use.unit >= static_cast<int>(graph.machine.units.size()))
      reject(graph, "node '", node.name, "' reserves unit ", use.unit, "; machine '", graph.machine.name,
             "' has units 0 to ", static_cast<int>(graph.machine.units.size()) - 1);
    const Unit& unit = graph.machine.units[static_cast<std::size_t>(use.unit)];
    if (use.start < 0 || use.cycles < 0)
      reject(graph, "node '", node.name, "' reserves '", unit.name, "' from cycle ", use.start, " for ", use.cycles,
             " cycles; both must be at least 0");
    if (use.count < 1 || use.count > unit.capacity)
      reject(graph, "node '", node.name, "' reserves ", use.count, " of '", unit.name, "'; allowed are 1 to ",
             unit.capacity);
  }
}

/// A node alone must not ask for more of a unit than there is: no II would help.
void check_own_use(const Graph& graph, const Node& node) {
  for (const Reservation& first : node.reservations) {
    if (first.cycles == 0) continue;
    int held = 0;
    for (const Reservation& other : node.reservations)
      if (other.unit == first.unit && other.start <= first.start && first.start < other.start + other.cycles)
        held += other.count;
    const Unit& unit = graph.machine.units[static_cast<std::size_t>(first.unit)];
    if (held > unit.capacity)
      reject(graph, "node '", node.name, "' holds ", held, " of '", unit.name, "' in its cycle ", first.start,
             "; there are ", unit.capacity);
  }
}

void check_range(const Graph& graph, const Node& node) {
  const Range& range = node.range;
  const bool bounded = !range.begin.empty() || !range.end.empty(), limited = range.max_begin != Range().max_begin;
  if (!range) {
    if (bounded || limited)
      reject(graph, "node '", node.name, "' has the range of a variant (",
             bounded ? to_text(range) : support::cat("max_variant_begin ", range.max_begin),
             ") and no variant; name it, such as Fast");
    return;
  }
  if (node.scope != Scope::iteration)
    reject(graph, "node '", node.name, "' has the variant '", range.variant,
           "' and runs once a tile; allowed are nodes of the loop");
  if (range.variant == kGeneralVariant)
    reject(graph, "node '", node.name, "' has the variant '", range.variant,
           "', the name of the body for all iterations; give it another, such as Fast");
  if (!bounded)
    reject(graph, "node '", node.name, "' has the variant '", range.variant,
           "' and no range; give variant_begin, variant_end or both");
  if (range.max_begin < 0 || (limited && range.begin.empty()))
    reject(graph, "node '", node.name, "' has max_variant_begin ", range.max_begin,
           range.begin.empty() ? " and no variant_begin; give both" : "; allowed are 0 and more");
}

void check_nodes(const Graph& graph) {
  if (graph.nodes.empty()) reject(graph, "has no nodes; give at least one");
  if (graph.nodes.size() > kMaxNodes)
    reject(graph, "has ", graph.nodes.size(), " nodes; at most ", kMaxNodes, " are allowed");
  std::set<std::string> names;
  for (const Node& node : graph.nodes) {
    if (node.name.empty()) reject(graph, "a node has no name; give every node one");
    if (!names.insert(node.name).second)
      reject(graph, "node '", node.name, "' is given twice; node names must be unique");
    check_node(graph, node);
    if (node.drains && node.scope != Scope::tile_end)
      reject(graph, "node '", node.name, "' drains shared memory in the loop; allowed is the tile's end");
    if (node.merges && (node.scope != Scope::tile_end || node.async != Async::none))
      reject(graph, "node '", node.name,
             "' merges sums; allowed are nodes of the tile's end that are done when their call returns");
    if (node.async == Async::store && node.scope == Scope::tile_begin)
      reject(graph, "node '", node.name,
             "' stores out of shared memory at the tile's begin; allowed are the loop and the tile's end");
    if (node.cache_hint != CacheHint::none && node.async != Async::copy)
      reject(graph, "node '", node.name, "' has a cache_hint and is no bulk copy; allowed with async 'copy' alone");
    check_range(graph, node);
    check_own_use(graph, node);
  }
}

std::string edge_text(const Graph& graph, const Edge& edge) {
  return support::cat("'", graph.nodes[static_cast<std::size_t>(edge.src)].name, "' -> '",
                      graph.nodes[static_cast<std::size_t>(edge.dst)].name, "'");
}

void check_edges(const Graph& graph) {
  if (graph.edges.size() > kMaxEdges)
    reject(graph, "has ", graph.edges.size(), " edges; at most ", kMaxEdges, " are allowed");
  const int nodes = static_cast<int>(graph.nodes.size());
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const Edge& edge = graph.edges[e];
    if (edge.src < 0 || edge.src >= nodes || edge.dst < 0 || edge.dst >= nodes)
      reject(graph, "edge ", e, " joins nodes ", edge.src, " and ", edge.dst, "; nodes are 0 to ", nodes - 1);
    if (edge.distance < 0 || edge.distance > kMaxDistance)
      reject(graph, "edge ", edge_text(graph, edge), " has distance ", edge.distance, "; allowed are 0 to ",
             kMaxDistance);
    if (edge.spill_cycles < 0)
      reject(graph, "edge ", edge_text(graph, edge), " has spill cost ", edge.spill_cycles, "; it must be at least 0");
    if (edge.value < -1 || edge.value >= static_cast<int>(graph.values.size()))
      reject(graph, "edge ", edge_text(graph, edge), " carries value ", edge.value, "; values are 0 to ",
             static_cast<int>(graph.values.size()) - 1, ", or -1");
    const Scope from = graph.nodes[static_cast<std::size_t>(edge.src)].scope;
    const Scope to = graph.nodes[static_cast<std::size_t>(edge.dst)].scope;
    if (from > to)
      reject(graph, "edge ", edge_text(graph, edge), " goes back to an earlier scope of the tile; turn it round");
    if (edge.updates && edge.value < 0)
      reject(graph, "edge ", edge_text(graph, edge), " updates a value and carries none; name the value");
    if (edge.distance > 0 && (from != Scope::iteration || to != Scope::iteration))
      reject(graph, "edge ", edge_text(graph, edge), " has distance ", edge.distance,
             "; only edges between iteration nodes may");
  }
}

void check_values(const Graph& graph) {
  std::set<std::string> names;
  for (const Value& value : graph.values) {
    if (value.name.empty()) reject(graph, "a value has no name; give every value one");
    if (!names.insert(value.name).second)
      reject(graph, "value '", value.name, "' is given twice; value names must be unique");
    if (value.slot_bytes < 0)
      reject(graph, "value '", value.name, "' has ", value.slot_bytes, " bytes; it must not be negative");
    if (value.copied_bytes < 0 || value.copied_bytes > value.slot_bytes)
      reject(graph, "value '", value.name, "' has ", value.copied_bytes, " copied bytes; allowed are 0 (all) to ",
             value.slot_bytes, ", those of a slot");
    check_sharing(graph, value);
    if (value.space == Space::tensor && (value.slot_bytes == 0 || value.slot_bytes % kTensorColumnBytes != 0 ||
                                         value.copied_bytes != 0 || value.shared_by != 1))
      reject(graph, "value '", value.name, "' is in tensor memory and has ", value.slot_bytes,
             " bytes a slot, of which ", value.copied_bytes, " are copied, shared by ", value.shared_by,
             " blocks; allowed are multiples of ", kTensorColumnBytes, " bytes, no copies and one block");
    if (value.alignment < 1 || (value.alignment & (value.alignment - 1)) != 0)
      reject(graph, "value '", value.name, "' has alignment ", value.alignment, "; it must be a power of two");
    if (value.min_slots < 1 || value.max_slots < value.min_slots)
      reject(graph, "value '", value.name, "' allows ", value.min_slots, " to ", value.max_slots,
             " slots; it must allow at least 1, and no fewer than its minimum");
  }
}

void check_total(const Graph& graph) {
  std::int64_t total = 0;
  for (const Node& node : graph.nodes) {
    total += std::int64_t{node.latency} + node.cycles;
    for (const Reservation& use : node.reservations) total += std::int64_t{use.start} + use.cycles;
  }
  for (const Edge& edge : graph.edges) total += std::llabs(edge.delay) + edge.spill_cycles;
  if (total > kMaxTotalCycles)
    reject(graph, "delays, latencies and reservations sum to ", total, " cycles; at most ", kMaxTotalCycles,
           " are allowed: use a coarser unit of time");
}

void check_cycles(const Graph& graph) {
  std::vector<Edge> same_iteration;
  for (const Edge& edge : graph.edges)
    if (edge.distance == 0) same_iteration.push_back(edge);
  for (const Edge& edge : place_edges(graph))
    if (edge.distance == 0) same_iteration.push_back(edge);
  const std::vector<int> cycle = positive_cycle(static_cast<int>(graph.nodes.size()), same_iteration, 0);
  if (cycle.empty()) return;
  std::string path;
  std::int64_t delay = 0;
  for (const int e : cycle) {
    const Edge& edge = same_iteration[static_cast<std::size_t>(e)];
    path += support::cat("'", graph.nodes[static_cast<std::size_t>(edge.src)].name, "' -> ");
    delay += edge.delay;
  }
  path += support::cat(
      "'", graph.nodes[static_cast<std::size_t>(same_iteration[static_cast<std::size_t>(cycle[0])].src)].name, "'");
  reject(graph, "cycle ", path, " has distance 0 and delay ", delay,
         ", so its nodes wait for each other; give one of its edges a distance");
}

}  // namespace

int Machine::unit_index(std::string_view unit) const {
  for (std::size_t i = 0; i < units.size(); ++i)
    if (units[i].name == unit) return static_cast<int>(i);
  return -1;
}

int Graph::node_index(std::string_view node) const {
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].name == node) return static_cast<int>(i);
  return -1;
}

Machine share_of(const Machine& machine, int blocks_per_sm) {
  constexpr std::int64_t kSmemStep = 128;  // steps in which an SM gives it out
  Machine share = machine;
  if (blocks_per_sm <= 1) return share;
  share.registers = machine.registers / blocks_per_sm;
  for (auto& [space, bytes] : share.memory_bytes) {
    if (space != "SMEM") {
      bytes /= blocks_per_sm;
      continue;
    }
    const std::int64_t all = std::max(bytes, machine.smem_per_sm_bytes);
    bytes = std::min(
        bytes, std::max<std::int64_t>(0, all / blocks_per_sm - machine.smem_reserved_bytes) / kSmemStep * kSmemStep);
  }
  return share;
}

std::int64_t walk_bytes(const Graph& graph) {
  constexpr int kBarriers = 16;  // a full one and an empty one for each slot
  constexpr int kMisplaced = 8;  // what lies before the sums of slices, which begin at a multiple of 16
  if (graph.walk == Walk::sliced) return kMisplaced + (graph.slice_count() - 1) * graph.piece_bytes + kBarriers;
  return graph.draws() ? std::int64_t{kPlaceSlots} * (kPlaceBytes + kBarriers) : 0;
}

void check(const Graph& graph) {
  check_machine(graph);
  check_cluster(graph);
  check_launch(graph);
  check_slices(graph);
  check_nodes(graph);
  check_values(graph);
  check_edges(graph);
  check_lifetimes(graph);
  check_total(graph);
  check_cycles(graph);
}

}  // namespace tj::graph
