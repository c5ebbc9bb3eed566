// Constraints of joint.hpp beyond edges and units, as a formula: roles, spills, waits, bytes and registers that are
// held.
//
// Written from the meaning of the constraints and graph.hpp alone. Roles are variables: Z3 finds them, or shows that
// there are none. Invariant: satisfiable exactly when cycles and roles exist that satisfy everything.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "oracle_formula.hpp"

namespace tj::test {

class JointFormula : public Formula {
 public:
  /// `slots` per value of the graph.
  JointFormula(z3::context& context, const graph::Graph& graph, const std::vector<int>& slots, int ii, int length,
               int max_roles, bool copies_apart = false)
      : Formula(context, graph, ii, length), max_roles_(max_roles), copies_apart_(copies_apart) {
    if (!possible_) return;
    make_roles();
    for (const graph::Edge& refill : refill_edges(graph, slots)) precedence(refill, 0, same(refill.src, refill.dst));
    for (const graph::Edge& edge : graph.edges) {
      precedence(edge, 0, context.bool_val(false));
      if (edge.same_role) solver_.add(same(edge.src, edge.dst));
      if (edge.spill_cycles > 0 && edge.src != edge.dst) precedence(edge, edge.spill_cycles, same(edge.src, edge.dst));
    }
    for (int v = 0; v < static_cast<int>(graph.values.size()); ++v) leaves_role(v);
    units();
    warps([this](int i, int j) { return same(i, j); });
    waits();
    memory();
    registers();
  }

  /// The node runs in that role.
  z3::expr in_role(int node, int role) const { return roles_[oracle_index(node)][static_cast<unsigned>(role)]; }
  /// No more than so many roles: they are opened in order.
  std::vector<z3::expr> at_most_roles(int roles) const {
    std::vector<z3::expr> result;
    for (int i = 0; i < size(); ++i)
      for (int r = roles; r < max_roles_; ++r) result.push_back(!in_role(i, r));
    return result;
  }
  /// The nodes are parted as in `role`, whatever the roles are called.
  std::vector<z3::expr> parted_as(const std::vector<int>& role) const {
    std::vector<z3::expr> result;
    for (int i = 0; i < size(); ++i)
      for (int j = 0; j < i; ++j)
        result.push_back(role[oracle_index(i)] == role[oracle_index(j)] ? same(i, j) : !same(i, j));
    return result;
  }

 private:
  const graph::Node& node(int i) const { return graph_.nodes[oracle_index(i)]; }

  void make_roles() {
    for (int i = 0; i < size(); ++i) {
      z3::expr_vector row(context_), pairs(context_);
      for (int r = 0; r < max_roles_; ++r) row.push_back(fresh());
      for (int j = 0; j < i; ++j) pairs.push_back(fresh());
      roles_.push_back(row);
      same_.push_back(pairs);
      solver_.add(z3::mk_or(row));
      for (int r = 0; r < max_roles_; ++r) {
        for (int q = 0; q < r; ++q) clause({!in_role(i, q), !in_role(i, r)});
        if (r == 0) continue;
        z3::expr_vector before(context_);  // who opened the role in front of this one
        before.push_back(!in_role(i, r));
        for (int j = 0; j < i; ++j) before.push_back(in_role(j, r - 1));
        solver_.add(z3::mk_or(before));
      }
      for (int j = 0; j < i; ++j) {
        for (int r = 0; r < max_roles_; ++r) {
          clause({!in_role(i, r), !in_role(j, r), same(i, j)});
          clause({!same(i, j), !in_role(i, r), in_role(j, r)});
        }
        const bool warps_differ =
            !node(i).context.empty() && !node(j).context.empty() && node(i).warps != node(j).warps;
        if (copies_apart_ && node(i).copy != node(j).copy && !oracle_producer(node(i)) && !oracle_producer(node(j)))
          solver_.add(!same(i, j));
        if (warps_differ || oracle_producer(node(i)) != oracle_producer(node(j))) solver_.add(!same(i, j));
      }
    }
  }

  /// A value in shared memory is read in another role than the one that writes it.
  void leaves_role(int value) {
    z3::expr_vector any(context_);
    for (const graph::Edge& edge : graph_.edges)
      if (edge.value == value) any.push_back(!same(edge.src, edge.dst));
    if (!any.empty()) solver_.add(z3::mk_or(any));
  }

  z3::expr same(int i, int j) const {
    if (i == j) return context_.bool_val(true);
    return same_[oracle_index(std::max(i, j))][static_cast<unsigned>(std::min(i, j))];
  }

  void waits() {
    std::set<int> waiting;
    for (const graph::Edge& edge : graph_.edges)
      if (edge.blocking) waiting.insert(edge.dst);
    for (const int v : waiting)
      for (int o = 0; o < size(); ++o)
        for (int place = 0; place < ii_ && o != v; ++place)
          for (int back = 0; back < std::min(ii_, node(o).cycles); ++back)
            clause({!same(v, o), !at_slot(v, place), !at_slot(o, (place - back + ii_) % ii_)});
  }

  /// Until when a reader of a value needs it, after the reader's issue in the value's own iteration.
  int read_for(const graph::Edge& edge) const {
    return edge.distance * ii_ + (edge.dst == edge.src ? 0 : oracle_length(node(edge.dst)));
  }

  /// Per cycle from 0: is the node's value held then?
  const z3::expr_vector& live(int i) {
    const auto known = live_.find(i);
    if (known != live_.end()) return known->second;
    std::vector<graph::Edge> readers;
    int own = -1;  // the first of its own later instances takes the value's place
    for (std::size_t e = 0; e < graph_.edges.size(); ++e)
      if (graph_.edges[e].src == i && graph_.edges[e].dst == i &&
          (own < 0 || graph_.edges[e].distance < graph_.edges[oracle_index(own)].distance))
        own = static_cast<int>(e);
    for (std::size_t e = 0; e < graph_.edges.size(); ++e)
      if (graph_.edges[e].src == i && (graph_.edges[e].dst != i || static_cast<int>(e) == own))
        readers.push_back(graph_.edges[e]);
    z3::expr_vector row(context_);
    const auto hold = [&](int reader, int needs) {
      for (int c = 0; c < latest(reader) + needs; ++c) {
        while (static_cast<int>(row.size()) <= c) row.push_back(fresh());
        clause({from(i, c + 1), !from(reader, c - needs + 1), row[static_cast<unsigned>(c)]});
      }
    };
    for (const graph::Edge& edge : readers) hold(edge.dst, read_for(edge));
    if (readers.empty()) hold(i, oracle_length(node(i)));
    return live_.emplace(i, row).first->second;
  }

  /// Per slot of a period: the booleans of what is held then, with their amounts.
  struct Held {
    z3::expr_vector what;
    std::vector<int> amounts;
    int sum = 0;
  };

  void collect(const z3::expr_vector& row, int amount, std::vector<Held>& slots) {
    while (static_cast<int>(slots.size()) < ii_) slots.push_back({z3::expr_vector(context_), {}, 0});
    for (unsigned c = 0; amount > 0 && c < row.size(); ++c) {
      Held& slot = slots[c % static_cast<unsigned>(ii_)];
      slot.what.push_back(row[c]);
      slot.amounts.push_back(amount);
      slot.sum += amount;
    }
  }

  void memory() {
    for (const auto& [space, capacity] : graph_.machine.memory_bytes) {
      std::vector<Held> slots;
      for (int i = 0; i < size(); ++i) {
        const auto found = node(i).memory_bytes.find(space);
        if (found != node(i).memory_bytes.end() && found->second > 0)
          collect(live(i), static_cast<int>(found->second), slots);
      }
      for (const Held& slot : slots) at_most(slot.what, slot.amounts, static_cast<int>(capacity));
    }
  }

  int groups(int i) const {
    return (node(i).warps + graph_.machine.warps_per_group - 1) / graph_.machine.warps_per_group;
  }

  /// Per role, the booleans "has at least 1, 2, ... groups of warps".
  std::vector<z3::expr_vector> make_groups() {
    int most = 0;
    for (int i = 0; i < size(); ++i) most = std::max(most, groups(i));
    std::vector<z3::expr_vector> result;
    for (int r = 0; r < max_roles_; ++r) {
      result.emplace_back(context_);
      for (int g = 1; g <= most; ++g) {
        const z3::expr enough = fresh();
        z3::expr_vector any(context_);
        any.push_back(!enough);
        for (int i = 0; i < size(); ++i) {
          if (groups(i) < g) continue;
          clause({!in_role(i, r), enough});
          any.push_back(in_role(i, r));
        }
        solver_.add(z3::mk_or(any));
        result.back().push_back(enough);
      }
    }
    return result;
  }

  std::vector<Held> registers_of(int role) {
    std::vector<Held> slots;
    for (int i = 0; i < size(); ++i) {
      if (node(i).registers == 0) continue;
      const z3::expr_vector& alive = live(i);
      z3::expr_vector held(context_);
      for (const z3::expr& each : alive) {
        held.push_back(fresh());
        clause({!each, !in_role(i, role), held.back()});
      }
      collect(held, node(i).registers, slots);
    }
    return slots;
  }

  void registers() {
    if (std::all_of(graph_.nodes.begin(), graph_.nodes.end(),
                    [](const graph::Node& each) { return each.registers == 0; }))
      return;
    const std::vector<z3::expr_vector> has_groups = make_groups();
    std::vector<std::vector<Held>> held;
    z3::expr_vector all(context_);
    for (int r = 0; r < max_roles_; ++r) {
      held.push_back(registers_of(r));
      for (const z3::expr& enough : has_groups[oracle_index(r)]) all.push_back(enough);
    }
    const std::vector<int> ones(all.size(), 1);
    for (int total = 1; total <= static_cast<int>(all.size()); ++total) {
      const z3::expr is_total = z3::pbeq(all, ones.data(), total);
      if (graph_.machine.register_roles)
        share_out(is_total, total, held, has_groups);
      else
        share_alike(is_total, total, held);
    }
  }

  int whole_steps(std::int64_t count) const {
    return static_cast<int>(count / graph_.machine.register_step * graph_.machine.register_step);
  }
  int most_registers() const { return whole_steps(graph_.machine.max_registers_per_thread); }
  int share_of(int total) const {
    const std::int64_t threads = std::int64_t{graph_.machine.warps_per_group} * graph_.machine.warp_size;
    return std::min(most_registers(), whole_steps(graph_.machine.registers / (threads * total)));
  }

  /// Registers stay where the launch put them: every group has the same.
  void share_alike(const z3::expr& is_total, int total, const std::vector<std::vector<Held>>& held) {
    for (const auto& slots : held)
      for (const Held& slot : slots)
        if (slot.sum > share_of(total)) solver_.add(!is_total || sum_at_most(slot.what, slot.amounts, share_of(total)));
  }

  /// Groups may give registers to others, down to 24 a thread, in whole steps.
  void share_out(const z3::expr& is_total, int total, const std::vector<std::vector<Held>>& held,
                 const std::vector<z3::expr_vector>& has_groups) {
    const int step = graph_.machine.register_step, least = whole_steps(24 + step - 1);
    if (steps_.empty()) {
      for (int r = 0; r < max_roles_; ++r) {
        for (const Held& slot : held[oracle_index(r)]) at_most(slot.what, slot.amounts, most_registers());
        for (int count = least; count < most_registers(); count += step) {
          const z3::expr more = fresh();  // the role needs more than `count`
          for (const Held& slot : held[oracle_index(r)])
            if (slot.sum > count) solver_.add(more || sum_at_most(slot.what, slot.amounts, count));
          for (const z3::expr& enough : has_groups[oracle_index(r)]) {
            steps_.push_back(fresh());
            clause({!more, !enough, steps_.back()});
          }
        }
      }
    }
    const std::vector<int> each_step(steps_.size(), step);
    solver_.add(!is_total || sum_at_most(steps_, each_step, (share_of(total) - least) * total));
  }

  int max_roles_;
  bool copies_apart_;
  std::vector<z3::expr_vector> roles_, same_;
  std::map<int, z3::expr_vector> live_;
  z3::expr_vector steps_{context_};  ///< each a step of registers that a group has above the least
};

}  // namespace tj::test
