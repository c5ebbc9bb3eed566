// Placement; see layout.hpp.
#include "codegen/layout.hpp"

#include <algorithm>

#include "codegen/tensor_places.hpp"
#include "codegen/walk_text.hpp"
#include "graph/lifetimes.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::codegen {
namespace {

using support::cat;
using support::fail;

constexpr std::int64_t kBarrierBytes = 8;

std::int64_t align_up(std::int64_t value, std::int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

std::string type_name(const std::string& value) {
  std::string name = "Ring";
  bool begins = true;
  for (char c : value) {
    if (!support::is_word_letter(c) || c == '_') {
      begins = true;
      continue;
    }
    name += begins ? support::upper(c) : c;
    begins = false;
  }
  return name;
}

/// The matrix unit arrives once, whoever asks it; a role of one warp does, too.
bool handed_back_by_unit(const graph::Graph& graph, const sched::Schedule& schedule, int role, int value) {
  return std::any_of(graph.edges.begin(), graph.edges.end(), [&](const graph::Edge& edge) {
    return edge.value == value && schedule.role[static_cast<std::size_t>(edge.dst)] == role &&
           graph.nodes[static_cast<std::size_t>(edge.dst)].async == graph::Async::unit;
  });
}

int arrivals_of_consumers(const graph::Graph& graph, const sched::Schedule& schedule, int value) {
  int arrivals = 0;
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    const int role = static_cast<int>(r);
    if (!role_reads(graph, schedule, role, value)) continue;
    arrivals += handed_back_by_unit(graph, schedule, role, value)     ? 1
                : handed_back_by_groups(graph, schedule, role, value) ? schedule.roles[r].warps / kGroupWarps
                                                                      : schedule.roles[r].warps;
  }
  return arrivals;
}

int arrivals_of_producer(const graph::Graph& graph, const sched::Schedule& schedule, int value) {
  std::vector<int> producers;
  for (const auto& edge : graph.edges)
    if (edge.value == value && std::find(producers.begin(), producers.end(), edge.src) == producers.end())
      producers.push_back(edge.src);
  const std::string& name = graph.values[static_cast<std::size_t>(value)].name;
  const bool by_unit = std::all_of(producers.begin(), producers.end(), [&](int node) {
    return graph.nodes[static_cast<std::size_t>(node)].async == graph::Async::unit &&
           schedule.role[static_cast<std::size_t>(node)] == schedule.role[static_cast<std::size_t>(producers.front())];
  });
  if (producers.size() > 1 && by_unit) return 1;  // the last of the producers, for all
  if (producers.size() != 1)
    fail(Stage::codegen, Code::unsupported,
         cat("value '", name, "' is filled by ", producers.size(),
             " nodes; exactly one is allowed, or several of the matrix unit in one role"));
  const auto& node = graph.nodes[static_cast<std::size_t>(producers[0])];
  if (node.async == graph::Async::unit) return 1;
  if (node.async == graph::Async::matrix)
    fail(Stage::codegen, Code::unsupported,
         cat("node '", node.name, "' fills shared memory by the matrix unit; allowed are copies and ordinary stores"));
  if (node.async == graph::Async::store)
    fail(Stage::codegen, Code::unsupported,
         cat("node '", node.name, "' stores out of shared memory, but fills value '", name,
             "'; allowed are copies and ordinary stores"));
  if (node.async == graph::Async::copy) return 1;
  const int warps =
      schedule.roles[static_cast<std::size_t>(schedule.role[static_cast<std::size_t>(producers[0])])].warps;
  return node.async == graph::Async::threads ? warps * graph.machine.warp_size : warps;
}

graph::Places places_of(const graph::Graph& graph, const sched::Schedule& schedule) {
  std::vector<int> slots(graph.values.size(), 0);
  for (const auto& ring : schedule.rings) slots[static_cast<std::size_t>(ring.value)] = ring.slots;
  return graph::place_values(graph, slots);
}

void place_rings(const graph::Graph& graph, const sched::Schedule& schedule, Layout& layout) {
  const graph::Places places = places_of(graph, schedule);
  std::int64_t offset = places.bytes;
  for (const auto& ring : schedule.rings) {
    const auto& value = graph.values[static_cast<std::size_t>(ring.value)];
    if (ring.slots < 1)
      fail(Stage::codegen, Code::invalid_argument,
           cat("ring '", value.name, "' has ", ring.slots, " slots; at least 1 is needed"));
    RingPlace place;
    place.type_name = type_name(value.name);
    if (value.space == graph::Space::tensor)
      place.slot_columns = static_cast<int>(value.slot_bytes / graph::kTensorColumnBytes);
    else
      place.data = places.offset[static_cast<std::size_t>(ring.value)];
    if (value.space == graph::Space::shared && align_up(value.slot_bytes, value.alignment) != value.slot_bytes)
      fail(Stage::codegen, Code::invalid_argument,
           cat("value '", value.name, "': ", value.slot_bytes, " bytes a slot are no multiple of its alignment ",
               value.alignment));
    place.full_arrivals = arrivals_of_producer(graph, schedule, ring.value);
    // Arrivals of every block that is copied to, or whose sums one block's thread asks for.
    place.empty_arrivals = arrivals_of_consumers(graph, schedule, ring.value) *
                           (of_pair(graph, ring.value) == OfPair::filled ? 2 : value.shared_by);
    layout.rings.push_back(place);
  }
  if (graph.machine.shared_barriers) offset = align_up(offset, kBarrierBytes);
  for (std::size_t r = 0; graph.machine.shared_barriers && r < layout.rings.size(); ++r) {
    layout.rings[r].full = offset;
    offset += schedule.rings[r].slots * kBarrierBytes;
    layout.rings[r].empty = offset;
    offset += schedule.rings[r].slots * kBarrierBytes;
  }
  layout.tensor_columns = place_tensor_rings(graph, schedule, layout.rings);
  if (layout.tensor_columns > 0) {
    layout.tensor_address = offset;
    offset += kBarrierBytes;
  }
  if (graph.draws()) {
    offset = align_up(offset, kBarrierBytes);
    layout.places.type_name = kPlacesType;
    layout.places.data = offset;
    layout.places.full = layout.places.data + graph::kPlaceSlots * graph::kPlaceBytes;
    layout.places.empty = layout.places.full + graph::kPlaceSlots * kBarrierBytes;
    offset += graph::walk_bytes(graph);
  }
  if (graph.walk == graph::Walk::sliced) {
    layout.places.type_name = kSlicesType;
    layout.places.data = align_up(offset, 2 * kBarrierBytes);
    layout.places.full = layout.places.data + slices_bytes(graph);
    layout.places.empty = layout.places.full + kBarrierBytes;
    layout.places.full_arrivals = layout.places.empty_arrivals = 1;
    offset += graph::walk_bytes(graph);
  }
  layout.smem_bytes = std::max(offset, graph.least_smem_bytes);
  const auto capacity = graph.machine.memory_bytes.find("SMEM");
  if (capacity != graph.machine.memory_bytes.end() && offset > capacity->second)
    fail(Stage::codegen, Code::unsupported,
         cat("'", graph.name, "' needs ", offset, " bytes of shared memory, ", graph.machine.name, " has ",
             capacity->second, " a block"));
}

// Roles smaller than a register group share a group with others of as many registers; other roles have groups of their
// own.
void place_roles(const graph::Graph& graph, const sched::Schedule& schedule, Layout& layout) {
  const int group_warps = graph.machine.warps_per_group;
  std::vector<int> used;  // warps of each group
  const auto rounded = [&](int warps) { return (warps + group_warps - 1) / group_warps * group_warps; };
  layout.roles.resize(schedule.roles.size());
  int warps = 0;
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    const auto& role = schedule.roles[r];
    if (role.warps < 1 || (role.warps > group_warps && role.warps % group_warps != 0))
      fail(Stage::codegen, Code::invalid_argument,
           cat("role '", role.name, "' has ", role.warps, " warps; allowed are 1 to ", group_warps,
               " or a multiple of it"));
    std::size_t g = 0;
    while (g < used.size() && (layout.groups[g].registers != role.registers || used[g] + role.warps > group_warps)) ++g;
    if (g == used.size()) {
      layout.groups.push_back({{}, warps, role.registers});
      used.push_back(0);
      warps += rounded(role.warps);
    }
    layout.groups[g].roles.push_back(static_cast<int>(r));
    layout.roles[r].first_warp = layout.groups[g].first_warp + used[g];
    layout.roles[r].single_thread =
        role.warps == 1 && !role.nodes.empty() && std::all_of(role.nodes.begin(), role.nodes.end(), [&](int n) {
          return graph::issued_by_one(graph.nodes[static_cast<std::size_t>(n)].async);
        });
    used[g] += role.warps;
  }
  layout.threads = warps * graph.machine.warp_size;
  if (layout.threads > 1024)
    fail(Stage::codegen, Code::unsupported,
         cat("'", graph.name, "' needs ", layout.threads, " threads a block; 1024 are allowed"));
  // A thread of a small block has no more than any thread may have: one role has that from the start.
  const auto share =
      std::min<std::int64_t>(graph.machine.max_registers_per_thread, graph.machine.registers / layout.threads);
  layout.entry_registers = static_cast<int>(share) / graph.machine.register_step * graph.machine.register_step;
  std::int64_t wanted = 0;  // registers that are moved are neither made nor lost: a role waits for ever for what no
                            // group gives
  for (std::size_t g = 0; g < used.size(); ++g)
    wanted += std::int64_t{rounded(used[g])} *
              (layout.groups[g].registers == 0 ? layout.entry_registers : layout.groups[g].registers);
  if (wanted > std::int64_t{warps} * layout.entry_registers)
    fail(Stage::codegen, Code::unsupported,
         cat("the roles of '", graph.name, "' take ", wanted, " registers a lane of all ", warps,
             " warps, the launch gives ", layout.entry_registers, " a thread; use fewer or smaller roles"));
}

}  // namespace

OfPair of_pair(const graph::Graph& graph, int value) {
  if (!graph.pairs) return OfPair::none;
  for (const auto& edge : graph.edges) {
    if (edge.value != value) continue;
    if (graph.nodes[static_cast<std::size_t>(edge.dst)].async == graph::Async::unit) return OfPair::read;
    if (graph.nodes[static_cast<std::size_t>(edge.src)].async == graph::Async::unit) return OfPair::filled;
  }
  return OfPair::none;
}

bool filled_once(const graph::Graph& graph, const graph::Value& value) {
  return !graph.walks() && value.scope != graph::Scope::iteration;
}

bool runs_in_first_of_pair(const graph::Graph& graph, const sched::Schedule& schedule, int role) {
  const auto& nodes = schedule.roles[static_cast<std::size_t>(role)].nodes;
  return graph.pairs && !nodes.empty() &&
         graph.nodes[static_cast<std::size_t>(nodes.front())].async == graph::Async::unit;
}

bool role_reads(const graph::Graph& graph, const sched::Schedule& schedule, int role, int value) {
  return std::any_of(graph.edges.begin(), graph.edges.end(), [&](const graph::Edge& edge) {
    return edge.value == value && schedule.role[static_cast<std::size_t>(edge.dst)] == role;
  });
}

bool handed_back_by_groups(const graph::Graph& graph, const sched::Schedule& schedule, int role, int value) {
  return schedule.roles[static_cast<std::size_t>(role)].warps % kGroupWarps == 0 &&
         graph.values[static_cast<std::size_t>(value)].scope == graph::Scope::iteration &&
         std::all_of(graph.edges.begin(), graph.edges.end(), [&](const graph::Edge& edge) {
           return edge.value != value || schedule.role[static_cast<std::size_t>(edge.dst)] != role ||
                  (graph.nodes[static_cast<std::size_t>(edge.dst)].async == graph::Async::matrix &&
                   graph.nodes[static_cast<std::size_t>(edge.dst)].scope == graph::Scope::iteration);
         });
}

Layout make_layout(const graph::Graph& graph, const sched::Schedule& schedule) {
  Layout layout;
  place_rings(graph, schedule, layout);
  place_roles(graph, schedule, layout);
  if (graph.draws() && !walks_as_one(graph, schedule, layout)) {
    layout.places.full_arrivals = 1;
    layout.places.empty_arrivals = place_readers(graph, schedule, layout);
  }
  int id = 1;  // 0 is the barrier of the whole block
  for (const auto& barrier : schedule.order_barriers) {
    layout.first_barrier_id.push_back(id);
    id += static_cast<int>(barrier.roles.size());
  }
  if (id > 16)
    fail(Stage::codegen, Code::unsupported,
         cat("'", graph.name, "' needs ", id - 1, " named barriers; 15 are allowed"));
  return layout;
}

}  // namespace tj::codegen
