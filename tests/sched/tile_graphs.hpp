// Random graphs with tiles, for the judges of their period.
//
// Decides no expectation. Invariant: the same seed gives the same graph on every machine, and it passes graph::check.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "graph/graph.hpp"
#include "random_graphs.hpp"

namespace tj::test {

/// Adds nodes, edges and values with random costs, each at most `cycles`.
class TileGraphMaker {
 public:
  TileGraphMaker(std::uint64_t seed, int cycles) : random(seed), cycles_(cycles) {
    graph.name = "tile" + std::to_string(seed);
    graph.machine.name = "tiles";
    graph.machine.units = {{"TC", 1}, {"ALU", random.between(1, 2)}, {"COPY", 1}};
    graph.walk = random.chance(75) ? graph::Walk::persistent : graph::Walk::one_tile;
  }

  int add(const std::string& name, graph::Scope scope, graph::Async async, int copy) {
    graph::Node node;
    node.name = name;
    node.scope = scope;
    node.async = async;
    node.copy = copy;
    node.cycles = random.between(0, 1);
    node.latency = random.between(0, cycles_);
    if (async == graph::Async::none) {
      node.cycles = node.latency = random.between(0, cycles_);
      node.warp_cycles = random.chance(70) ? node.cycles : 0;
    }
    node.warps = graph::issued_by_one(async) ? 1 : 4;
    node.variable_latency = async == graph::Async::copy;
    graph.nodes.push_back(node);
    return static_cast<int>(graph.nodes.size()) - 1;
  }
  void hold(int node, int unit) {
    graph.nodes[static_cast<std::size_t>(node)].reservations = {
        {unit, 0, random.between(1, std::max(1, cycles_ - 1)), 1}};
  }
  void edge(int src, int dst, int distance, bool blocking, int value) {
    graph.edges.push_back(
        {src, dst, graph.nodes[static_cast<std::size_t>(src)].latency, distance, blocking, value, 0, value < 0});
  }
  int value(const std::string& name, graph::Scope scope, int slots) {
    graph.values.push_back({name, 16, 16, scope, slots, scope == graph::Scope::iteration ? slots + 1 : slots});
    return static_cast<int>(graph.values.size()) - 1;
  }

  graph::Graph graph;
  Random random;

 private:
  int cycles_;
};

/// A copy of what computes: a product that is waited for, perhaps arithmetic, and perhaps a store.
inline void add_consumer(TileGraphMaker& make, int copy, int load, int k, int load_q, int q) {
  using graph::Async;
  using graph::Scope;
  Random& random = make.random;
  const std::string of = "." + std::to_string(copy);
  const int begin = random.chance(50) ? make.add("begin" + of, Scope::tile_begin, Async::none, copy) : -1;
  const bool matrix = random.chance(70);
  const int product = make.add("product" + of, Scope::iteration, matrix ? Async::matrix : Async::none, copy);
  make.hold(product, 0);
  make.edge(load, product, 0, false, k);
  if (load_q >= 0) make.edge(load_q, product, 0, false, q);
  if (begin >= 0) make.edge(begin, product, 0, false, -1);
  int last = product;
  if (random.chance(60)) {
    last = make.add("arithmetic" + of, Scope::iteration, Async::none, copy);
    make.hold(last, 1);
    make.edge(product, last, 0, matrix, -1);
    if (random.chance(40)) make.edge(last, product, random.between(1, 2), false, -1);
  } else if (matrix) {
    make.edge(product, product, 1, true, -1);
  }
  const int store = make.add("store" + of, Scope::tile_end, Async::none, copy);
  make.edge(last, store, 0, last == product && matrix, -1);
  if (!random.chance(50)) return;
  const int put = make.add("put" + of, Scope::tile_end, Async::store, copy);
  make.edge(store, put, 0, true, make.value("o" + std::to_string(copy), Scope::tile_end, 1));
}

/// A loading role, one or two that compute, perhaps one that stores. All costs are at most `cycles`.
inline graph::Graph tile_graph(std::uint64_t seed, int cycles) {
  using graph::Async;
  using graph::Scope;
  TileGraphMaker make(seed, cycles);
  const bool once = make.random.chance(60);
  const int load_q = once ? make.add("load_q", Scope::tile_begin, Async::copy, 0) : -1;
  const int load = make.add("load", Scope::iteration, Async::copy, 0);
  make.hold(load, 2);
  const int q = once ? make.value("q", Scope::tile_begin, make.random.between(1, 2)) : -1;
  const int k = make.value("k", Scope::iteration, make.random.between(1, 2));
  const int copies = make.random.between(1, 2);
  for (int c = 0; c < copies; ++c) add_consumer(make, c, load, k, load_q, q);
  return make.graph;
}

/// Two or three copies of a chain of one to four nodes of the loop, which ends in the first one of a later iteration.
/// Numbers of nodes in roles whose copies are kept apart.
inline graph::Graph chains(std::uint64_t seed, int cycles) {
  using graph::Async;
  using graph::Scope;
  TileGraphMaker make(seed, cycles);
  const int copies = make.random.between(2, 3);
  for (int c = 0; c < copies; ++c) {
    const int nodes = make.random.between(1, 4);
    int first = -1, last = -1;
    for (int i = 0; i < nodes; ++i) {
      const int node = make.add("n" + std::to_string(i) + "." + std::to_string(c), Scope::iteration, Async::none, c);
      graph::Node& added = make.graph.nodes.back();
      added.latency = make.random.between(added.cycles, 10 * cycles);
      make.hold(node, make.random.between(0, 1));
      if (last >= 0) make.edge(last, node, 0, false, -1);
      if (first < 0) first = node;
      last = node;
    }
    if (make.random.chance(50)) make.edge(last, first, make.random.between(1, 3), false, -1);
  }
  return make.graph;
}

/// Two products of a role: the role looks at the first one only where it waits for the second one, which comes later.
/// A copy fills what the first one reads; with few slots, it waits for that look.
inline graph::Graph late_look(std::uint64_t seed, int cycles) {
  using graph::Async;
  using graph::Scope;
  TileGraphMaker make(seed, cycles);
  const int load = make.add("load", Scope::iteration, Async::copy, 0);
  make.graph.nodes.back().latency = make.random.between(1, cycles);
  make.hold(load, 2);
  const int first = make.add("first", Scope::iteration, Async::matrix, 0);
  make.hold(first, 0);
  make.edge(load, first, 0, false, make.value("k", Scope::iteration, 1));
  make.graph.values.back().max_slots = 8;
  const int second = make.add("second", Scope::iteration, Async::matrix, 0);
  make.hold(second, 0);
  make.edge(first, second, 0, false, -1);
  make.graph.edges.back().delay += make.random.between(0, 4 * cycles);
  make.edge(second, second, make.random.between(1, 2), true, -1);
  return make.graph;
}

/// A role of two or three products, one or two waits for them by a product or by arithmetic, over up to four
/// iterations. A copy fills what they read, perhaps of the iteration before; perhaps another role reads it, too.
inline graph::Graph late_looks(std::uint64_t seed, int cycles) {
  using graph::Async;
  using graph::Scope;
  TileGraphMaker make(seed, cycles);
  Random& random = make.random;
  const auto ring = [&](const std::string& name) {
    const int value = make.value(name, Scope::iteration, 1);
    make.graph.values.back().max_slots = 8;
    return value;
  };
  const int loads[] = {make.add("load_k", Scope::iteration, Async::copy, 0),
                       make.add("load_v", Scope::iteration, Async::copy, 0)};
  const int values[] = {ring("k"), ring("v")}, distances[] = {random.chance(25) ? 1 : 0, random.chance(25) ? 1 : 0};
  for (const int load : loads) {
    make.graph.nodes[static_cast<std::size_t>(load)].latency = random.between(1, cycles);
    make.hold(load, 2);
  }
  const int products = random.between(2, 3);
  for (int p = 0; p < products; ++p) {
    const int product = make.add("product" + std::to_string(p), Scope::iteration, Async::matrix, 0);
    make.hold(product, 0);
    for (int v = 0; v < 2; ++v)
      if (p == v || random.chance(20)) make.edge(loads[v], product, distances[v], false, values[v]);
    if (p == 0 || random.chance(30)) continue;
    make.edge(product - 1, product, 0, false, -1);
    make.graph.edges.back().delay += random.between(0, 4 * cycles);
  }
  const int first = loads[1] + 1;
  const int waits = random.between(1, 2);
  for (int w = 0; w < waits; ++w) {
    const int product = first + random.between(0, products - 1);
    if (random.chance(50)) {
      make.edge(product, first + random.between(0, products - 1), random.between(1, 2), true, -1);
      continue;
    }
    const int head = make.add("head" + std::to_string(w), Scope::iteration, Async::none, 0);
    make.hold(head, 1);
    make.edge(product, head, random.between(0, 4), true, -1);
    if (random.chance(50)) make.edge(head, first + random.between(0, products - 1), random.between(1, 2), false, -1);
  }
  if (!random.chance(40)) return make.graph;
  const int other = make.add("other", Scope::iteration, Async::none, 1);
  make.hold(other, 1);
  make.edge(loads[0], other, random.between(0, 1), false, values[0]);
  return make.graph;
}

}  // namespace tj::test
