// The builder by which every op writes a graph down: its unit's text, nodes, edges, values.
//
//   struct Builder : GraphBuilder {
//     explicit Builder(const arch::Arch& arch) : GraphBuilder("copy_rows", "any", arch) {
//       constant("kLanes", arch.warp_size);
//       Node move = single("Mover", "move_row", 8);
//       hold(move, {.alu = memory_cycles(4096)});
//       add(std::move(move));
//     }
//   };
//
// Decides how a node is named, what an edge without a value means, and how a node's work becomes reservations. Does not
// decide which nodes there are, nor what they cost. Invariant: nodes, edges, values and constants stand in the graph in
// the order of the calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "ops/common/copier.hpp"
#include "ops/common/machine.hpp"
#include "ops/common/multiplier.hpp"

namespace tj::ops {

class GraphBuilder {
 protected:
  using Node = graph::Node;
  using Scope = graph::Scope;

  /// The unit includes kernel_templates/ops/<op>/<text>.cuh and has its names in tj::ops::<op>. The machine is that of
  /// one of `blocks_per_sm` blocks side by side.
  GraphBuilder(std::string_view op, std::string_view text, const arch::Arch& arch, int blocks_per_sm = 1);

  // ---- the unit's Config ----
  void constant(std::string_view name, int value);
  void flag(std::string_view name, bool value);
  /// A constant that the launch must know, too: a member of what the candidate's geometry holds.
  void known(std::string_view name, int& of_launch, int value) {
    of_launch = value;
    constant(name, value);
  }

  // ---- the machine ----
  int unit(std::string_view name) const { return graph_.machine.unit_index(name); }
  graph::Reservation of(std::string_view name, int cycles, int start = 0) const {
    return {unit(name), start, cycles, 1};
  }
  /// Bytes of shared memory, by the path that warps share.
  double shared_cycles(double bytes) const { return bytes / arch_.fact("shared_bytes_per_cycle"); }
  /// Bytes of memory, at the share of its rate that one SM has.
  double memory_cycles(double bytes) const;

  // ---- nodes ----
  /// The only node of its name. Its role has so many warps.
  Node single(std::string_view context, std::string_view body, int warps, Scope scope = Scope::iteration) const;
  /// A node for one copy of an object: "qk.0". Its role has a group of warps.
  Node numbered(std::string_view context, std::string_view body, int copy, Scope scope = Scope::iteration) const;
  /// A node that holds its warps until it is done.
  static void busy(Node& node, int cycles) { node.cycles = node.latency = node.warp_cycles = cycles; }
  /// Makes a node hold its warps for as long as its busiest unit works, and reserves what it takes of each unit.
  void hold(Node& node, const Work& work) const;

  /// A product that hardware does by itself, with its time on the unit.
  void multiply(Node& node, const Multiplier& by, const Product& product) const {
    by.issue(node, product);
    node.reservations = {of("TC", product.held)};
  }

  int add(Node added);
  /// A tile's end in two steps. `stage` leaves its part of the result in `bytes` of shared memory, and a warp of a role
  /// of its own brings that to memory by `put` under the next tile's loop. Returns the first.
  int hand_out(Node stage, Node put, std::string name, std::int64_t bytes);
  Node& node(int index) { return graph_.nodes[static_cast<std::size_t>(index)]; }
  const Node& node(int index) const { return graph_.nodes[static_cast<std::size_t>(index)]; }

  // ---- edges ----
  /// Adds an edge. Without a value, the result is in registers of one role.
  void edge(int src, int dst, int delay, int distance, bool blocking, int value = -1);
  /// dst begins when src's result is there.
  void then(int src, int dst, int distance = 0, int value = -1) {
    edge(src, dst, node(src).latency, distance, false, value);
  }
  /// dst itself waits for the end of what src has begun.
  void wait(int src, int dst, int distance = 0, int value = -1) {
    edge(src, dst, node(src).latency, distance, true, value);
  }
  /// A copy through registers: they are free for the next load when they are put.
  void through_registers(int load, int put) {
    then(load, put);
    then(put, load, 1);
  }
  /// dst comes later, in whatever role it is; nothing is handed on.
  void order(int src, int dst, int delay, int distance = 0);

  // ---- values ----
  int value(std::string name, std::int64_t slot_bytes, Scope scope, int min_slots, int max_slots, int alignment = 1024);
  graph::Value& last_value() { return graph_.values.back(); }
  int value_count() const { return static_cast<int>(graph_.values.size()); }

  const arch::Arch& arch_;
  graph::Graph graph_;
};

}  // namespace tj::ops
