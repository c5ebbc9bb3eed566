// See verify_play.hpp. A role's clock is when it goes on: after a call, or after a wait that the next call begins with.
#include "sched/verify_play.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <set>
#include <utility>

#include "graph/lifetimes.hpp"
#include "sched/verify_limits.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;
using support::cat;

using graph::Async;
using graph::Edge;
using graph::Graph;
using graph::Node;
using graph::Scope;

constexpr int kStagesWithDrain = 2;  ///< beyond, the steps behind the last iteration hand nothing back early

struct Call {
  int node = 0, iteration = -1;
  std::int64_t issue = 0;
  bool operator==(const std::pair<int, int>& other) const { return node == other.first && iteration == other.second; }
};

class Player {
 public:
  Player(const Graph& graph, const Schedule& schedule, const TileTimes& times, int role, HandedBack& handed_back)
      : g_(graph), s_(schedule), t_(times), role_(role), n_(times.iterations), back_(handed_back) {
    for (const int i : s_.roles[at(role)].nodes) parts_[at(static_cast<int>(g_.nodes[at(i)].scope))].push_back(i);
    bool any = false;
    for (const int i : loop()) {
      first_ = any ? std::min(first_, s_.step_stage(i)) : s_.step_stage(i);
      last_ = any ? std::max(last_, s_.step_stage(i)) : s_.step_stage(i);
      any = true;
    }
    for (const Edge& edge : g_.edges)
      looks_ = looks_ || (edge.blocking && mine(edge.src) && mine(edge.dst) && product(edge.src) &&
                          node(edge.dst).scope == Scope::iteration);
  }

  std::vector<std::string> play(int tiles) {
    for (tile_ = 0; tile_ < tiles && problems_.empty(); ++tile_) {
      const TileRole& own = t_.roles[at(role_)];
      arrive(tile_ == 0 ? own.enters : clock_, own.enters, "enters");
      read_.clear();
      told_.clear();
      begin(own);
      for (int step = 0; n_ > 0 && step < n_ + last_ - first_; ++step) run_step(step);
      observe(pending_.size(), clock_);
      stored(stores_.size(), clock_);
      arrive(std::max(clock_, busy_), own.loop_end, "ends its loop");
      for (int v = 0; v < static_cast<int>(g_.values.size()); ++v) left_behind(v);
      hand_back_once();
      end(own);
    }
    return std::move(problems_);
  }

 private:
  const Node& node(int i) const { return g_.nodes[at(i)]; }
  const std::vector<int>& loop() const { return parts_[at(static_cast<int>(Scope::iteration))]; }
  bool mine(int i) const { return s_.role[at(i)] == role_; }
  bool product(int i) const { return node(i).async == Async::matrix && node(i).scope == Scope::iteration; }
  std::int64_t there_after(const Edge& edge) const { return counts_as_free(g_, s_, edge.src) ? 0 : edge.delay; }
  std::int64_t base() const { return tile_ * t_.period; }
  std::string who() const { return s_.roles[at(role_)].name; }
  static std::int64_t busy(const Node& node) { return std::max(node.cycles, node.warp_cycles); }

  /// The role says that it is there at that cycle of the tile, and can be from `from` on.
  void arrive(std::int64_t from, std::int64_t cycle, const char* what) {
    if (base() + cycle < from)
      problems_.push_back(
          cat("role ", who(), " ", what, " ", from - base() - cycle, " cycles before it can, in a tile of ", n_));
    clock_ = busy_ = base() + cycle;
    in_loop_ = false;
  }

  void begin(const TileRole& own) {
    for (const int i : parts_[at(static_cast<int>(Scope::tile_begin))]) {
      call(i, -1, true);
      if (node(i).async == Async::matrix) pending_.push_back({i, -1, base() + t_.cycle[at(i)]});
    }
    observe(pending_.size(), clock_);
    for (const Edge& edge : g_.edges)  // what is filled once a tile is waited for before the loop
      if (edge.value >= 0 && mine(edge.dst) && !mine(edge.src) &&
          g_.values[at(edge.value)].scope == Scope::tile_begin && node(edge.src).scope == Scope::tile_begin)
        clock_ = std::max(clock_, base() + t_.cycle[at(edge.src)] + there_after(edge));
    arrive(std::max(clock_, busy_), own.loop_begin, "begins its loop");
  }

  void run_step(int step) {
    const bool drains = step >= n_ && last_ - first_ <= kStagesWithDrain;
    if (drains) hand_back_once();
    for (const int i : loop()) {
      const int iteration = step - (s_.step_stage(i) - first_);
      wait_for_products(i, iteration);
      if (lacks(iteration)) continue;
      wait_for_own_reads(i, iteration);
      call(i, iteration, false);
      const std::int64_t issue = base() + t_.cycle[at(i)] + std::int64_t{iteration} * s_.ii;
      if (product(i) && looks_) {
        pending_.push_back({i, iteration, issue});
      } else if (node(i).async == Async::store) {
        stores_.push_back({i, iteration, issue});
        stored(stores_.size() - (alone(i) ? 0 : 1), clock_);
      } else {
        complete(i, iteration, issue + node(i).latency);
      }
      if (drains) hand_back_once();
    }
  }

  void end(const TileRole& own) {
    for (const int i : parts_[at(static_cast<int>(Scope::tile_end))]) {
      call(i, -1, true);
      const std::int64_t issue = base() + t_.cycle[at(i)];
      if (node(i).async == Async::matrix) {
        pending_.push_back({i, -1, issue});
      } else if (node(i).async == Async::store) {
        stores_.push_back({i, -1, issue});
        if (g_.walks()) stored(stores_.size() - 1, clock_);
      } else {
        complete(i, -1, issue + std::max(node(i).cycles, node(i).latency));
      }
    }
    observe(pending_.size(), clock_);
    stored(stores_.size(), clock_);
    arrive(std::max(clock_, busy_), own.leaves, "leaves");
  }

  /// `apart`: a call of once a tile, for which the role's warps must be free. In the loop, units say the same.
  void call(int i, int iteration, bool apart) {
    const std::int64_t issue = base() + t_.cycle[at(i)] + (iteration < 0 ? 0 : std::int64_t{iteration} * s_.ii);
    std::int64_t free = std::max(clock_, busy_);
    if (!apart && in_loop_) {  // the call before has returned, where the schedule has it so
      free = issued_ + returns_;
      if (node(i).warp_cycles > 0) free = std::max(free, warps_);
    }
    if (issue < free)
      problems_.push_back(cat("role ", who(), " calls ", node(i).name, " ", free - issue,
                              " cycles before it can, in iteration ", iteration, " of a tile of ", n_));
    issued_ = issue;
    returns_ = apart ? 0 : returns(i);
    clock_ = issue + (apart ? node(i).cycles : returns_);
    busy_ = std::max(busy_, issue + busy(node(i)));
    if (node(i).warp_cycles > 0) warps_ = issue + node(i).warp_cycles;
    in_loop_ = !apart;
  }

  /// A call of the loop returns when its cycles are over, at the latest when the schedule has the role's next call.
  std::int64_t returns(int i) const {
    std::int64_t next = s_.ii;  // until this node itself
    for (const int other : loop()) {
      const std::int64_t since =
          s_.cycle[at(other)] - s_.cycle[at(i)] - std::int64_t{s_.step_stage(other) - s_.step_stage(i)} * s_.ii;
      if (other != i) next = std::min(next, since < 0 || (since == 0 && before(other, i)) ? since + s_.ii : since);
    }
    return std::min<std::int64_t>(node(i).cycles, next);
  }
  bool before(int a, int b) const {
    return std::find(loop().begin(), loop().end(), a) < std::find(loop().begin(), loop().end(), b);
  }
  bool lacks(int iteration) const { return iteration < 0 || iteration >= n_; }
  /// A product that is waited for, and those before it, are done. Where the tile lacks the call or the product, others
  /// are looked at in that place.
  void wait_for_products(int i, int iteration) {
    std::size_t newest = 0;
    for (const Edge& edge : g_.edges) {
      if (edge.dst != i || !edge.blocking || !mine(edge.src) || node(edge.src).scope != Scope::iteration ||
          node(edge.src).async != Async::matrix)
        continue;
      const int of = iteration - edge.distance;
      for (std::size_t p = 0; p < pending_.size(); ++p) {
        const bool here = lacks(iteration) || lacks(of)
                              ? in_place(pending_[p], edge.src, of, std::max(iteration, of) >= n_)
                              : pending_[p] == std::pair{edge.src, of};
        if (here) newest = std::max(newest, p + 1);
      }
    }
    const std::int64_t issue = base() + t_.cycle[at(i)] + std::int64_t{iteration} * s_.ii;
    if (newest > 0) observe(newest, in_loop_ ? std::min(issue, clock_) : issue);
  }
  /// The text would have `source` no earlier than this product; others wait for a slot that it reads, at the end of a
  /// tile still in this one.
  bool in_place(const Call& product, int source, int iteration, bool at_end) const {
    const int later = iteration + s_.step_stage(source) - product.iteration - s_.step_stage(product.node);
    if (later < 0 || (later == 0 && before(source, product.node))) return false;
    for (const Edge& read : g_.edges) {
      if (read.dst != product.node || read.value < 0 || mine(read.src) || product.iteration < read.distance) continue;
      if (g_.values[at(read.value)].scope == Scope::iteration &&
          (!at_end || product.iteration - read.distance + refilled(read.value) < n_))
        return true;
    }
    return false;
  }
  /// The place of a value is filled so many iterations later, with it or with another one.
  int refilled(int value) const {
    for (const graph::Sharing& turns : graph::sharings(g_))
      if (turns.every_iteration && (turns.first == value || turns.second == value)) return turns.first == value ? 0 : 1;
    for (const Ring& ring : s_.rings)
      if (ring.value == value) return ring.slots;
    return n_;
  }
  /// A call that fills a slot again looks at this role's own reads of it first.
  void wait_for_own_reads(int i, int iteration) {
    std::size_t newest = 0, put = 0;
    for (const Ring& ring : s_.rings) {
      if (g_.values[at(ring.value)].scope != Scope::iteration || !fills(i, ring.value)) continue;
      for (const Edge& read : g_.edges) {
        if (read.value != ring.value || !mine(read.dst)) continue;
        const std::pair<int, int> reader{read.dst, iteration - ring.slots + read.distance};
        for (std::size_t p = 0; p < pending_.size(); ++p)
          if (pending_[p] == reader) newest = std::max(newest, p + 1);
        for (std::size_t p = 0; p < stores_.size(); ++p)
          if (stores_[p] == reader) put = std::max(put, p + 1);
      }
    }
    const std::int64_t issue = base() + t_.cycle[at(i)] + std::int64_t{iteration} * s_.ii;
    const std::int64_t looks = in_loop_ ? std::min(issue, clock_) : issue;
    observe(newest, looks);
    stored(put, looks);
  }
  bool fills(int i, int value) const {
    return std::any_of(g_.edges.begin(), g_.edges.end(),
                       [&](const Edge& edge) { return edge.src == i && edge.value == value; });
  }
  /// Each product is known to be done when the role looks and it is done itself, as the loop's schedule has it.
  void observe(std::size_t count, std::int64_t looks) { known(pending_, count, looks); }
  void stored(std::size_t count, std::int64_t looks) { known(stores_, count, looks); }
  void known(std::deque<Call>& calls, std::size_t count, std::int64_t looks) {
    for (; count > 0; --count) {
      const Call& call = calls.front();
      const std::int64_t done = std::max(looks, call.issue + node(call.node).latency);
      complete(call.node, call.iteration, done);
      clock_ = std::max(clock_, done);
      calls.pop_front();
    }
  }
  bool alone(int i) const {
    for (const Ring& ring : s_.rings)
      for (const Edge& edge : g_.edges)
        if (edge.dst == i && edge.value == ring.value && ring.slots == 1 &&
            g_.values[at(edge.value)].scope == Scope::iteration)
          return true;
    return false;
  }

  // ---- slots --------------------------------------------------------------------------------------------------------
  void hand_back(int value, int filling, std::int64_t when) {
    std::int64_t& known = back_[{value, role_, filling}];
    known = std::max(known, when);
  }
  void complete(int i, int iteration, std::int64_t when) {
    read_.insert({i, iteration});
    for (const Edge& edge : g_.edges) {
      if (edge.dst != i || edge.value < 0) continue;
      const bool each = g_.values[at(edge.value)].scope == Scope::iteration;
      const int per_tile = each ? n_ : 1;
      if (node(i).scope == Scope::tile_end) {
        if (!each || n_ > 0) hand_back(edge.value, (tile_ + 1) * per_tile - 1, when);
      } else if (each && iteration >= edge.distance) {
        hand_back(edge.value, tile_ * n_ + iteration - edge.distance, when);
      }
      if (!each && node(i).scope == Scope::iteration && node(i).async == Async::unit && iteration == n_ - 1)
        hand_back(edge.value, tile_, when);
    }
  }
  /// The rest that the last iterations leave for iterations that do not come.
  void left_behind(int value) {
    if (g_.values[at(value)].scope != Scope::iteration) return;
    for (const Edge& edge : g_.edges)
      if (edge.value == value && mine(edge.dst) && edge.distance > 0)
        for (int i = std::max(0, n_ - edge.distance); i < n_; ++i) {
          clock_ = std::max(clock_, base() + t_.cycle[at(edge.src)] + std::int64_t{i} * s_.ii + there_after(edge));
          hand_back(value, tile_ * n_ + i, t_.roles[at(role_)].loop_end + base());
        }
  }
  /// Values of once a tile whose reads are all known to be done, where nothing reads them at the tile's end.
  void hand_back_once() {
    for (int v = 0; v < static_cast<int>(g_.values.size()); ++v) {
      if (g_.values[at(v)].scope == Scope::iteration || told_.count(v) != 0) continue;
      bool any = false, all = true;
      for (const Edge& edge : g_.edges) {
        if (edge.value != v || !mine(edge.dst)) continue;
        const bool in_loop = node(edge.dst).scope == Scope::iteration;
        any = true;
        all = all && node(edge.dst).scope != Scope::tile_end &&
              (!in_loop || n_ == 0 || read_.count({edge.dst, n_ - 1}) != 0);
      }
      if (!any || !all) continue;
      hand_back(v, tile_, clock_);
      told_.insert(v);
    }
  }

  const Graph& g_;
  const Schedule& s_;
  const TileTimes& t_;
  const int role_, n_;
  int tile_ = 0, first_ = 0, last_ = 0;
  bool looks_ = false;  ///< a node of the loop waits for a product; no code is emitted for a role without one
  HandedBack& back_;
  std::vector<int> parts_[3];
  std::int64_t clock_ = 0, issued_ = 0, returns_ = 0, busy_ = 0, warps_ = 0;
  bool in_loop_ = false;
  std::deque<Call> pending_, stores_;
  std::set<std::pair<int, int>> read_;  ///< calls of this tile whose end is known
  std::set<int> told_;                  ///< values of once a tile that it has handed back
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> play_role(const Graph& graph, const Schedule& schedule, const TileTimes& times, int role,
                                   int tiles, HandedBack& handed_back) {
  return Player(graph, schedule, times, role, handed_back).play(tiles);
}

}  // namespace tj::sched
