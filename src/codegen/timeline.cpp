// Simulation of one role; see timeline.hpp.
#include "codegen/timeline.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "codegen/barriers.hpp"
#include "codegen/looks.hpp"
#include "codegen/places.hpp"
#include "codegen/readers.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::codegen {
namespace {

using graph::Async;
using graph::Edge;
using graph::Graph;
using graph::Node;
using graph::Scope;
using sched::Schedule;
using support::at;

class Simulator {
 public:
  Simulator(const Graph& graph, const Schedule& schedule, int role, int trip_count)
      : graph_(graph),
        schedule_(schedule),
        looks_(graph, schedule, role, trip_count),
        role_(role),
        trip_count_(trip_count) {}

  Timeline run() {
    Timeline timeline;
    run_tile_begin(timeline.tile_begin);
    for (int node : nodes(Scope::iteration)) last_stage_ = std::max(last_stage_, role_stage(graph_, schedule_, node));
    const int steps = trip_count_ > 0 ? trip_count_ + last_stage_ : 0;
    for (int step = 0; step < steps; ++step) run_step(step, timeline.steps.emplace_back());
    finish(timeline.tile_end);
    return timeline;
  }

 private:
  const std::vector<int>& role_nodes() const { return schedule_.roles[at(role_)].nodes; }
  const Node& node(int index) const { return graph_.nodes[at(index)]; }
  bool in_role(int index) const { return schedule_.role[at(index)] == role_; }

  std::vector<int> nodes(Scope scope) const {
    std::vector<int> found;
    for (int index : role_nodes())
      if (node(index).scope == scope) found.push_back(index);
    return found;
  }

  int ring_of(int value) const {
    if (const int ring = codegen::ring_of(schedule_, value); ring >= 0) return ring;
    support::fail(Stage::codegen, Code::internal,
                  support::cat("value '", graph_.values[at(value)].name, "' has no ring in the schedule"));
  }
  int value_of(int ring) const { return schedule_.rings[at(ring)].value; }
  void push(Event event) { out_->push_back(event); }
  Scope scope_of(int value) const { return graph_.values[at(value)].scope; }
  /// At the end of a block's only tile nobody fills again what is read: all stores are one group.
  bool ends_block(int index) const { return node(index).scope == Scope::tile_end && !graph_.walks(); }

  // Once a tile, before the first that may read: a loop of no iteration waits and hands back all the same.
  void run_tile_begin(std::vector<Event>& out) {
    out_ = &out;
    for (int index : nodes(Scope::tile_begin)) run_instance(index, -1);
    if (!graph_.machine.shared_barriers) return;
    if (!pending_.empty()) observe(pending_.size() - 1);
    for (int v = 0; v < static_cast<int>(graph_.values.size()); ++v) {
      if (scope_of(v) == Scope::tile_begin && !readers(v).empty()) acquire(v, -1, -1);
      if (const int by = sum_filler(v); by >= 0) push({.kind = EventKind::wait_empty, .node = by, .ring = ring_of(v)});
    }
    for (const int v : read_before_loop(graph_, schedule_, role_))
      if (followed(graph_, schedule_, v) && handed_back_.insert(v).second)
        push({.kind = read_by_unit(v) ? EventKind::unit_release : EventKind::release, .ring = ring_of(v)});
    if (!copies_alone(graph_, schedule_, role_)) wait_for_places_once();  // else in front of the first filling
  }

  void wait_for_places_once() {  // once a tile, for all that the loop fills
    for (const int index : nodes(Scope::iteration)) wait_for_places(index, -1);
  }
  /// A node waits for rings in whose places it fills. In the loop, iteration -1 is for waits of once a tile.
  void wait_for_places(int index, int iteration) {
    if (!graph_.machine.shared_barriers) return;
    const bool loops = node(index).scope == Scope::iteration;
    for (const int ring : filled_rings(index))
      for (const Before& before : before_filling(graph_, schedule_, value_of(ring))) {
        if (loops && before.every_iteration != (iteration >= 0)) continue;
        if (waited_for_places_.insert({iteration < 0 ? -1 : ring, before.ring, iteration}).second)
          push({.kind = EventKind::wait_place, .node = index, .ring = before.ring, .iteration = iteration});
      }
  }

  /// The node of this role's loop that fills a value once a tile, as a sum; -1 where there is none.
  int sum_filler(int value) const {
    if (scope_of(value) == Scope::iteration) return -1;
    for (const Edge& edge : graph_.edges)
      if (edge.value == value && in_role(edge.src) && node(edge.src).scope == Scope::iteration) return edge.src;
    return -1;
  }

  void run_step(int step, std::vector<Event>& out) {
    out_ = &out;
    const std::vector<int> loop = nodes(Scope::iteration);
    const auto iteration_of = [&](int index) { return step - role_stage(graph_, schedule_, index); };
    const auto lacks = [&](int index) { return iteration_of(index) < 0 || iteration_of(index) >= trip_count_; };
    std::vector<Instance> instances;
    for (int index : loop)
      if (!lacks(index)) instances.emplace_back(index, iteration_of(index));
    const bool early = step >= trip_count_ && last_stage_ < kManyStages;
    if (early) hand_back_read();
    for (int index : loop) {
      if (lacks(index)) {
        if (graph_.machine.shared_barriers) wait_for_matrix(index, iteration_of(index));
        continue;
      }
      run_instance(index, iteration_of(index), &instances);
      if (early) hand_back_read();
    }
  }

  /// Hands back what is filled once a tile when all reads are complete: the next filling waits for nothing else.
  void hand_back_read() {
    for (int v = 0; graph_.machine.shared_barriers && v < static_cast<int>(graph_.values.size()); ++v) {
      const std::vector<int> all = readers(v);
      const auto complete = [&](int reader) {
        const bool in_loop = node(reader).scope == Scope::iteration;
        return (in_loop && trip_count_ == 0) || completed_.count({reader, in_loop ? trip_count_ - 1 : -1}) != 0;
      };
      if (scope_of(v) == Scope::tile_begin && !all.empty() && std::all_of(all.begin(), all.end(), complete) &&
          handed_back_.insert(v).second)
        push({.kind = read_by_unit(v) ? EventKind::unit_release : EventKind::release, .ring = ring_of(v)});
    }
  }

  // Everything outstanding is observed before the tile-end nodes run.
  void finish(std::vector<Event>& out) {
    out_ = &out;
    if (trip_count_ == 0) wait_for_places_once();
    if (!pending_.empty()) observe(pending_.size() - 1);
    wait_for_stores(0);
    for (int v = 0; v < static_cast<int>(graph_.values.size()); ++v) {
      if (const int by = sum_filler(v); by >= 0) publish(ring_of(v), by, -1);
      if (reads_behind(v)) push({.kind = EventKind::wait_full, .ring = ring_of(v)});
      // No product reads that filling; with pairs of blocks, the unit alone hands back in both.
      if (reads_behind(v) && readers(v, Scope::tile_end).empty())
        push({.kind = graph_.pairs && read_by_unit(v) ? EventKind::unit_release : EventKind::release,
              .ring = ring_of(v)});
    }
    hand_back_read();
    for (int index : nodes(Scope::tile_end)) run_instance(index, -1);
    if (!pending_.empty()) observe(pending_.size() - 1);
    wait_for_stores(0);
  }

  /// Do products read it? They may still be under way when their loop is over.
  bool read_by_unit(int value) const {
    const std::vector<int> all = readers(value);
    return std::any_of(all.begin(), all.end(), [&](int reader) { return node(reader).async == Async::unit; });
  }
  /// Does this role read the value an iteration later? Then the value that the last iteration left is still there after
  /// the loop.
  bool reads_behind(int value) const {
    return scope_of(value) == Scope::iteration &&
           std::any_of(graph_.edges.begin(), graph_.edges.end(),
                       [&](const Edge& edge) { return edge.value == value && in_role(edge.dst) && edge.distance > 0; });
  }

  void run_instance(int index, int iteration, const std::vector<Instance>* step = nullptr) {
    const Node& n = node(index);
    if (!graph_.machine.shared_barriers) return push({.kind = EventKind::call, .node = index, .iteration = iteration});
    wait_for_matrix(index, iteration);
    wait_for_own_reads(index, iteration);
    acquire_values(index, iteration);
    prepare_fills(index, iteration);
    const int order = order_of(index);
    if (order >= 0 && step && is_edge_of_run(order, index, *step, true))
      push({.kind = EventKind::order_wait, .node = index, .order = order});
    const bool matrix = n.async == Async::matrix;
    if (matrix) push({.kind = EventKind::matrix_fence, .node = index, .iteration = iteration});
    push({.kind = EventKind::call, .node = index, .iteration = iteration});
    issued_.insert({index, iteration});
    if (n.async == Async::store) {
      stores_.emplace_back(index, iteration);
      if (!ends_block(index)) {
        push({.kind = EventKind::store_commit, .node = index, .iteration = iteration});
        wait_for_stores(stores_under_way(index));
      }
    } else if (matrix) {
      push({.kind = EventKind::matrix_commit, .node = index, .iteration = iteration});
      pending_.emplace_back(index, iteration);
    } else if (n.async == Async::unit) {
      complete(index, iteration);  // it hands back its operands no later than it hands on its result
    }
    publish_fills(index, iteration);
    if (n.async != Async::store && n.async != Async::matrix && n.async != Async::unit)
      complete(index, iteration);  // last: one meeting of the warp's lanes serves both
    if (order >= 0 && step && is_edge_of_run(order, index, *step, false))
      push({.kind = EventKind::order_arrive, .node = index, .order = order});
  }

  // One group behind: the slots that a group reads are handed back while the next group reads its own. A ring of one
  // slot cannot wait for that: its next filling, without which there is no next group, needs the slot.
  std::size_t stores_under_way(int index) const {
    const auto single = [&](const Edge& edge) {
      return edge.dst == index && edge.value >= 0 && scope_of(edge.value) == Scope::iteration &&
             schedule_.rings[at(ring_of(edge.value))].slots == 1;
    };
    return std::any_of(graph_.edges.begin(), graph_.edges.end(), single) ? 0 : 1;
  }
  void wait_for_stores(std::size_t pending) {
    if (stores_.size() <= pending) return;
    if (ends_block(stores_.back().first)) push({.kind = EventKind::store_commit, .node = stores_.back().first});
    push({.kind = EventKind::store_wait,
          .iteration = stores_[stores_.size() - pending - 1].second,
          .pending = static_cast<int>(pending)});
    for (; stores_.size() > pending; stores_.erase(stores_.begin()))
      complete(stores_.front().first, stores_.front().second);
  }

  /// The role looks at its products, where a node waits for one; also in the place of a call that the tile lacks.
  void wait_for_matrix(int index, int iteration) {
    if (const std::size_t count = looks_.before_call(pending_, index, iteration); count > 0) observe(count - 1);
  }

  // A slot that this role reads itself: nobody else could notice that its reads are complete, so the node that fills it
  // again looks first.
  void wait_for_own_reads(int index, int iteration) {
    std::size_t observed = 0;  // index in pending_
    std::size_t stored = 0;    // index in stores_
    for (int ring : filled_rings(index)) {
      const int value = value_of(ring), before = iteration - schedule_.rings[at(ring)].slots;
      if (scope_of(value) != Scope::iteration) continue;  // finish() has handed back what earlier tiles read
      if (before >= 0) look_at(index, iteration, value, before, observed, stored);
      for (const Before& other : before_filling(graph_, schedule_, value))
        if (const int filling = iteration - (other.same_round ? 0 : 1); other.every_iteration && filling >= 0)
          look_at(index, iteration, value_of(other.ring), filling, observed, stored);
    }
    if (observed > 0) observe(observed - 1);
    if (stored > 0) wait_for_stores(stores_.size() - stored);
  }

  /// A node fills the place of a filling: which of this role's groups and stores must be seen to have read that.
  void look_at(int index, int iteration, int value, int filling, std::size_t& observed, std::size_t& stored) const {
    for (const int reader : readers(value, Scope::iteration)) {
      const int of = filling + reads_later(graph_, value, reader);
      const auto found = std::find(pending_.begin(), pending_.end(), Instance{reader, of});
      const auto put = std::find(stores_.begin(), stores_.end(), Instance{reader, of});
      if (found != pending_.end())
        observed = std::max(observed, static_cast<std::size_t>(found - pending_.begin()) + 1);
      else if (put != stores_.end())
        stored = std::max(stored, static_cast<std::size_t>(put - stores_.begin()) + 1);
      else if (completed_.count({reader, of}) == 0)
        refuse_own_wait(index, iteration, value, reader, of, "fills the slot again before");
    }
  }

  [[noreturn]] void refuse_own_wait(int index, int iteration, int value, int other, int other_iteration,
                                    const char* order) const {
    support::fail(Stage::codegen, Code::invalid_argument,
                  support::cat("role '", schedule_.roles[at(role_)].name, "' of '", graph_.name,
                               "' would wait for itself: '", node(index).name, "' of iteration ", iteration, " ", order,
                               " '", node(other).name, "' of iteration ", other_iteration, ", over value '",
                               graph_.values[at(value)].name, "'; verify the schedule"));
  }

  // Waits for pending_[0..newest] and says so.
  void observe(std::size_t newest) {
    push({.kind = EventKind::matrix_wait, .pending = static_cast<int>(pending_.size() - 1 - newest)});
    const std::vector<Instance> finished(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(newest) + 1);
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(newest) + 1);
    for (const auto& [index, iteration] : finished)
      push({.kind = EventKind::done, .node = index, .iteration = iteration});
    for (const auto& [index, iteration] : finished) complete(index, iteration);
  }

  void acquire(int value, int index, int iteration) {
    if (acquired_.insert({value, iteration}).second)
      push({.kind = EventKind::wait_full, .node = index, .ring = ring_of(value), .iteration = iteration});
  }
  void acquire_values(int index, int iteration) {
    for (const Edge& edge : graph_.edges)
      if (edge.dst == index && edge.value >= 0) {
        if (scope_of(edge.value) == Scope::iteration && iteration < 0) continue;  // finish() has waited
        const int filling = scope_of(edge.value) == Scope::iteration ? iteration - edge.distance : -1;
        if (edge.distance > 0 && filling < 0) continue;  // the first iteration finds no value of the one before
        if (in_role(edge.src) && sum_filler(edge.value) < 0 && issued_.count({edge.src, filling}) == 0)
          refuse_own_wait(index, iteration, edge.value, edge.src, filling, "reads before");
        acquire(edge.value, index, filling);
      }
  }

  // All readers of a slot in this role are complete: hand it back. A value that is filled once a tile is done only with
  // its readers at the tile's end; without such a reader, finish() hands it back.
  void complete(int index, int iteration) {
    completed_.insert({index, iteration});
    std::set<int> seen;
    for (const Edge& edge : graph_.edges) {
      if (edge.dst != index || edge.value < 0 || !seen.insert(edge.value).second) continue;
      const bool every_iteration = scope_of(edge.value) == Scope::iteration,
                 at_end = node(index).scope == Scope::tile_end;
      if (!every_iteration && !at_end) continue;
      const int filling = every_iteration && !at_end ? iteration - edge.distance : -1;
      if (every_iteration && !at_end && filling < 0) continue;
      const auto all = readers(edge.value, at_end ? Scope::tile_end : Scope::iteration);
      if (std::all_of(all.begin(), all.end(), [&](int reader) { return completed_.count({reader, iteration}) != 0; }))
        push({.kind = node(index).async == Async::unit ? EventKind::unit_release : EventKind::release,
              .ring = ring_of(edge.value),
              .iteration = filling});
    }
  }

  std::vector<int> filled_rings(int index) const {
    std::vector<int> rings;
    for (const Edge& edge : graph_.edges) {
      if (edge.src != index || edge.value < 0) continue;
      const int ring = ring_of(edge.value);
      if (std::find(rings.begin(), rings.end(), ring) == rings.end()) rings.push_back(ring);
    }
    return rings;
  }
  void prepare_fills(int index, int iteration) {
    for (int ring : filled_rings(index)) {
      if (is_sum(index, ring) || (iteration >= 0 && !asked_.insert({ring, iteration}).second)) continue;
      push({.kind = EventKind::wait_empty, .node = index, .ring = ring, .iteration = iteration});
      if (iteration == 0) wait_for_places(index, -1);
      wait_for_places(index, iteration);
      if (node(index).async == Async::copy)
        push({.kind = EventKind::expect_full, .node = index, .ring = ring, .iteration = iteration});
    }
  }
  void publish_fills(int index, int iteration) {
    for (int ring : filled_rings(index))
      if (!is_sum(index, ring) && last_filler(ring, iteration)) publish(ring, index, iteration);
  }
  /// Several nodes of the matrix unit may add to a value: the first asks for the slot, the last hands it on.
  bool last_filler(int ring, int iteration) const {
    return std::all_of(graph_.edges.begin(), graph_.edges.end(), [&](const Edge& edge) {
      return edge.value != value_of(ring) || issued_.count({edge.src, iteration}) != 0;
    });
  }
  void publish(int ring, int index, int iteration) {
    const Async async = node(index).async;
    if (async == Async::copy) return;
    const EventKind kind = async == Async::threads ? EventKind::publish_copies
                           : async == Async::unit  ? EventKind::unit_publish
                                                   : EventKind::publish;
    const int value = value_of(ring);
    if (kind == EventKind::publish && graph_.values[at(value)].space == graph::Space::shared &&
        (read_asynchronously(graph_, value) || replaced_by_copies(graph_, schedule_, value, true)))
      push({.kind = EventKind::proxy_fence, .node = index, .ring = ring, .iteration = iteration});
    push({.kind = kind, .node = index, .ring = ring, .iteration = iteration});
  }
  /// Is it a sum: asked for before the loop and handed on after it?
  bool is_sum(int index, int ring) const { return sum_filler(value_of(ring)) == index; }

  std::vector<int> readers(int value, std::optional<Scope> scope = {}) const {
    return readers_in(graph_, schedule_, role_, value, scope);
  }
  int order_of(int index) const { return turn_of(schedule_, index); }
  // Is this the first (or last) node of its run that has an instance in this step?
  bool is_edge_of_run(int order, int index, const std::vector<Instance>& step, bool first) const {
    const auto in_run = [&](const Instance& each) { return order_of(each.first) == order; };
    const auto found = first ? std::find_if(step.begin(), step.end(), in_run)
                             : std::find_if(step.rbegin(), step.rend(), in_run).base() - 1;
    return found->first == index;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const Looks looks_;
  int role_, trip_count_, last_stage_ = 0;
  std::vector<Event>* out_ = nullptr;
  std::vector<Instance> pending_;           // matrix groups in commit order
  std::vector<Instance> stores_;            // groups of bulk stores in commit order
  std::set<std::pair<int, int>> acquired_;  // value, iteration
  std::set<Instance> completed_, issued_;
  std::set<std::pair<int, int>> asked_;                    // ring, iteration: its slot is there
  std::set<int> handed_back_;                              // values filled once a tile
  std::set<std::tuple<int, int, int>> waited_for_places_;  // ring filled (once a tile: any), ring before, iteration
};

}  // namespace

Timeline simulate(const Graph& graph, const Schedule& schedule, int role, int trip_count) {
  Timeline timeline = Simulator(graph, schedule, role, trip_count).run();
  if (!graph.machine.shared_barriers) place_barriers(graph, schedule, role, trip_count, timeline);
  return timeline;
}

}  // namespace tj::codegen
