// A loop of the shape of attention with two copies, for tests: loads, asynchronous matrix nodes, arithmetic, a tile
// prologue.
#pragma once

#include <string>

#include "graph/graph.hpp"

namespace tj::test {

struct AttentionShape {
  int copies = 2;
  int tile_bytes = 32 * 1024;
  std::int64_t smem_bytes = 227 * 1024;
  bool register_roles = true;
};

inline int unit_of(const graph::Graph& graph, const std::string& name) { return graph.machine.unit_index(name); }

inline int add_load(graph::Graph& graph, const char* name, graph::Scope scope) {
  graph::Node node;
  node.name = node.body = name;
  node.scope = scope;
  node.async = graph::Async::copy;
  node.reservations = {{unit_of(graph, "TMA"), 0, 200, 1}};
  node.latency = 900;
  node.variable_latency = node.streaming = true;
  node.warps = 1;
  graph.nodes.push_back(node);
  return static_cast<int>(graph.nodes.size()) - 1;
}

inline int add_compute(graph::Graph& graph, const std::string& body, int copy, const char* unit, int held, int cycles,
                       int latency, bool matrix) {
  graph::Node node;
  node.name = body + "." + std::to_string(copy);
  node.body = body;
  node.copy = copy;
  node.async = matrix ? graph::Async::matrix : graph::Async::none;
  node.reservations = {{unit_of(graph, unit), 0, held, 1}};
  node.cycles = node.warp_cycles = cycles;
  node.latency = latency;
  node.registers = 42;  // three values live at once: a copy fits 128, two copies no thread
  graph.nodes.push_back(node);
  return static_cast<int>(graph.nodes.size()) - 1;
}

inline graph::Graph attention_graph(const AttentionShape& shape = {}) {
  graph::Graph graph;
  graph.name = "attention";
  graph.machine.name = "test machine";
  graph.machine.units = {{"TC", 1}, {"EXP", 1}, {"TMA", 1}};
  graph.machine.memory_bytes["SMEM"] = shape.smem_bytes;
  graph.machine.register_roles = shape.register_roles;
  graph.values.push_back({"q", 32 * 1024, 1024, graph::Scope::tile_begin, 1, 1});
  graph.values.push_back({"k", shape.tile_bytes, 1024, graph::Scope::iteration, 1, 4});
  graph.values.push_back({"v", shape.tile_bytes, 1024, graph::Scope::iteration, 1, 4});
  graph.flops_per_iteration = 4.0 * 64 * shape.copies * 128 * 128;
  graph.overhead_cycles = 3000;
  const int load_q = add_load(graph, "load_q", graph::Scope::tile_begin);
  const int load_k = add_load(graph, "load_k", graph::Scope::iteration);
  const int load_v = add_load(graph, "load_v", graph::Scope::iteration);
  for (int c = 0; c < shape.copies; ++c) {
    const int qk = add_compute(graph, "qk", c, "TC", 512, 30, 560, true);
    const int softmax = add_compute(graph, "softmax", c, "EXP", 512, 800, 800, false);
    const int pv = add_compute(graph, "pv", c, "TC", 512, 30, 560, true);
    const auto edge = [&](int src, int dst, int delay, int distance, bool blocking, int value) {
      graph.edges.push_back({src, dst, delay, distance, blocking, value, 0, value < 0});
    };
    edge(load_q, qk, 900, 0, false, 0);
    edge(load_k, qk, 900, 0, false, 1);
    edge(qk, softmax, 560, 0, true, -1);
    edge(softmax, softmax, 800, 1, false, -1);
    edge(pv, softmax, 560, 1, true, -1);
    edge(softmax, pv, 800, 0, false, -1);
    edge(load_v, pv, 900, 0, false, 2);
    edge(pv, pv, 512, 1, false, -1);
  }
  return graph;
}

}  // namespace tj::test
