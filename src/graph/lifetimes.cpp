// See lifetimes.hpp.
#include "graph/lifetimes.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::graph {
namespace {

using support::at;
using support::cat;

/// A value's life in a tile: from the first scope in which a node fills it to the last in which one reads it.
struct Life {
  int filler = -1, reader = -1;  ///< nodes of those scopes
};

Life life_of(const Graph& graph, int value) {
  Life life;
  for (const Edge& edge : graph.edges) {
    if (edge.value != value) continue;
    if (life.filler < 0 || graph.nodes[at(edge.src)].scope < graph.nodes[at(life.filler)].scope) life.filler = edge.src;
    if (life.reader < 0 || graph.nodes[at(edge.dst)].scope > graph.nodes[at(life.reader)].scope) life.reader = edge.dst;
  }
  return life;
}

template <class... Parts>
[[noreturn]] void reject(const Graph& graph, int value, const Parts&... parts) {
  const Value& own = graph.values[at(value)];
  support::fail(Stage::graph, Code::invalid_argument,
                cat("graph '", graph.name, "': value '", own.name, "' is to lie in the place of value '",
                    graph.values[at(own.lies_in)].name, "', ", parts...));
}

/// Does the second node wait for the first, in the same iteration?
bool leads_to(const Graph& graph, int from, int to) {
  std::vector<bool> reached(graph.nodes.size(), false);
  reached[at(from)] = true;
  for (std::size_t round = 0; round < graph.nodes.size(); ++round)
    for (const Edge& edge : graph.edges)
      if (edge.distance == 0 && edge.delay >= 0 && reached[at(edge.src)]) reached[at(edge.dst)] = true;
  return reached[at(to)];
}

/// Is the second value there before a node reads the first one, in the order that the edges of an iteration ask for?
/// The nodes are an edge's ends: who fills the second and who reads the first; {-1, -1} where it need not be.
std::pair<int, int> meeting(const Graph& graph, int first, int second) {
  for (const Edge& read : graph.edges)
    for (const Edge& fill : graph.edges)
      if (read.value == first && fill.value == second && leads_to(graph, fill.src, read.dst))
        return {fill.src, read.dst};
  return {-1, -1};
}

/// Whose life ends before the other's begins, of a value and the one that it lies in.
Sharing sharing_of(const Graph& graph, int value) {
  const int root = graph.values[at(value)].lies_in;
  const Life own = life_of(graph, value), other = life_of(graph, root);
  const auto scope = [&](int node) { return graph.nodes[at(node)].scope; };
  if (own.filler < 0 || other.filler < 0 || scope(other.reader) < scope(own.filler)) return {root, value, false};
  if (scope(own.reader) < scope(other.filler)) return {value, root, false};
  const bool turned = meeting(graph, root, value).first >= 0 && meeting(graph, value, root).first < 0;
  return turned ? Sharing{value, root, true} : Sharing{root, value, true};
}

/// The edge to the node of the loop that waits first for a product; null where none does.
const Edge* first_waiter(const Graph& graph, int product) {
  const Edge* first = nullptr;
  for (const Edge& edge : graph.edges)
    if (edge.src == product && edge.dst != product && edge.blocking &&
        graph.nodes[at(edge.dst)].scope == Scope::iteration && (!first || edge.distance < first->distance))
      first = &edge;
  return first;
}

constexpr const char* kAllowed =
    "; allowed are values of which one is read for the last time in an earlier part of the tile than the other is "
    "filled in, or both are filled and read in the loop, one slot each, and the order of an iteration lets one follow "
    "the other";

void check_kind(const Graph& graph, int v) {
  const Value &value = graph.values[at(v)], &root = graph.values[at(value.lies_in)];
  if (root.lies_in >= 0)
    reject(graph, v, "which lies in the place of '", graph.values[at(root.lies_in)].name, "' itself; name that one");
  if (value.space != Space::shared || root.space != Space::shared)
    reject(graph, v, "and '", (value.space == Space::shared ? root : value).name,
           "' is in tensor memory, where values share columns by themselves; allowed are values in shared memory");
  if (graph.pairs || value.shared_by != 1 || root.shared_by != 1)
    reject(graph, v,
           "and other blocks of the cluster copy into a slot of one, or multiply with it; allowed are values "
           "of a block alone");
  for (const Edge& edge : graph.edges) {
    if (edge.value != v && edge.value != value.lies_in) continue;
    const Value& filled = graph.values[at(edge.value)];
    if (graph.nodes[at(edge.src)].scope != filled.scope)
      reject(graph, v, "and '", graph.nodes[at(edge.src)].name, "' fills '", filled.name,
             "' as a sum, in all iterations of a tile; allowed are values that are filled at once");
  }
}

void check_turns(const Graph& graph, const Sharing& sharing, int v) {
  const auto name = [&](int node) { return cat("'", graph.nodes[at(node)].name, "'"); };
  for (const int value : {sharing.first, sharing.second}) {
    const Life life = life_of(graph, value), other = life_of(graph, sharing.other(value));
    const auto loops = [&](int node) { return graph.nodes[at(node)].scope == Scope::iteration; };
    if (!loops(life.filler) || !loops(life.reader))
      reject(graph, v, "but their lifetimes meet: ", name(loops(life.filler) ? life.reader : life.filler),
             loops(life.filler) ? " reads '" : " fills '", graph.values[at(value)].name, "' outside the loop, and ",
             name(other.filler), " fills '", graph.values[at(sharing.other(value))].name, "' meanwhile", kAllowed);
    if (graph.values[at(value)].min_slots > 1)
      reject(graph, v, "but '", graph.values[at(value)].name, "' has ", graph.values[at(value)].min_slots,
             " slots at least, so that ", name(other.filler), " would fill the place while ", name(life.reader),
             " still reads there", kAllowed);
  }
  for (const Edge& read : graph.edges) {
    if (read.value != sharing.first && read.value != sharing.second) continue;
    const int other = life_of(graph, sharing.other(read.value)).filler;
    if (read.distance > 0)
      reject(graph, v, "but their lifetimes meet: ", name(read.dst), " reads '", graph.values[at(read.value)].name,
             "' an iteration later, when ", name(other), " has filled '",
             graph.values[at(sharing.other(read.value))].name, "'", kAllowed);
  }
  const auto [filler, reader] = meeting(graph, sharing.first, sharing.second);
  if (filler >= 0)
    reject(graph, v, "but their lifetimes meet: ", name(reader), " reads '", graph.values[at(sharing.first)].name,
           "' when ", name(filler), " has filled '", graph.values[at(sharing.second)].name, "'", kAllowed);
}

std::int64_t align_up(std::int64_t value, std::int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

std::vector<Sharing> sharings(const Graph& graph) {
  std::vector<Sharing> list;
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].lies_in >= 0) list.push_back(sharing_of(graph, static_cast<int>(v)));
  return list;
}

bool alternates(const Graph& graph, int value) {
  const std::vector<Sharing> all = sharings(graph);
  return std::any_of(all.begin(), all.end(), [&](const Sharing& sharing) {
    return sharing.every_iteration && (sharing.first == value || sharing.second == value);
  });
}

std::vector<Edge> place_edges(const Graph& graph) {
  std::vector<Edge> edges;
  const auto add = [&](int src, int dst, int delay, int distance) {
    const auto same = [&](const Edge& known) {
      return known.src == src && known.dst == dst && known.distance == distance && known.delay >= delay;
    };
    if (distance >= 0 && std::none_of(edges.begin(), edges.end(), same)) edges.push_back({src, dst, delay, distance});
  };
  for (const Sharing& sharing : sharings(graph)) {
    if (!sharing.every_iteration) continue;
    for (const Edge& read : graph.edges)
      for (const Edge& fill : graph.edges) {
        if ((read.value != sharing.first && read.value != sharing.second) || fill.value != sharing.other(read.value))
          continue;
        const int round = read.value == sharing.second ? 1 : 0;
        add(read.dst, fill.src, std::max(1, graph.nodes[at(read.dst)].latency), round);
        if (graph.nodes[at(read.dst)].async != Async::matrix) continue;
        // Its role looks when a node waits for it.
        if (const Edge* waiter = first_waiter(graph, read.dst)) add(waiter->dst, fill.src, 0, round - waiter->distance);
      }
  }
  return edges;
}

Places place_values(const Graph& graph, const std::vector<int>& slots) {
  Places places{std::vector<std::int64_t>(graph.values.size(), -1), 0};
  const auto here = [&](std::size_t v) { return slots[v] > 0 && graph.values[v].space == Space::shared; };
  const auto root_of = [&](std::size_t v) {
    const int root = graph.values[v].lies_in;
    return root >= 0 && here(at(root)) ? at(root) : v;
  };
  const auto bytes = [&](std::size_t v) {
    return slots[v] * align_up(graph.values[v].slot_bytes, graph.values[v].alignment);
  };
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (!here(v) || root_of(v) != v) continue;
    std::int64_t alignment = graph.values[v].alignment;
    for (std::size_t other = 0; other < graph.values.size(); ++other)
      if (here(other) && root_of(other) == v)
        alignment = std::max<std::int64_t>(alignment, graph.values[other].alignment);
    const std::int64_t begin = align_up(places.bytes, alignment);
    places.offset[v] = begin;
    std::int64_t lying = begin;
    for (std::size_t other = 0; other < graph.values.size(); ++other) {
      if (!here(other) || other == v || root_of(other) != v) continue;
      places.offset[other] = align_up(lying, graph.values[other].alignment);
      lying = places.offset[other] + bytes(other);
    }
    places.bytes = std::max(begin + bytes(v), lying);
  }
  return places;
}

void check_lifetimes(const Graph& graph) {
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const int root = graph.values[v].lies_in, value = static_cast<int>(v);
    if (root == -1) continue;
    if (root < 0 || root >= static_cast<int>(graph.values.size()) || root == value)
      support::fail(Stage::graph, Code::invalid_argument,
                    cat("graph '", graph.name, "': value '", graph.values[v].name, "' lies in the place of value ",
                        root, "; allowed are the indices of other values, 0 to ", graph.values.size() - 1, ", or -1"));
    check_kind(graph, value);
    if (const Sharing sharing = sharing_of(graph, value); sharing.every_iteration) check_turns(graph, sharing, value);
  }
}

}  // namespace tj::graph
