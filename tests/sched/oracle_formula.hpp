// The definition of a modulo schedule as a formula over booleans, for Z3: tests hold the scheduler's answers against
// it.
//
// Written from graph.hpp alone; shares nothing with the scheduler. A node's start is a row of booleans "starts at cycle
// c or later". So an edge is one clause per cycle, a modulo slot one boolean. Invariant: the formula of (II, length) is
// satisfiable exactly when a schedule with that II and no more than that length exists.
#pragma once

#include <z3++.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.hpp"
#include "oracle_graphs.hpp"

namespace tj::test {

inline std::size_t oracle_index(int i) { return static_cast<std::size_t>(i); }

inline int oracle_length(const graph::Node& node) { return std::max(1, node.latency); }

inline bool oracle_producer(const graph::Node& node) {
  return node.variable_latency || node.async == graph::Async::copy;
}

/// A bound for a graph whose nodes are all of iteration scope: no II below can satisfy units or recurrences.
inline int oracle_bound(const graph::Graph& graph) {
  int bound = 1;
  for (std::size_t u = 0; u < graph.machine.units.size(); ++u) {
    int held = 0;
    for (const graph::Node& node : graph.nodes)
      for (const graph::Reservation& use : node.reservations)
        if (use.unit == static_cast<int>(u)) held += use.cycles * use.count;
    const int capacity = graph.machine.units[u].capacity;
    bound = std::max(bound, (held + capacity - 1) / capacity);
  }
  for (;; ++bound) {
    const auto longest = longest_paths(graph, bound);
    bool positive = false;
    for (std::size_t i = 0; i < longest.size(); ++i) positive = positive || longest[i][i] > 0;
    if (!positive) return bound;
  }
}

/// A length within which an II has a schedule if it has one at all. In the earliest schedule with given places modulo
/// II, a node lies in the first round, or less than one round after the time that a predecessor asks for.
inline int oracle_horizon(const graph::Graph& graph, int ii) {
  int last = 0, longest = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    int most = 0;
    for (const graph::Edge& edge : graph.edges)
      if (edge.dst == static_cast<int>(i)) most = std::max(most, edge.delay + edge.spill_cycles - edge.distance * ii);
    last += most + ii - 1;
    longest = std::max(longest, oracle_length(graph.nodes[i]));
  }
  return last + longest;
}

class Formula {
 public:
  Formula(z3::context& context, const graph::Graph& graph, int ii, int length)
      : context_(context), graph_(graph), solver_(context, "QF_FD"), ii_(ii), length_(length) {
    for (const graph::Node& node : graph.nodes) {
      z3::expr_vector row(context);
      for (int c = 0; c < length + 1 - oracle_length(node); ++c) row.push_back(fresh());
      starts_.push_back(row);
      if (row.empty()) possible_ = false;  // longer than the length alone
    }
    for (int i = 0; possible_ && i < size(); ++i) {
      solver_.add(starts_[oracle_index(i)][0]);
      for (int c = 0; c < latest(i); ++c) clause({!from(i, c + 1), from(i, c)});
    }
  }

  /// Edges; `spill` says which edges ask for their spill cycles as well.
  template <class Spill>
  void dependences(const Spill& spill) {
    if (!possible_) return;
    for (const graph::Edge& edge : graph_.edges)
      precedence(edge, spill(edge) ? edge.spill_cycles : 0, context_.bool_val(false));
  }

  void units() {
    if (!possible_) return;
    make_slots();
    for (std::size_t u = 0; u < graph_.machine.units.size(); ++u)
      for (int slot = 0; slot < ii_; ++slot) {
        z3::expr_vector held(context_);
        std::vector<int> counts;
        for (int i = 0; i < size(); ++i)
          for (int place = 0; place < ii_; ++place)
            if (const int count = used(i, static_cast<int>(u), place, slot); count > 0) {
              held.push_back(at_slot(i, place));
              counts.push_back(count);
            }
        at_most(held, counts, graph_.machine.units[u].capacity);
      }
  }

  /// No node issues in a later stage; 0: any may.
  void at_most_stages(int stages) {
    for (int i = 0; possible_ && stages > 0 && i < size(); ++i)
      if (stages * ii_ <= latest(i)) clause({!from(i, stages * ii_)});
  }

  /// Node::warp_cycles; `share` is when two nodes are in one role.
  template <class Share>
  void warps(const Share& share) {
    if (!possible_) return;
    make_slots();
    for (int i = 0; i < size(); ++i) {
      const int first = graph_.nodes[oracle_index(i)].warp_cycles;
      if (first > ii_) possible_ = false;  // its own next instance is in the way
      for (int j = 0; j < i; ++j) {
        const int second = graph_.nodes[oracle_index(j)].warp_cycles;
        if (first == 0 || second == 0) continue;
        const z3::expr together = share(i, j);
        for (int place = 0; place < ii_; ++place)
          for (int later = 0; later < ii_; ++later)  // j issues so much after i
            if (later < first || ii_ - later < second)
              clause({!together, !at_slot(i, place), !at_slot(j, (place + later) % ii_)});
      }
    }
  }

  /// All cycles may be shifted together when the length does not matter: the node that holds units longest issues in
  /// slot 0.
  void fix_rotation() {
    if (!possible_) return;
    make_slots();
    int fixed = 0, most = -1;
    for (int i = 0; i < size(); ++i) {
      int held = 0;
      for (const graph::Reservation& use : graph_.nodes[oracle_index(i)].reservations) held += use.cycles * use.count;
      if (held > most) fixed = i;
      most = std::max(most, held);
    }
    for (int c = 0; c <= latest(fixed); ++c)
      if (c % ii_ != 0) clause({!from(fixed, c), from(fixed, c + 1)});
  }

  /// Is there a solution no longer than `length`, with all of `assumed`?
  z3::check_result check(int length, const std::vector<z3::expr>& assumed = {}) {
    if (!possible_) return z3::unsat;
    z3::expr_vector all(context_);
    for (const z3::expr& each : assumed) all.push_back(each);
    for (int i = 0; i < size(); ++i) {
      const int late = length - oracle_length(graph_.nodes[oracle_index(i)]) + 1;
      if (late <= 0) return z3::unsat;
      if (late <= latest(i)) all.push_back(!from(i, late));
    }
    return solver_.check(all);
  }
  z3::check_result check() { return check(length_); }

 protected:
  int size() const { return static_cast<int>(graph_.nodes.size()); }
  int latest(int node) const { return static_cast<int>(starts_[oracle_index(node)].size()) - 1; }
  z3::expr fresh() { return z3::expr(context_, Z3_mk_fresh_const(context_, "b", context_.bool_sort())); }
  /// The node starts at that cycle or later.
  z3::expr from(int node, int cycle) const {
    if (cycle <= 0) return context_.bool_val(true);
    return cycle > latest(node) ? context_.bool_val(false) : starts_[oracle_index(node)][static_cast<unsigned>(cycle)];
  }
  void clause(std::initializer_list<z3::expr> parts) {
    Z3_ast each[8];
    unsigned count = 0;
    for (const z3::expr& part : parts) each[count++] = part;
    solver_.add(z3::expr(context_, Z3_mk_or(context_, count, each)));
  }
  /// The edge holds with `more` cycles, or `unless`.
  void precedence(const graph::Edge& edge, int more, const z3::expr& unless) {
    const int least = edge.delay + more - edge.distance * ii_;
    if (edge.src == edge.dst) {
      if (least > 0) solver_.add(unless);
      return;
    }
    for (int c = std::max(0, 1 - least); c <= latest(edge.src); ++c)
      clause({!from(edge.src, c), from(edge.dst, c + least), unless});
  }
  /// Sum of counts[k] over the true ones of `what`.
  z3::expr sum_at_most(const z3::expr_vector& what, const std::vector<int>& counts, int capacity) const {
    if (capacity < 0) return context_.bool_val(false);
    return what.empty() ? context_.bool_val(true) : z3::pble(what, counts.data(), capacity);
  }
  void at_most(const z3::expr_vector& what, const std::vector<int>& counts, int capacity) {
    int all = 0;
    for (const int count : counts) all += count;
    if (all > capacity) solver_.add(sum_at_most(what, counts, capacity));
  }
  /// The node's place modulo II; true at least there.
  z3::expr at_slot(int node, int place) const { return slots_[oracle_index(node)][static_cast<unsigned>(place)]; }
  void make_slots() {
    if (!slots_.empty()) return;
    for (int i = 0; i < size(); ++i) {
      z3::expr_vector row(context_);
      for (int place = 0; place < ii_; ++place) row.push_back(fresh());
      slots_.push_back(row);
      for (int c = 0; c <= latest(i); ++c) clause({!from(i, c), from(i, c + 1), at_slot(i, c % ii_)});
    }
  }

  z3::context& context_;
  const graph::Graph& graph_;
  z3::solver solver_;
  int ii_, length_;
  bool possible_ = true;

 private:
  /// The count that a node which issues in slot `place` holds of a unit in `slot`.
  int used(int node, int unit, int place, int slot) const {
    int count = 0;
    for (const graph::Reservation& use : graph_.nodes[oracle_index(node)].reservations)
      for (int c = 0; c < use.cycles && use.unit == unit; ++c)
        if ((place + use.start + c) % ii_ == slot) count += use.count;
    return count;
  }

  std::vector<z3::expr_vector> starts_, slots_;
};

}  // namespace tj::test
