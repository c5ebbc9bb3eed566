// Random graphs with tiles, for the judges of their period: two or three roles, values of the loop and of once a tile,
// products that are waited for, stores.
//
// Decides no expectation. Invariant: the same seed gives the same graph on every machine, and it passes graph::check.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "graph/graph.hpp"
#include "random_graphs.hpp"

namespace tj::test {

/// A loading role, one or two that compute, perhaps one that stores. All costs are at most `cycles`.
inline graph::Graph tile_graph(std::uint64_t seed, int cycles) {
  Random random(seed);
  graph::Graph graph;
  graph.name = "tile" + std::to_string(seed);
  graph.machine.name = "tiles";
  graph.machine.units = {{"TC", 1}, {"ALU", random.between(1, 2)}, {"COPY", 1}};
  graph.walk = random.chance(75) ? graph::Walk::persistent : graph::Walk::one_tile;
  const auto add = [&](const std::string& name, graph::Scope scope, graph::Async async, int copy) {
    graph::Node node;
    node.name = name;
    node.scope = scope;
    node.async = async;
    node.copy = copy;
    node.cycles = random.between(0, 1);
    node.latency = random.between(0, cycles);
    if (async == graph::Async::none) {
      node.cycles = node.latency = random.between(0, cycles);
      node.warp_cycles = random.chance(70) ? node.cycles : 0;
    }
    node.warps = graph::issued_by_one(async) ? 1 : 4;
    node.variable_latency = async == graph::Async::copy;
    graph.nodes.push_back(node);
    return static_cast<int>(graph.nodes.size()) - 1;
  };
  const auto hold = [&](int node, int unit) {
    graph.nodes[static_cast<std::size_t>(node)].reservations = {
        {unit, 0, random.between(1, std::max(1, cycles - 1)), 1}};
  };
  const auto edge = [&](int src, int dst, int distance, bool blocking, int value) {
    graph.edges.push_back(
        {src, dst, graph.nodes[static_cast<std::size_t>(src)].latency, distance, blocking, value, 0, value < 0});
  };
  const auto value = [&](const std::string& name, graph::Scope scope, int slots) {
    graph.values.push_back({name, 16, 16, scope, slots, scope == graph::Scope::iteration ? slots + 1 : slots});
    return static_cast<int>(graph.values.size()) - 1;
  };
  const bool once = random.chance(60);
  const int load_q = once ? add("load_q", graph::Scope::tile_begin, graph::Async::copy, 0) : -1;
  const int load = add("load", graph::Scope::iteration, graph::Async::copy, 0);
  hold(load, 2);
  const int q = once ? value("q", graph::Scope::tile_begin, random.between(1, 2)) : -1;
  const int k = value("k", graph::Scope::iteration, random.between(1, 2));
  const int copies = random.between(1, 2);
  for (int c = 0; c < copies; ++c) {
    const std::string of = "." + std::to_string(c);
    const int begin = random.chance(50) ? add("begin" + of, graph::Scope::tile_begin, graph::Async::none, c) : -1;
    const bool matrix = random.chance(70);
    const int product =
        add("product" + of, graph::Scope::iteration, matrix ? graph::Async::matrix : graph::Async::none, c);
    hold(product, 0);
    edge(load, product, 0, false, k);
    if (once) edge(load_q, product, 0, false, q);
    if (begin >= 0) edge(begin, product, 0, false, -1);
    int last = product;
    if (random.chance(60)) {
      last = add("arithmetic" + of, graph::Scope::iteration, graph::Async::none, c);
      hold(last, 1);
      edge(product, last, 0, matrix, -1);
      if (random.chance(40)) edge(last, product, random.between(1, 2), false, -1);
    } else if (matrix) {
      edge(product, product, 1, true, -1);
    }
    const int store = add("store" + of, graph::Scope::tile_end, graph::Async::none, c);
    edge(last, store, 0, last == product && matrix, -1);
    if (!random.chance(50)) continue;
    const int put = add("put" + of, graph::Scope::tile_end, graph::Async::store, c);
    edge(store, put, 0, true, value("o" + std::to_string(c), graph::Scope::tile_end, 1));
  }
  return graph;
}

}  // namespace tj::test
