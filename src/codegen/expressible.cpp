// Refusals of graphs that a unit's text cannot say; see expressible.hpp.
#include "codegen/expressible.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "codegen/family_text.hpp"
#include "codegen/places.hpp"
#include "codegen/record.hpp"
#include "codegen/walk_text.hpp"
#include "support/fail.hpp"

namespace tj::codegen {
namespace {

using support::cat;
using support::fail;

// Groups that no node of the loop waits for would pile up, one an iteration.
void refuse_unobserved(const graph::Graph& graph, const sched::Schedule& schedule) {
  using graph::Scope;
  const auto in_loop = [&](int n) { return graph.nodes[static_cast<std::size_t>(n)].scope == Scope::iteration; };
  for (const auto& role : schedule.roles) {
    const auto matrix = std::find_if(role.nodes.begin(), role.nodes.end(), [&](int n) {
      return in_loop(n) && graph.nodes[static_cast<std::size_t>(n)].async == graph::Async::matrix;
    });
    if (matrix == role.nodes.end()) continue;
    const auto here = [&](int n) {
      return in_loop(n) && std::find(role.nodes.begin(), role.nodes.end(), n) != role.nodes.end();
    };
    const bool waits = std::any_of(graph.edges.begin(), graph.edges.end(), [&](const graph::Edge& edge) {
      return edge.blocking && here(edge.src) && here(edge.dst) &&
             graph.nodes[static_cast<std::size_t>(edge.src)].async == graph::Async::matrix;
    });
    if (!waits)
      fail(Stage::codegen, Code::unsupported,
           cat("no node of the loop waits for '", graph.nodes[static_cast<std::size_t>(*matrix)].name,
               "', which runs on the matrix unit; give it a blocking edge, to itself over some iterations if nothing "
               "else needs it"));
  }
}

// A role hands a filling back once. So all its readers in the loop read the filling of one iteration. It is the
// iteration before where a node at the tile's end reads too.
void refuse_mixed_readers(const graph::Graph& graph, const sched::Schedule& schedule) {
  using graph::Scope;
  const auto scope = [&](int n) { return graph.nodes[static_cast<std::size_t>(n)].scope; };
  for (const auto& edge : graph.edges) {
    if (edge.value < 0 || graph.values[static_cast<std::size_t>(edge.value)].scope != Scope::iteration) continue;
    for (const auto& other : graph.edges) {
      if (other.value != edge.value || scope(other.dst) != Scope::iteration ||
          schedule.role[static_cast<std::size_t>(other.dst)] != schedule.role[static_cast<std::size_t>(edge.dst)])
        continue;
      if (scope(edge.dst) == Scope::iteration ? other.distance == edge.distance : other.distance == 1) continue;
      fail(Stage::codegen, Code::unsupported,
           cat("value '", graph.values[static_cast<std::size_t>(edge.value)].name, "' is read by '",
               graph.nodes[static_cast<std::size_t>(edge.dst)].name, "' and, another iteration's, by '",
               graph.nodes[static_cast<std::size_t>(other.dst)].name,
               "' in one role; give all of them one distance, 1 where a node at the tile's end reads too"));
    }
    if (scope(edge.dst) == Scope::iteration) continue;
    const bool also = std::any_of(graph.edges.begin(), graph.edges.end(), [&](const auto& other) {
      return other.value == edge.value && scope(other.dst) == Scope::iteration &&
             schedule.role[static_cast<std::size_t>(other.dst)] == schedule.role[static_cast<std::size_t>(edge.dst)];
    });
    if (!also)
      fail(Stage::codegen, Code::unsupported,
           cat("value '", graph.values[static_cast<std::size_t>(edge.value)].name,
               "' is filled in every iteration and read by '", graph.nodes[static_cast<std::size_t>(edge.dst)].name,
               "' at the tile's end, in a role that does not read it in the loop; hand over what is left in a value of "
               "the tile's end"));
  }
}

/// A node that fills a slot again waits for its readers: does that keep the order that an edge without a value asks
/// for?
bool kept_by_a_ring(const graph::Graph& graph, const sched::Schedule& schedule, const graph::Edge& order) {
  return std::any_of(schedule.rings.begin(), schedule.rings.end(), [&](const sched::Ring& ring) {
    if (graph.values[static_cast<std::size_t>(ring.value)].scope != graph::Scope::iteration) return false;
    const auto fills = [&](const graph::Edge& edge) { return edge.value == ring.value && edge.src == order.dst; };
    const auto reads = [&](const graph::Edge& edge) {
      return edge.value == ring.value && edge.dst == order.src && ring.slots - edge.distance <= order.distance;
    };
    return std::any_of(graph.edges.begin(), graph.edges.end(), fills) &&
           std::any_of(graph.edges.begin(), graph.edges.end(), reads);
  });
}

// Edges that no ring and no register carries.
void refuse_edges(const graph::Graph& graph, const sched::Schedule& schedule) {
  for (const auto& edge : graph.edges) {
    const auto& source = graph.nodes[static_cast<std::size_t>(edge.src)];
    const auto& sink = graph.nodes[static_cast<std::size_t>(edge.dst)];
    const bool crosses =
        schedule.role[static_cast<std::size_t>(edge.src)] != schedule.role[static_cast<std::size_t>(edge.dst)];
    if (edge.same_role && crosses)
      fail(Stage::codegen, Code::unsupported,
           cat("'", source.name, "' and '", sink.name, "' share registers and must share a role"));
    if (crosses && edge.value < 0 && !kept_by_a_ring(graph, schedule, edge))
      fail(Stage::codegen, Code::unsupported,
           cat("edge '", source.name, "' -> '", sink.name, "' crosses roles without a value in shared memory"));
    const auto is_ring = [&](const sched::Ring& ring) { return ring.value == edge.value; };
    if (edge.value >= 0 && std::none_of(schedule.rings.begin(), schedule.rings.end(), is_ring))
      fail(Stage::codegen, Code::unsupported,
           cat("'", source.name, "' hands value '", graph.values[static_cast<std::size_t>(edge.value)].name, "' to '",
               sink.name,
               "' inside one role; allowed are values with a reader in another role, and registers of one context, "
               "which need no value"));
    if (edge.value >= 0 && edge.distance > 1)
      fail(Stage::codegen, Code::unsupported,
           cat("edge '", source.name, "' -> '", sink.name, "' carries a ring's value over ", edge.distance,
               " iterations; allowed are 0 and 1"));
  }
  refuse_mixed_readers(graph, schedule);
}

// One block of a pair asks for the products of both: its thread does nothing else that both blocks need.
void refuse_mixed_products(const graph::Graph& graph, const sched::Schedule& schedule) {
  if (!graph.pairs) return;
  for (const auto& role : schedule.roles) {
    const auto product = [&](int n) { return graph.nodes[static_cast<std::size_t>(n)].async == graph::Async::unit; };
    const auto one = std::find_if(role.nodes.begin(), role.nodes.end(), product),
               other = std::find_if_not(role.nodes.begin(), role.nodes.end(), product);
    if (one != role.nodes.end() && other != role.nodes.end())
      fail(Stage::codegen, Code::unsupported,
           cat("role '", role.name, "' runs '", graph.nodes[static_cast<std::size_t>(*one)].name,
               "', a product of a pair of blocks, and '", graph.nodes[static_cast<std::size_t>(*other)].name,
               "', which is none; allowed are products in a role of their own"));
  }
}

// Without barriers in shared memory only the whole block can meet, and nobody learns when hardware is done.
void refuse_without_barriers(const graph::Graph& graph, const sched::Schedule& schedule) {
  if (graph.machine.shared_barriers) return;
  const auto refuse = [&](const auto&... what) {
    fail(Stage::codegen, Code::unsupported,
         cat("'", graph.name, "' on ", graph.machine.name,
             ", whose blocks have no barriers in shared memory: ", what...));
  };
  if (schedule.roles.size() != 1)
    refuse("there are ", schedule.roles.size(), " roles; allowed is one of all its warps");
  const int warps = schedule.roles[0].warps;
  if (warps % graph.machine.warps_per_group != 0)
    refuse("its role has ", warps, " warps; allowed are multiples of ", graph.machine.warps_per_group);
  for (const auto& node : graph.nodes) {
    if (node.async != graph::Async::none)
      refuse("node '", node.name, "' is asynchronous; allowed are those that are done when their call returns");
    if (node.warps != warps)
      refuse("node '", node.name, "' is written for ", node.warps, " warps; allowed are the ", warps, " of the role");
  }
}

}  // namespace

void refuse_inexpressible(const graph::Graph& graph, const sched::Schedule& schedule) {
  refuse_edges(graph, schedule);
  refuse_unobserved(graph, schedule);
  refuse_without_barriers(graph, schedule);
  refuse_mixed_products(graph, schedule);
  if (graph.machine.shared_barriers) refuse_lost_turns(graph, schedule);
}

void refuse_names(const graph::Graph& graph, const Layout& layout, bool recording) {
  const std::set<std::string> own = {"base", "dev",    "drawn",  "first_fast", "behind_fast", "fast_from", "in_range",
                                     "to",   "given",  "member", "n",          "params",      "piece",     "place",
                                     "s",    "shared", "tile",   "tiles",      "walk",        "warp"};
  std::map<std::string, std::string> contexts;
  for (const auto& node : graph.nodes) {
    const std::string name = context_variable(node.context);
    const auto [first, is_new] = contexts.emplace(name, node.context);
    if (own.count(name) != 0 || (recording && is_recording_name(name)) ||
        (name == "tensor" && layout.tensor_columns > 0) || (!is_new && first->second != node.context))
      fail(Stage::codegen, Code::unsupported,
           cat("context '", node.context, "' of node '", node.name, "' would be a variable '", name, "', a name that ",
               is_new ? "the unit" : "context '" + first->second + "'", " uses; rename it"));
  }
  std::set<std::string> rings;
  if (graph.draws()) rings.insert(kPlacesType);
  if (graph.walk == graph::Walk::sliced) rings.insert(kSlicesType);
  for (const RingPlace& ring : layout.rings)
    if (!rings.insert(ring.type_name).second)
      fail(Stage::codegen, Code::unsupported,
           cat("two values would both be a type '", ring.type_name, "'; rename one"));
}

}  // namespace tj::codegen
