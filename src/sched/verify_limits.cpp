// Limits of a steady-state period (see verify_limits.hpp): each is counted from the graph and the cycles, slot by slot.
#include "sched/verify_limits.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

#include "sched/roles.hpp"
#include "sched/verify_period.hpp"
#include "support/fail.hpp"

namespace tj::sched {
namespace {

using graph::Edge;
using graph::Graph;
using graph::Machine;
using graph::Node;
using support::cat;

class Limits {
 public:
  Limits(const Graph& graph, const Schedule& schedule, std::vector<std::string>& problems)
      : g_(graph), s_(schedule), problems_(problems) {}

  void run() {
    warps();
    copies();
    if (!s_.joint) return;
    held_for_ = lifetimes();
    bodies();
    values();
    memory();
    registers();
    waits();
  }

 private:
  const Node& node(int i) const { return g_.nodes[static_cast<std::size_t>(i)]; }
  int nodes() const { return static_cast<int>(g_.nodes.size()); }
  int roles() const { return static_cast<int>(s_.roles.size()); }
  bool loops(int i) const { return node(i).scope == graph::Scope::iteration; }
  std::int64_t cycle(int i) const { return s_.cycle[static_cast<std::size_t>(i)]; }
  int role(int i) const { return s_.role[static_cast<std::size_t>(i)]; }
  const std::string& role_name(int r) const { return s_.roles[static_cast<std::size_t>(r)].name; }
  template <class... Parts>
  void report(const Parts&... parts) {
    problems_.push_back(cat(parts...));
  }

  /// "a 2, b 1": who makes up the peak.
  std::string who(const Period& period, std::int64_t slot) const {
    std::string text;
    for (const Period::Holder& each : period.holders(slot))
      text += cat(text.empty() ? "" : ", ", node(each.who).name, " ", each.amount);
    return text;
  }

  /// A role's warps are busy with one node at a time, where nodes say for how long.
  void warps() {
    for (int r = 0; r < roles(); ++r) {
      Period busy(s_.ii);
      for (int i = 0; i < nodes(); ++i)
        if (loops(i) && role(i) == r) busy.hold(i, cycle(i), node(i).warp_cycles, 1);
      if (const auto peak = busy.peak(); peak.amount > 1)
        report("role ", role_name(r), " has its warps in ", peak.amount, " nodes at once in slot ", peak.slot, ": ",
               who(busy, peak.slot));
    }
  }

  /// Each role computes for one copy, where that was asked for.
  void copies() {
    if (!s_.copies_apart) return;
    for (int r = 0; r < roles(); ++r) {
      int first = -1;
      for (int i = 0; i < nodes(); ++i) {
        if (!loops(i) || role(i) != r || kind_of(node(i)) != RoleKind::compute) continue;
        if (first < 0) first = i;
        if (node(i).copy != node(first).copy)
          report("role ", role_name(r), " runs ", node(first).name, ", of copy ", node(first).copy, ", and ",
                 node(i).name, ", of copy ", node(i).copy, ", which must be apart");
      }
    }
  }

  /// A body with a context is written for the warps of its role. With mixed roles fewer of a role's warps may run it.
  void bodies() {
    if (s_.mixed_roles) return;
    for (int r = 0; r < roles(); ++r) {
      int first = -1;
      for (int i = 0; i < nodes(); ++i) {
        if (role(i) != r || node(i).context.empty()) continue;
        if (first < 0) first = i;
        if (node(i).warps != node(first).warps)
          report("role ", role_name(r), " runs ", node(first).name, ", written for ", node(first).warps, " warps, and ",
                 node(i).name, ", written for ", node(i).warps);
      }
    }
  }

  /// A value in shared memory is there for another role.
  void values() {
    if (s_.mixed_roles) return;
    std::vector<bool> inside(g_.values.size(), false), outside(g_.values.size(), false);
    for (const Edge& edge : g_.edges)
      if (edge.value >= 0)
        (loops(edge.src) && loops(edge.dst) && role(edge.src) == role(edge.dst)
             ? inside
             : outside)[static_cast<std::size_t>(edge.value)] = true;
    for (std::size_t v = 0; v < inside.size(); ++v)
      if (inside[v] && !outside[v])
        report("value ", g_.values[v].name,
               " is read in the role that writes it alone; another role must read it, too");
  }

  /// Per node, the cycles for which its value is held: from its issue until every reader in the loop is done with it. A
  /// value that a node hands to its own next instance gives way when that instance issues. Later instances find nothing
  /// of it.
  std::vector<std::int64_t> lifetimes() const {
    std::vector<std::int64_t> result(g_.nodes.size(), 0);
    std::vector<bool> read(g_.nodes.size(), false);
    const auto busy_for = [&](int i) {
      return std::max<std::int64_t>(1, counts_as_free(g_, s_, i) ? 0 : node(i).latency);
    };
    std::vector<std::int64_t> own(g_.nodes.size(), -1);
    for (const Edge& edge : g_.edges) {
      if (!loops(edge.src) || !loops(edge.dst)) continue;
      const auto i = static_cast<std::size_t>(edge.src);
      const std::int64_t round = std::int64_t{edge.distance} * s_.ii;
      read[i] = true;
      if (edge.dst == edge.src)
        own[i] = own[i] < 0 ? round : std::min(own[i], round);
      else
        result[i] = std::max(result[i], cycle(edge.dst) + round + busy_for(edge.dst) - cycle(edge.src));
    }
    for (std::size_t i = 0; i < own.size(); ++i) result[i] = std::max(result[i], own[i]);
    for (int i = 0; i < nodes(); ++i)
      if (!read[static_cast<std::size_t>(i)]) result[static_cast<std::size_t>(i)] = busy_for(i);
    return result;
  }

  void memory() {
    for (const auto& [space, capacity] : g_.machine.memory_bytes) {
      Period held(s_.ii);
      for (int i = 0; i < nodes(); ++i) {
        const auto found = node(i).memory_bytes.find(space);
        if (loops(i) && found != node(i).memory_bytes.end())
          held.hold(i, cycle(i), held_for_[static_cast<std::size_t>(i)], found->second);
      }
      if (const auto peak = held.peak(); peak.amount > capacity)
        report("memory ", space, " holds ", peak.amount, " bytes of ", capacity, " in slot ", peak.slot, ": ",
               who(held, peak.slot));
    }
  }

  /// Live values by the role of the node that makes them, against what the role has.
  void registers() {
    const Machine& machine = g_.machine;
    std::int64_t groups = 0;  // small roles that compute nothing sit in one
    for (const int own : groups_of(machine, s_)) groups += own;
    const std::int64_t step = std::max(1, machine.register_step),
                       threads = std::int64_t{machine.warps_per_group} * machine.warp_size;
    const std::int64_t share = std::min<std::int64_t>(
        machine.max_registers_per_thread, machine.registers / (threads * std::max<std::int64_t>(1, groups)));
    for (int r = 0; r < roles(); ++r) {
      Period live(s_.ii);
      for (int i = 0; i < nodes(); ++i)
        if (loops(i) && role(i) == r) live.hold(i, cycle(i), held_for_[static_cast<std::size_t>(i)], node(i).registers);
      const auto peak = live.peak();
      const std::int64_t has =
          machine.register_roles ? s_.roles[static_cast<std::size_t>(r)].registers : share / step * step;
      for (int i = 0; i < nodes() && !machine.register_roles; ++i)
        if (role(i) == r && node(i).registers > has)
          report("node ", node(i).name, " needs ", node(i).registers, " registers, its role has ", has);
      if (peak.amount > has)
        report("role ", role_name(r), " holds ", peak.amount, " registers a thread in slot ", peak.slot, ", it has ",
               has, ": ", who(live, peak.slot));
    }
  }

  /// The warps of a waiting node's role stand still: no node of the role may be issuing when the wait ends.
  void waits() {
    std::set<int> waiting;
    for (const Edge& edge : g_.edges)
      if (edge.blocking && loops(edge.src) && loops(edge.dst)) waiting.insert(edge.dst);
    for (const int v : waiting)
      for (int o = 0; o < nodes(); ++o) {
        if (o == v || !loops(o) || role(o) != role(v)) continue;
        const std::int64_t since = (((cycle(v) - cycle(o)) % s_.ii) + s_.ii) % s_.ii;  // issue of the last o
        if (since < node(o).cycles)
          report("node ", node(v).name, " waits in role ", role_name(role(v)), " while ", node(o).name,
                 " issues: ", since, " cycles before, it takes ", node(o).cycles);
      }
  }

  const Graph& g_;
  const Schedule& s_;
  std::vector<std::string>& problems_;
  std::vector<std::int64_t> held_for_;
};

}  // namespace

bool counts_as_free(const Graph& graph, const Schedule& schedule, int node) {
  const Node& load = graph.nodes[static_cast<std::size_t>(node)];
  if (!schedule.streaming_latency_zero || !load.streaming || !load.variable_latency) return false;
  return std::none_of(graph.edges.begin(), graph.edges.end(), [&](const Edge& edge) {
    return edge.dst == node && graph.nodes[static_cast<std::size_t>(edge.src)].scope == graph::Scope::iteration;
  });
}

void verify_limits(const Graph& graph, const Schedule& schedule, std::vector<std::string>& problems) {
  Limits(graph, schedule, problems).run();
}

}  // namespace tj::sched
