// Placement on the cycle of a step, then in the order of a whole tile; see barriers.hpp.
#include "codegen/barriers.hpp"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <optional>

#include "graph/lifetimes.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::codegen {
namespace {

using support::at;

using graph::Edge;
using graph::Graph;
using graph::Scope;
using sched::Schedule;
using support::cat;

int modulo(int value, int n) { return (value % n + n) % n; }

bool holds(const Arc& arc, int place, int places) {
  return arc.length >= places || modulo(place - arc.start - 1, places) < arc.length;
}

/// The arcs that do not have `first`, cut open there, by their ends: each end that nothing before parts is taken.
std::vector<bool> greedy(const std::vector<Arc>& arcs, int places, int first) {
  std::vector<std::pair<int, int>> open;  // last place, first place; counted from `first`
  for (const Arc& arc : arcs)
    if (!holds(arc, first, places)) {
      const int begin = modulo(arc.start + 1 - first, places);
      open.emplace_back(begin + arc.length - 1, begin);
    }
  std::sort(open.begin(), open.end());
  std::vector<bool> chosen(at(places), false);
  chosen[at(first)] = true;
  int latest = -1;
  for (const auto& [last, begin] : open)
    if (latest < begin) chosen[at((first + (latest = last)) % places)] = true;
  return chosen;
}

/// An interval that must be parted in the order of a tile: at a place in ]from, to].
struct Interval {
  int from = 0, to = 0;
};

class Placer {
 public:
  Placer(const Graph& graph, const Schedule& schedule, int role, int trip_count, Timeline& timeline)
      : graph_(graph), schedule_(schedule), role_(role), n_(trip_count), timeline_(timeline) {
    for (const int index : schedule.roles[at(role)].nodes)
      (scope(index) == Scope::iteration ? loop_ : scope(index) == Scope::tile_begin ? begin_ : end_).push_back(index);
    before_loop_ = static_cast<int>(begin_.size());
    after_loop_ = before_loop_ + 1 + static_cast<int>(timeline.steps.size()) * period();
    emitted_.assign(at(after_loop_) + end_.size(), std::nullopt);
  }

  void run() {
    const std::vector<Arc> block_arcs = arcs(false);
    const std::vector<bool> block_gaps = fewest_places(block_arcs, period());
    gaps_ = block_gaps;
    place(false, block_arcs);
    std::vector<Arc> warp_arcs;
    for (const Arc& arc : arcs(true)) {
      bool parted = false;
      for (int p = 0; p < period(); ++p) parted = parted || (block_gaps[at(p)] && holds(arc, p, period()));
      if (!parted) warp_arcs.push_back(arc);
    }
    const std::vector<bool> warp_gaps = fewest_places(warp_arcs, period());
    for (int p = 0; p < period(); ++p) gaps_[at(p)] = block_gaps[at(p)] || warp_gaps[at(p)];
    place(true, warp_arcs);
    insert();
  }

 private:
  Scope scope(int index) const { return graph_.nodes[at(index)].scope; }
  int period() const { return static_cast<int>(loop_.size()); }
  int position(const std::vector<int>& list, int index) const {
    return static_cast<int>(std::find(list.begin(), list.end(), index) - list.begin());
  }
  const graph::Value& value(int index) const { return graph_.values[at(index)]; }
  int slots(int value) const {
    for (const sched::Ring& ring : schedule_.rings)
      if (ring.value == value) return ring.slots;
    support::fail(Stage::codegen, Code::internal,
                  cat("value '", graph_.values[at(value)].name, "' has no ring in the schedule"));
  }
  /// Places of a node counted from the begin of the loop, in iteration 0.
  int in_loop(int index) const { return role_stage(graph_, schedule_, index) * period() + position(loop_, index); }
  /// The place where an instance of the node runs.
  int instance_place(int index, int iteration) const {
    if (scope(index) == Scope::tile_begin) return position(begin_, index);
    if (scope(index) == Scope::tile_end) return after_loop_ + position(end_, index);
    return before_loop_ + 1 + in_loop(index) + iteration * period();
  }

  [[noreturn]] void refuse(const Edge& edge, const char* before, const char* after) const {
    support::fail(Stage::codegen, Code::invalid_argument,
                  cat("role '", schedule_.roles[at(role_)].name, "' of '", graph_.name, "': '",
                      graph_.nodes[at(edge.dst)].name, "' reads value '", value(edge.value).name, "' ", before, " '",
                      graph_.nodes[at(edge.src)].name, "' ", after, "; verify the schedule"));
  }

  /// The arcs on the cycle of a step: from a write to a read, and from there to the write that comes round to the slot.
  std::vector<Arc> arcs(bool of_warps) const {
    std::vector<Arc> found;
    for (const Edge& edge : graph_.edges) {
      if (edge.value < 0 || value(edge.value).scope != Scope::iteration || value(edge.value).within_warp != of_warps)
        continue;
      const int write = in_loop(edge.src), read = in_loop(edge.dst), again = write + slots(edge.value) * period();
      if (read <= write) refuse(edge, "before", "has written it");
      if (again <= read) refuse(edge, "after", "has filled its slot again");
      found.push_back({position(loop_, edge.src), read - write});
      found.push_back({position(loop_, edge.dst), again - read});
    }
    for (const graph::Sharing& sharing : sharings_)
      if (sharing.every_iteration && !of_warps)
        for (const bool back : {false, true})
          successions(sharing, back, [&](int reader, int filler) {
            const int read = in_loop(reader), fill = in_loop(filler) + (back ? period() : 0);
            if (fill <= read) refuse_place(sharing, back, reader, filler);
            found.push_back({position(loop_, reader), fill - read});
          });
    return found;
  }

  /// Calls use(reader, filler) for each reader of one of the values and filler of the one that follows it.
  template <class Use>
  void successions(const graph::Sharing& sharing, bool back, const Use& use) const {
    const int before = back ? sharing.second : sharing.first;
    for (const Edge& read : graph_.edges)
      for (const Edge& fill : graph_.edges)
        if (read.value == before && fill.value == sharing.other(before)) use(read.dst, fill.src);
  }

  [[noreturn]] void refuse_place(const graph::Sharing& sharing, bool back, int reader, int filler) const {
    const int before = back ? sharing.second : sharing.first;
    support::fail(
        Stage::codegen, Code::invalid_argument,
        cat("role '", schedule_.roles[at(role_)].name, "' of '", graph_.name, "': '", graph_.nodes[at(filler)].name,
            "' fills value '", value(sharing.other(before)).name, "' in the place of '", value(before).name,
            "' before '", graph_.nodes[at(reader)].name, "' has read that; verify the schedule"));
  }

  /// Values in one place. The barrier before a tile parts them from those of the tile before. A warp's own parts of two
  /// values may be different bytes, so all warps meet between them.
  void collect_places(bool of_warps, std::vector<Interval>& once, std::vector<Interval>& loop) const {
    if (of_warps) return;
    for (const graph::Sharing& sharing : sharings_) {
      for (int i = 0; sharing.every_iteration && i < n_; ++i)
        for (const bool back : {false, true})
          if (!back || i + 1 < n_)
            successions(sharing, back, [&](int reader, int filler) {
              loop.push_back({instance_place(reader, i), instance_place(filler, i + (back ? 1 : 0))});
            });
      if (sharing.every_iteration) continue;
      successions(sharing, false, [&](int reader, int filler) {
        if (scope(filler) == Scope::tile_end && scope(reader) != Scope::iteration)
          once.push_back({instance_place(reader, -1), instance_place(filler, -1)});
        else if (scope(filler) == Scope::tile_end && n_ > 0)
          loop.push_back({instance_place(reader, n_ - 1), instance_place(filler, -1)});
        else if (scope(filler) == Scope::tile_end)
          return;  // nothing has been read
        else if (!gap_until(in_loop(filler)))
          once.push_back({instance_place(reader, -1), before_loop_});
        else if (n_ > 0)
          loop.push_back({instance_place(reader, -1), instance_place(filler, 0)});
      });
    }
  }

  bool may_stand(int place) const {
    return place <= before_loop_ || place >= after_loop_ || gaps_[at((place - before_loop_ - 1) % period())];
  }
  int last_place(const Interval& interval) const {
    for (int place = interval.to; place > interval.from; --place)
      if (may_stand(place)) return place;
    return -1;
  }
  bool in_the_loop(int place) const { return place > before_loop_ && place < after_loop_; }
  /// Is there one already? `whatever_n`: without the barriers of the loop, which may have no step.
  bool parted(const Interval& interval, bool whatever_n) const {
    for (int place = interval.from + 1; place <= interval.to; ++place)
      if (emitted_[at(place)] && !(whatever_n && in_the_loop(place))) return true;
    return false;
  }
  void stand(int place, bool of_warps) {
    if (!emitted_[at(place)]) emitted_[at(place)] = of_warps ? EventKind::warp_sync : EventKind::block_sync;
  }

  void place(bool of_warps, const std::vector<Arc>& arcs) {
    if (graph_.walks() && std::any_of(graph_.values.begin(), graph_.values.end(),
                                      [&](const graph::Value& v) { return v.within_warp == of_warps; }))
      stand(0, of_warps);
    std::vector<Interval> once, loop;
    collect(of_warps, once, loop);
    for (const Interval& interval : once)
      if (!parted(interval, true)) stand(last_place(interval), of_warps);
    // Every arc goes round: each step has the one gap that lies in two of them. Taking the last gap would leave out
    // every other step.
    const bool all_round =
        std::all_of(arcs.begin(), arcs.end(), [&](const Arc& arc) { return arc.length >= period(); });
    for (const Interval& interval : loop) {
      if (parted(interval, false)) continue;
      int chosen = last_place(interval);
      if (all_round)
        for (int place = std::max(interval.from, before_loop_) + 1; place <= interval.to; ++place)
          if (may_stand(place)) {
            chosen = place;
            break;
          }
      if (chosen < 0)
        support::fail(Stage::codegen, Code::internal,
                      cat("'", graph_.name, "': no place for a barrier; verify the schedule"));
      stand(chosen, of_warps);
    }
  }

  /// Intervals that need a barrier. `once`: the same for every trip count; `loop`: for iterations. Both by their ends.
  void collect(bool of_warps, std::vector<Interval>& once, std::vector<Interval>& loop) const {
    for (const Edge& edge : graph_.edges) {
      if (edge.value < 0 || value(edge.value).within_warp != of_warps) continue;
      if (value(edge.value).scope == Scope::iteration) {
        for (int i = 0; i < n_; ++i) {
          loop.push_back({instance_place(edge.src, i), instance_place(edge.dst, i)});
          if (i + slots(edge.value) < n_)
            loop.push_back({instance_place(edge.dst, i), instance_place(edge.src, i + slots(edge.value))});
        }
      } else if (scope(edge.dst) != Scope::iteration) {
        once.push_back({instance_place(edge.src, -1), instance_place(edge.dst, -1)});
        if (once.back().to <= once.back().from) refuse(edge, "before", "has written it");
      } else if (const int first = in_loop(edge.dst); gap_until(first)) {
        if (n_ > 0) loop.push_back({instance_place(edge.src, -1), instance_place(edge.dst, 0)});
      } else {
        once.push_back({instance_place(edge.src, -1), before_loop_});
      }
    }
    collect_places(of_warps, once, loop);
    const auto by_end = [](const Interval& a, const Interval& b) {
      return a.to != b.to ? a.to < b.to : a.from < b.from;
    };
    std::sort(once.begin(), once.end(), by_end);
    std::sort(loop.begin(), loop.end(), by_end);
  }
  /// May a barrier stand in the loop no later than at this place of it?
  bool gap_until(int place) const {
    for (int p = 0; p <= place && p < period(); ++p)
      if (gaps_[at(p)]) return true;
    return false;
  }

  void insert() {
    const auto event = [&](int place, int node) { return Event{.kind = *emitted_[at(place)], .node = node}; };
    const auto into = [&](std::vector<Event>& events, const std::vector<int>& list, int first) {
      for (int p = static_cast<int>(list.size()) - 1; p >= 0; --p) {
        if (!emitted_[at(first + p)]) continue;
        const auto next = std::find_if(events.begin(), events.end(), [&](const Event& e) {
          return e.kind == EventKind::call && position(list, e.node) >= p;
        });
        events.insert(next, event(first + p, list[at(p)]));
      }
    };
    if (emitted_[at(before_loop_)]) timeline_.tile_begin.push_back(event(before_loop_, -1));
    into(timeline_.tile_begin, begin_, 0);
    for (std::size_t step = 0; step < timeline_.steps.size(); ++step)
      into(timeline_.steps[step], loop_, before_loop_ + 1 + static_cast<int>(step) * period());
    into(timeline_.tile_end, end_, after_loop_);
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const std::vector<graph::Sharing> sharings_ = graph::sharings(graph_);
  int role_, n_;
  Timeline& timeline_;
  std::vector<int> begin_, loop_, end_;
  int before_loop_ = 0,
      after_loop_ = 0;      ///< places: of the tile's begin, one before the loop, of each step, of the end
  std::vector<bool> gaps_;  ///< places of a step
  std::vector<std::optional<EventKind>> emitted_;
};

}  // namespace

std::vector<bool> fewest_places(const std::vector<Arc>& arcs, int places) {
  if (arcs.empty()) return std::vector<bool>(at(places), false);
  const Arc& shortest =
      *std::min_element(arcs.begin(), arcs.end(), [](const Arc& a, const Arc& b) { return a.length < b.length; });
  std::vector<bool> best;
  std::ptrdiff_t fewest = places + 1;
  for (int back = 0; back < std::min(shortest.length, places); ++back) {  // one of its places is in every set
    std::vector<bool> chosen = greedy(arcs, places, modulo(shortest.start + shortest.length - back, places));
    const std::ptrdiff_t count = std::count(chosen.begin(), chosen.end(), true);
    if (count < fewest) fewest = count, best = std::move(chosen);
  }
  return best;
}

void place_barriers(const Graph& graph, const Schedule& schedule, int role, int trip_count, Timeline& timeline) {
  Placer(graph, schedule, role, trip_count, timeline).run();
}

}  // namespace tj::codegen
