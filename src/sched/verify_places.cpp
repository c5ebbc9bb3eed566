// See verify_places.hpp.
#include "sched/verify_places.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;
using support::cat;

using graph::Edge;
using graph::Scope;

class PlaceCheck {
 public:
  PlaceCheck(const graph::Graph& graph, const Schedule& schedule, const std::function<std::int64_t(int, int)>& done,
             std::vector<std::string>& problems)
      : g_(graph), s_(schedule), done_(done), problems_(problems) {}

  std::int64_t run() {
    std::map<int, std::int64_t> own, lying;  // bytes, by the value that has the place
    for (const Ring& ring : s_.rings) {
      const graph::Value& value = g_.values[at(ring.value)];
      if (value.space != graph::Space::shared) continue;
      const bool guest = value.lies_in >= 0 && has_ring(value.lies_in);
      (guest ? lying[value.lies_in] : own[ring.value]) += ring.slots * value.slot_bytes;
      if (guest) pair(value.lies_in, ring.value);
    }
    std::int64_t saved = 0;
    for (const auto& [root, bytes] : lying) saved += std::min(bytes, own[root]);
    return saved;
  }

 private:
  bool has_ring(int value) const { return slots(value) > 0; }
  int slots(int value) const {
    for (const Ring& ring : s_.rings)
      if (ring.value == value) return ring.slots;
    return 0;
  }
  Scope scope(int node) const { return g_.nodes[at(node)].scope; }
  const std::string& name(int node) const { return g_.nodes[at(node)].name; }

  /// Is every read of one value in an earlier part of the tile than every filling of the other?
  bool before(int one, int other) const {
    for (const Edge& read : g_.edges)
      for (const Edge& fill : g_.edges)
        if (read.value == one && fill.value == other && scope(read.dst) >= scope(fill.src)) return false;
    return true;
  }

  void pair(int root, int guest) {
    if (before(root, guest) || before(guest, root)) return;
    for (const int value : {root, guest})
      if (slots(value) != 1)
        problems_.push_back(cat("value ", g_.values[at(value)].name, " takes turns in a place of the loop and has ",
                                slots(value), " slots, must have 1"));
    // Whichever is filled first in an iteration comes first in its place.
    const bool turned = first_filled(guest) < first_filled(root);
    follows(turned ? guest : root, turned ? root : guest, 0);
    follows(turned ? root : guest, turned ? guest : root, s_.ii);
  }
  std::int64_t first_filled(int value) const {
    std::int64_t first = -1;
    for (const Edge& edge : g_.edges)
      if (edge.value == value && (first < 0 || s_.cycle[at(edge.src)] < first)) first = s_.cycle[at(edge.src)];
    return first;
  }

  /// The second value is filled when all reads of the first are done, so many cycles further on.
  void follows(int first, int second, std::int64_t round) {
    for (const Edge& read : g_.edges)
      for (const Edge& fill : g_.edges) {
        if (read.value != first || fill.value != second) continue;
        const auto of = [&](int node) { return cat("'", name(node), "'"); };
        if (scope(read.dst) != Scope::iteration || scope(fill.src) != Scope::iteration || read.distance != 0) {
          problems_.push_back(cat("values ", g_.values[at(first)].name, " and ", g_.values[at(second)].name,
                                  " have one place and their lifetimes meet: ", of(read.dst), " reads the one, ",
                                  of(fill.src), " fills the other"));
          return;
        }
        const std::int64_t begins = s_.cycle[at(fill.src)] + round, ends = done_(read.dst, fill.src);
        if (begins < ends)
          problems_.push_back(cat(of(fill.src), " fills ", g_.values[at(second)].name, " at cycle ", begins,
                                  " in the place of ", g_.values[at(first)].name, ", which ", of(read.dst),
                                  " reads until ", ends));
      }
  }

  const graph::Graph& g_;
  const Schedule& s_;
  const std::function<std::int64_t(int, int)>& done_;
  std::vector<std::string>& problems_;
};

}  // namespace

std::int64_t verify_places(const graph::Graph& graph, const Schedule& schedule,
                           const std::function<std::int64_t(int, int)>& done, std::vector<std::string>& problems) {
  return PlaceCheck(graph, schedule, done, problems).run();
}

}  // namespace tj::sched
