// See tensor_places.hpp.
#include "codegen/tensor_places.hpp"

#include <algorithm>
#include <climits>
#include <cstddef>

#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::codegen {
namespace {

using support::at;

using graph::Edge;
using graph::Scope;

class Placer {
 public:
  Placer(const graph::Graph& graph, const sched::Schedule& schedule, std::vector<RingPlace>& rings)
      : graph_(graph), schedule_(schedule), rings_(rings) {}

  int run() {
    const auto capacity = graph_.machine.memory_bytes.find("TMEM");
    available_ = capacity == graph_.machine.memory_bytes.end()
                     ? 0
                     : static_cast<int>(capacity->second / graph::kTensorColumnBytes);
    // The widest first: narrow rings may lie over them. A ring that others lie over does not move.
    std::vector<int> order;
    for (int r = 0; r < static_cast<int>(rings_.size()); ++r)
      if (rings_[at(r)].slot_columns > 0) order.push_back(r);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return columns(a) > columns(b); });
    for (const int ring : order) {
      place(ring);
      placed_.push_back(ring);
    }
    int end = 0;
    for (const int ring : order) end = std::max(end, rings_[at(ring)].column + columns(ring));
    if (end == 0) return 0;
    for (std::size_t r = 0; r + 1 < rings_.size(); ++r)
      if (rings_[r].slot_columns > 0 && rings_[r].slot_columns == rings_[r + 1].slot_columns)
        rings_[r].member_columns = rings_[r + 1].column - rings_[r].column;
    int allocated = graph::kLeastTensorColumns;
    while (allocated < end) allocated *= 2;
    return allocated;
  }

 private:
  int columns(int ring) const { return rings_[at(ring)].slot_columns * schedule_.rings[at(ring)].slots; }
  const graph::Value& value(int ring) const { return graph_.values[at(schedule_.rings[at(ring)].value)]; }

  /// The ring lies in the upper part of another, where it can; else behind all of them.
  void place(int ring) {
    const int step = rings_[at(ring)].slot_columns;
    for (const bool shared : {true, false})
      for (int k = available_ / step - 1; k >= 0; --k) {
        const int column = (shared ? k : available_ / step - 1 - k) * step;
        if (column + columns(ring) > available_) continue;
        bool over = false, free = true;
        for (const int other : placed_) {
          const int begin = rings_[at(other)].column;
          if (column + columns(ring) <= begin || begin + columns(other) <= column) continue;
          over = true;
          free = free && in_turn(ring, other);
        }
        if (!free || over != shared) continue;
        rings_[at(ring)].column = column;
        return;
      }
    support::fail(Stage::codegen, Code::unsupported,
                  support::cat("'", graph_.name, "': no ", columns(ring),
                               " columns of tensor memory are left for value '", value(ring).name, "'; ",
                               graph_.machine.name, " has ", available_, ", use a smaller tile or fewer slots"));
  }

  /// Do all accesses of an iteration to `one` come before its accesses to `other`, and those before the next
  /// iteration's to `one`?
  bool in_turn(int one, int other) {
    for (const int ring : {one, other})
      if (value(ring).scope != Scope::iteration || schedule_.rings[at(ring)].slots != 1) return false;
    const int there = rounds(schedule_.rings[at(one)].value, schedule_.rings[at(other)].value),
              back = rounds(schedule_.rings[at(other)].value, schedule_.rings[at(one)].value);
    return there < kNever && back < kNever && there + back <= 1;
  }

  static constexpr int kNever = INT_MAX / 4;

  /// How many iterations later the second value's filling waits for all that reads or fills the first; kNever where it
  /// may not wait at all.
  int rounds(int first, int second) {
    int most = 0;
    for (const Edge& use : graph_.edges) {
      if (use.value != first) continue;
      for (const Edge& fill : graph_.edges)
        if (fill.value == second) most = std::max(most, distance(use.dst, fill.src) + use.distance);
    }
    return most;
  }

  /// The fewest iterations that any path of edges takes. The code keeps edges: by the order of a role, or by a barrier.
  int distance(int from, int to) {
    std::vector<int> least(graph_.nodes.size(), kNever);
    least[at(from)] = 0;
    for (std::size_t round = 0; round < graph_.nodes.size(); ++round)
      for (const Edge& edge : graph_.edges)
        if (edge.delay >= 0 && least[at(edge.src)] < kNever)
          least[at(edge.dst)] = std::min(least[at(edge.dst)], least[at(edge.src)] + edge.distance);
    return least[at(to)];
  }

  const graph::Graph& graph_;
  const sched::Schedule& schedule_;
  std::vector<RingPlace>& rings_;
  std::vector<int> placed_;
  int available_ = 0;
};

}  // namespace

int place_tensor_rings(const graph::Graph& graph, const sched::Schedule& schedule, std::vector<RingPlace>& rings) {
  return Placer(graph, schedule, rings).run();
}

}  // namespace tj::codegen
