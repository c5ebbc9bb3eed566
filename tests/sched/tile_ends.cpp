// Whether a tile ends: its roles' calls are run in the order of their text, without times, as long as one can go on.
//
// Decides only whether all calls are made. Shares no code with the search for the period. Draws, turns and values of
// once a tile are left out, so what it says waits for ever does so with them, too.
#include "tile_ends.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "support/index.hpp"

namespace tj::test {
namespace {

using sched::Ring;
using sched::Role;
using sched::Schedule;
using support::at;

using graph::Async;
using graph::Edge;
using graph::Graph;
using graph::Scope;

class Run {
 public:
  Run(const Graph& graph, const Schedule& schedule, int iterations) : g_(graph), s_(schedule) {
    for (const Role& role : s_.roles) {
      roles_.emplace_back();
      int first = 0, last = 0;
      std::vector<int> loop;
      for (const int i : role.nodes)
        if (loops(i)) {
          first = loop.empty() ? s_.step_stage(i) : std::min(first, s_.step_stage(i));
          last = loop.empty() ? s_.step_stage(i) : std::max(last, s_.step_stage(i));
          loop.push_back(i);
        }
      for (int step = first; step < iterations + last; ++step)
        for (const int i : loop)
          if (const int of = step - s_.step_stage(i); of >= 0 && of < iterations) roles_.back().text.push_back({i, of});
    }
    for (const Edge& edge : g_.edges)
      if (edge.blocking && product(edge.src) && loops(edge.dst) && role(edge.src) == role(edge.dst))
        roles_[at(role(edge.src))].looks = true;
  }

  /// Do all roles come to the end of their text?
  bool ends() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Program& each : roles_)
        while (each.next < each.text.size() && go_on(each)) moved = true;
    }
    return std::all_of(roles_.begin(), roles_.end(), [](const Program& each) { return each.next == each.text.size(); });
  }

 private:
  using Call = std::pair<int, int>;  ///< node, iteration
  struct Program {
    std::vector<Call> text, pending;  ///< products in order, until the role has looked at them
    std::size_t next = 0;
    bool looks = false;
  };
  bool loops(int i) const { return g_.nodes[at(i)].scope == Scope::iteration; }
  bool product(int i) const { return g_.nodes[at(i)].async == Async::matrix && loops(i); }
  int role(int i) const { return s_.role[at(i)]; }
  int slots(int value) const {
    for (const Ring& ring : s_.rings)
      if (value >= 0 && ring.value == value && g_.values[at(value)].scope == Scope::iteration) return ring.slots;
    return 0;
  }

  /// The role makes its next call, where all that it waits for has happened.
  bool go_on(Program& of) {
    const auto [i, iteration] = of.text[of.next];
    for (const Edge& edge : g_.edges) {
      if (edge.dst == i && edge.blocking) look(of, {edge.src, iteration - edge.distance});
      if (edge.src == i && role(edge.dst) == role(i) && slots(edge.value) > 0)
        look(of, {edge.dst, iteration - slots(edge.value) + edge.distance});
    }
    for (const Edge& edge : g_.edges) {
      if (edge.dst == i && loops(edge.src) && edge.distance <= iteration &&
          issued_.count({edge.src, iteration - edge.distance}) == 0)
        return false;
      const int before = iteration - slots(edge.value);
      if (edge.src != i || slots(edge.value) == 0 || before < 0 || !loops(edge.dst)) continue;
      if (role(edge.dst) == role(i) && !s_.mixed_roles) continue;
      const Call read{edge.dst, before + edge.distance};
      const bool comes = std::find(of_role(edge.dst).begin(), of_role(edge.dst).end(), read) != of_role(edge.dst).end();
      if (comes && done_.count(read) == 0) return false;
    }
    issued_.insert({i, iteration});
    if (product(i) && of.looks)
      of.pending.push_back({i, iteration});
    else
      done_.insert({i, iteration});
    if (++of.next == of.text.size() && !of.pending.empty()) look(of, of.pending.back());
    return true;
  }
  const std::vector<Call>& of_role(int i) const { return roles_[at(role(i))].text; }

  /// This product and those before it are done.
  void look(Program& of, const Call& call) {
    const auto found = std::find(of.pending.begin(), of.pending.end(), call);
    if (found == of.pending.end()) return;
    done_.insert(of.pending.begin(), found + 1);
    of.pending.erase(of.pending.begin(), found + 1);
  }

  const Graph& g_;
  const Schedule& s_;
  std::vector<Program> roles_;
  std::set<Call> issued_, done_;
};

}  // namespace

bool tile_ends(const Graph& graph, const Schedule& schedule, int iterations) {
  return Run(graph, schedule, iterations).ends();
}

}  // namespace tj::test
