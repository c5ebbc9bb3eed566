// Checks a schedule against its graph alone. Shares no code with the search: own tables, own lifetimes, own register
// sums.
//
// Decides only right or wrong. Invariant: a schedule with an empty answer is executable as its own cycles say, with
// every role running its nodes strictly in order.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sched/roles.hpp"
#include "sched/schedule.hpp"
#include "sched/verify_limits.hpp"
#include "sched/verify_period.hpp"
#include "sched/verify_places.hpp"
#include "support/fail.hpp"

namespace tj::sched {
namespace {

using graph::Async;
using graph::Edge;
using graph::Graph;
using graph::Node;
using graph::Scope;
using support::cat;

constexpr int kLeastRegisters =
    24;  ///< of a role that has given registers to others: 24 to 256 in steps of 8, says the PTX ISA

class Verifier {
 public:
  Verifier(const Graph& graph, const Schedule& schedule) : g_(graph), s_(schedule) {}

  std::vector<std::string> run() {
    if (!shapes()) return std::move(problems_);
    times();
    edges();
    units();
    roles();
    registers();
    verify_limits(g_, s_, problems_);
    if (problems_.empty()) {  // the checks below read orders and roles
      orders();
      rings();
      turns();
    }
    return std::move(problems_);
  }

 private:
  template <class... Parts>
  void report(const Parts&... parts) {
    problems_.push_back(cat(parts...));
  }
  const Node& node(int i) const { return g_.nodes[static_cast<std::size_t>(i)]; }
  const std::string& name(int i) const { return node(i).name; }
  int nodes() const { return static_cast<int>(g_.nodes.size()); }
  bool loops(int i) const { return node(i).scope == Scope::iteration; }
  std::int64_t cycle(int i) const { return s_.cycle[static_cast<std::size_t>(i)]; }
  /// A role's steps begin at its own cycle of the period; which step a node runs in, and when after that step's begin.
  std::int64_t begin_of(int r) const { return s_.roles[static_cast<std::size_t>(r)].origin; }
  std::int64_t step_of(int i) const {
    const std::int64_t since = cycle(i) - begin_of(role(i));
    return since >= 0 ? since / s_.ii : -((-since + s_.ii - 1) / s_.ii);
  }
  std::int64_t within(int i) const { return cycle(i) - begin_of(role(i)) - step_of(i) * s_.ii; }
  int role(int i) const { return s_.role[static_cast<std::size_t>(i)]; }
  const std::vector<int>& list(int r) const { return s_.roles[static_cast<std::size_t>(r)].nodes; }

  /// Vectors that can be indexed at all.
  bool shapes() {
    if (s_.ii < 1) report("II is ", s_.ii, ", must be at least 1");
    if (s_.cycle.size() != g_.nodes.size())
      report("cycles are given for ", s_.cycle.size(), " of ", g_.nodes.size(), " nodes");
    if (s_.role.size() != g_.nodes.size())
      report("roles are given for ", s_.role.size(), " of ", g_.nodes.size(), " nodes");
    for (std::size_t i = 0; i < s_.role.size(); ++i)
      if (s_.role[i] < 0 || s_.role[i] >= static_cast<int>(s_.roles.size()))
        report("node ", i, " belongs to role ", s_.role[i], ", which does not exist");
    return problems_.empty();
  }

  void times() {
    std::int64_t first = -1, end = 0;
    for (int i = 0; i < nodes(); ++i) {
      if (cycle(i) < 0) report("node ", name(i), " has negative cycle ", cycle(i));
      if (!loops(i)) {
        if (cycle(i) != 0) report("tile-scope node ", name(i), " has cycle ", cycle(i), ", must be 0");
        continue;
      }
      first = first < 0 ? cycle(i) : std::min(first, cycle(i));
      end = std::max(end, cycle(i) + std::max<std::int64_t>(1, free_load(i) ? 0 : node(i).latency));
      if (s_.stage(i) != cycle(i) / s_.ii)
        report("node ", name(i), " is in stage ", s_.stage(i), ", cycle ", cycle(i), " says otherwise");
    }
    if (first != 0) report("the first node issues at cycle ", first, ", must be 0");
    if (end != s_.length) report("length is ", s_.length, ", the nodes end at ", end);
  }

  bool free_load(int i) const { return counts_as_free(g_, s_, i); }

  void edges() {
    for (const Edge& edge : g_.edges) {
      if (edge.same_role && role(edge.src) != role(edge.dst))
        report("edge ", name(edge.src), " -> ", name(edge.dst), " leaves its role");
      if (!loops(edge.src) || !loops(edge.dst)) continue;
      std::int64_t delay = free_load(edge.src) ? 0 : edge.delay;
      if (role(edge.src) != role(edge.dst)) delay += edge.spill_cycles;
      const std::int64_t slack = cycle(edge.dst) + std::int64_t{edge.distance} * s_.ii - cycle(edge.src) - delay;
      if (slack < 0) report("edge ", name(edge.src), " -> ", name(edge.dst), " is short of ", -slack, " cycles");
    }
  }

  void units() {
    for (std::size_t u = 0; u < g_.machine.units.size(); ++u) {
      Period held(s_.ii);
      std::int64_t all = 0;  // of the blocks of an SM
      for (int i = 0; i < nodes(); ++i)
        for (const graph::Reservation& use : node(i).reservations)
          if (loops(i) && use.unit == static_cast<int>(u)) {
            held.hold(i, cycle(i) + use.start, use.cycles, use.count);
            all += std::int64_t{use.cycles} * use.count * g_.blocks_per_sm;
          }
      if (all > std::int64_t{s_.ii} * g_.machine.units[u].capacity)
        report("unit ", g_.machine.units[u].name, " is held for ", all, " cycles an iteration by ", g_.blocks_per_sm,
               " blocks, II is ", s_.ii);
      if (const auto peak = held.peak(); peak.amount > g_.machine.units[u].capacity) {
        std::string who;
        for (const Period::Holder& each : held.holders(peak.slot))
          who += cat(who.empty() ? "" : ", ", name(each.who), " ", each.amount);
        report("unit ", g_.machine.units[u].name, " holds ", peak.amount, " of ", g_.machine.units[u].capacity,
               " in slot ", peak.slot, ": ", who);
      }
    }
  }

  void roles() {
    std::vector<int> seen(g_.nodes.size(), 0);
    if (!g_.machine.shared_barriers && s_.roles.size() > 1)
      report("there are ", s_.roles.size(), " roles; where blocks have no barriers in shared memory, allowed is one");
    for (std::size_t r = 0; r < s_.roles.size(); ++r) {
      if (s_.roles[r].origin < 0 || s_.roles[r].origin >= s_.ii)
        report("role ", s_.roles[r].name, " begins its steps at cycle ", s_.roles[r].origin, ", allowed are 0 to ",
               s_.ii - 1);
      std::set<RoleKind> kinds;
      for (const int n : s_.roles[r].nodes) {
        if (n < 0 || n >= nodes()) {
          report("role ", s_.roles[r].name, " lists node ", n, ", which does not exist");
          continue;
        }
        ++seen[static_cast<std::size_t>(n)];
        if (role(n) != static_cast<int>(r))
          report("node ", name(n), " is listed in role ", s_.roles[r].name, " but belongs to role ", role(n));
        kinds.insert(kind_of(node(n)));
        if (node(n).warps > s_.roles[r].warps)
          report("role ", s_.roles[r].name, " has ", s_.roles[r].warps, " warps, node ", name(n), " needs ",
                 node(n).warps);
      }
      if (kinds.size() > 1 && !s_.mixed_roles)
        report("role ", s_.roles[r].name,
               " mixes nodes of variable latency, bulk stores, or products that one thread asks for, with others");
    }
    for (int i = 0; i < nodes(); ++i)
      if (seen[static_cast<std::size_t>(i)] != 1)
        report("node ", name(i), " is in ", seen[static_cast<std::size_t>(i)], " roles, must be in one");
  }

  /// A role issues in list order, step after step. That must be the order of the cycles, and satisfy its own edges.
  void orders() {
    for (int r = 0; r < static_cast<int>(s_.roles.size()); ++r) {
      std::map<int, std::size_t> place;
      std::int64_t last = -1;
      for (std::size_t p = 0; p < list(r).size(); ++p) {
        const int n = list(r)[p];
        place[n] = p;
        if (!loops(n)) continue;
        if (within(n) < last)
          report("role ", s_.roles[static_cast<std::size_t>(r)].name, " issues ", name(n),
                 " out of the order of its cycles");
        last = within(n);
      }
      for (const Edge& edge : g_.edges) {
        if (role(edge.src) != r || role(edge.dst) != r || edge.src == edge.dst || edge.delay < 0) continue;
        const bool both = loops(edge.src) && loops(edge.dst), same_scope = node(edge.src).scope == node(edge.dst).scope;
        if (!same_scope) continue;
        const std::int64_t steps = both ? step_of(edge.dst) + edge.distance - step_of(edge.src) : 0;
        if (steps < 0 || (steps == 0 && place[edge.src] > place[edge.dst]))
          report("role ", s_.roles[static_cast<std::size_t>(r)].name, " issues ", name(edge.dst), " before ",
                 name(edge.src), ", on which it depends");
      }
    }
  }

  /// All threads are launched with the same count; machines that move registers move them from role to role in whole
  /// steps.
  void registers() {
    const graph::Machine& m = g_.machine;
    std::int64_t all = 0, total = 0;
    for (const Role& each : s_.roles)
      if (each.warps < 1) return report("role ", each.name, " has ", each.warps, " warps");
    const std::vector<int> groups = groups_of(m, s_);
    for (const int each : groups) all += each;
    const std::int64_t threads = std::int64_t{m.warps_per_group} * m.warp_size;
    const std::int64_t most = std::min<std::int64_t>(m.max_registers_per_thread, m.registers / (threads * all));
    const std::int64_t step = std::max(1, m.register_step), launched = most / step * step;
    for (std::size_t r = 0; r < s_.roles.size(); ++r) {
      const Role& each = s_.roles[r];
      total += groups[r] * (each.registers == 0 ? launched : each.registers);
      if (each.registers == 0) continue;
      if (!m.register_roles)
        report("role ", each.name, " has ", each.registers, " registers, but the machine cannot move any; must be 0");
      if (each.registers < kLeastRegisters || each.registers > m.max_registers_per_thread || each.registers % step != 0)
        report("role ", each.name, " has ", each.registers, " registers; allowed are multiples of ", step, " from ",
               kLeastRegisters, " to ", m.max_registers_per_thread);
    }
    for (int i = 0; i < nodes(); ++i)
      if (const int has = s_.roles[static_cast<std::size_t>(role(i))].registers; has != 0 && node(i).registers > has)
        report("node ", name(i), " needs ", node(i).registers, " registers, its role has ", has);
    if (total > launched * all)
      report("roles take ", total * threads, " registers of ", launched * all * threads, ": the block starts with ",
             launched, " a thread");
  }

  /// End of the node of role r that issues last before cycle `at` (absolute), or `at` itself when that node is still
  /// busy.
  std::int64_t idle_from(int r, int waiting, std::int64_t at) const {
    std::int64_t latest = at - s_.ii, end = latest;
    const auto& order = list(r);
    const auto self = static_cast<std::size_t>(std::find(order.begin(), order.end(), waiting) - order.begin());
    for (std::size_t p = 0; p < order.size(); ++p) {
      if (!loops(order[p])) continue;
      std::int64_t issue = cycle(order[p]) + (at - cycle(order[p])) / s_.ii * s_.ii;
      while (issue > at) issue -= s_.ii;
      while (issue + s_.ii <= at) issue += s_.ii;
      if (issue == at && p >= self) issue -= s_.ii;
      if (issue < latest) continue;
      latest = issue;
      end = std::min(at, issue + node(order[p]).cycles);
    }
    return end;
  }

  /// The cycle at which the role of matrix node `reader` (iteration 0) knows that it is complete.
  std::int64_t known_done(int reader) const {
    std::int64_t earliest = -1;
    for (const Edge& edge : g_.edges) {
      const bool waits = edge.blocking && node(edge.src).async == Async::matrix && loops(edge.src) && loops(edge.dst) &&
                         role(edge.src) == role(reader) && role(edge.dst) == role(reader);
      if (!waits) continue;
      std::int64_t instance = 0;  // of edge.src; groups complete in issue order
      while (cycle(edge.src) + instance * s_.ii < cycle(reader)) ++instance;
      while (cycle(edge.src) + (instance - 1) * s_.ii >= cycle(reader)) --instance;
      if (edge.src == reader) instance = 0;
      const std::int64_t looks =
          idle_from(role(reader), edge.dst, cycle(edge.dst) + (instance + edge.distance) * s_.ii);
      if (earliest < 0 || looks < earliest) earliest = looks;
    }
    return std::max(cycle(reader) + node(reader).latency, earliest);
  }

  /// The cycle at which its role knows that a bulk store has read a slot, in a ring of several slots: it looks after
  /// its next store.
  std::int64_t known_stored(int reader) const {
    std::int64_t next = cycle(reader) + s_.ii;
    for (const int other : list(role(reader)))
      if (other != reader && loops(other) && node(other).async == Async::store)
        for (std::int64_t at = cycle(other) - (cycle(other) - cycle(reader)) / s_.ii * s_.ii - s_.ii; at < next;
             at += s_.ii)
          if (at > cycle(reader)) next = at;
    return std::max(cycle(reader) + node(reader).latency, next + node(reader).cycles);
  }

  void rings() {
    std::map<int, int> ring_of;
    for (std::size_t k = 0; k < s_.rings.size(); ++k) {
      const int value = s_.rings[k].value;
      if (value < 0 || value >= static_cast<int>(g_.values.size()))
        return report("ring ", k, " holds value ", value, ", which does not exist");
      if (!ring_of.emplace(value, static_cast<int>(k)).second)
        report("value ", g_.values[static_cast<std::size_t>(value)].name, " has two rings");
    }
    std::int64_t bytes = 0;
    for (int v = 0; v < static_cast<int>(g_.values.size()); ++v) bytes += one_ring(v, ring_of);
    const auto smem = g_.machine.memory_bytes.find("SMEM");
    bytes += graph::walk_bytes(g_);
    const auto done = [&](int reader, int filler) {
      return node(reader).async == Async::matrix && role(reader) != role(filler)
                 ? known_done(reader)
                 : cycle(reader) + std::max(1, node(reader).latency);
    };
    bytes -= verify_places(g_, s_, done, problems_);
    if (smem != g_.machine.memory_bytes.end() && bytes > smem->second)
      report("rings take ", bytes, " bytes of SMEM, there are ", smem->second);
  }

  std::int64_t one_ring(int v, const std::map<int, int>& ring_of) {
    const graph::Value& value = g_.values[static_cast<std::size_t>(v)];
    std::set<int> readers;
    int producer = -1;
    std::int64_t lifetime = 0;
    for (const Edge& edge : g_.edges) {
      if (edge.value != v) continue;
      producer = role(edge.src);
      const bool inside = role(edge.dst) == producer;  // the node that fills the slot again waits for the reader itself
      if (!inside || s_.mixed_roles) readers.insert(role(edge.dst));
      if (!loops(edge.src) || !loops(edge.dst)) continue;
      std::int64_t done = cycle(edge.dst) + (inside ? std::max(1, node(edge.dst).latency) : node(edge.dst).latency);
      if (node(edge.dst).async == Async::matrix && !inside) done = known_done(edge.dst);
      const bool behind = ring_of.count(v) != 0 && s_.rings[static_cast<std::size_t>(ring_of.at(v))].slots > 1;
      if (node(edge.dst).async == Async::store && !inside && behind) done = known_stored(edge.dst);
      lifetime = std::max(lifetime, done + std::int64_t{edge.distance} * s_.ii - cycle(edge.src));
    }
    const auto found = ring_of.find(v);
    if (readers.empty()) {
      if (found != ring_of.end()) report("value ", value.name, " stays in one role but has a ring");
      return 0;
    }
    if (found == ring_of.end()) {
      report("value ", value.name, " crosses roles but has no ring");
      return 0;
    }
    const Ring& ring = s_.rings[static_cast<std::size_t>(found->second)];
    if (ring.producer_role != producer)
      report("ring ", value.name, " is filled by role ", ring.producer_role, ", must be ", producer);
    if (std::set<int>(ring.consumer_roles.begin(), ring.consumer_roles.end()) != readers ||
        ring.consumer_roles.size() != readers.size())
      report("ring ", value.name, " names other consumers than its readers");
    const int least = value.min_slots, most = value.scope == Scope::iteration ? value.max_slots : value.min_slots;
    if (ring.slots < least || ring.slots > most)
      report("ring ", value.name, " has ", ring.slots, " slots, allowed are ", least, " to ", most);
    if (value.scope == Scope::iteration && std::int64_t{ring.slots} * s_.ii < lifetime)
      report("ring ", value.name, " has ", ring.slots, " slots for a lifetime of ", lifetime, " cycles at II ", s_.ii);
    return ring.slots * ((value.space == graph::Space::tensor ? 0 : value.slot_bytes) + 16);
  }

  /// Turns must be the schedule's own order: replayed over a few periods, k-th runs come in the order of the barrier.
  void turns() {
    for (const OrderBarrier& barrier : s_.order_barriers) {
      if (barrier.unit < 0 || barrier.unit >= static_cast<int>(g_.machine.units.size()) ||
          barrier.roles.size() != barrier.nodes.size() || barrier.roles.size() < 2) {
        report("an order barrier names no unit, or has unequal lists");
        continue;
      }
      one_barrier(barrier, g_.machine.units[static_cast<std::size_t>(barrier.unit)].name);
    }
  }

  void one_barrier(const OrderBarrier& barrier, const std::string& unit) {
    std::set<int> listed;
    std::vector<std::int64_t> begin, end;
    std::vector<std::vector<std::int64_t>> depth;
    for (std::size_t k = 0; k < barrier.roles.size(); ++k) {
      if (barrier.nodes[k].empty()) return report("order barrier of ", unit, ": a role has no nodes");
      depth.emplace_back();
      std::int64_t last = -1;
      for (const int n : barrier.nodes[k]) {
        if (n < 0 || n >= nodes() || !loops(n) || role(n) != barrier.roles[k] || node(n).async != Async::matrix ||
            !listed.insert(n).second)
          return report("order barrier of ", unit,
                        " lists a node that is not an asynchronous node of its role, or twice");
        if (within(n) < last) report("order barrier of ", unit, ": ", name(n), " is out of issue order");
        last = within(n);
        depth.back().push_back(step_of(n));
      }
      const std::int64_t least = *std::min_element(depth.back().begin(), depth.back().end());
      for (auto& each : depth.back()) each -= least;
      if (depth.back() != depth.front())
        report("order barrier of ", unit, ": the roles' runs do not execute equally often");
      begin.push_back(least * s_.ii + begin_of(barrier.roles[k]) + within(barrier.nodes[k].front()));
      end.push_back(least * s_.ii + begin_of(barrier.roles[k]) + last);
      if (k > 0 && begin[k] <= end[k - 1])
        report("order barrier of ", unit, ": the runs of two roles overlap or are out of order");
    }
    if (begin.front() + s_.ii <= end.back()) report("order barrier of ", unit, ": the runs take more than one period");
    for (int i = 0; i < nodes(); ++i) {
      if (!loops(i) || listed.count(i) != 0) continue;
      for (const graph::Reservation& use : node(i).reservations)
        if (use.unit == barrier.unit && use.cycles > 0) report("order barrier of ", unit, " leaves out ", name(i));
    }
  }

  const Graph& g_;
  const Schedule& s_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> verify(const Graph& graph, const Schedule& schedule) {
  return Verifier(graph, schedule).run();
}

}  // namespace tj::sched
