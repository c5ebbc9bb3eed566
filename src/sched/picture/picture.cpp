// Rows of a picture (see picture.hpp).
#include "sched/picture/picture.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

using graph::Graph;
using graph::Node;
using support::cat;

bool iterates(const Node& node) { return node.scope == graph::Scope::iteration; }

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

bool earlier(const Box& a, const Box& b) { return a.begin < b.begin; }

}  // namespace

// First fit by begin; a node prefers the track of its previous instance, so that its boxes line up.
std::vector<Track> tracks_of(std::vector<Box> boxes) {
  std::stable_sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.node != b.node ? a.node < b.node : a.iteration < b.iteration;
  });
  std::vector<Track> tracks(1);
  std::vector<std::int64_t> free_from(1, boxes.empty() ? 0 : boxes.front().begin);  // sorted: the least
  std::map<int, std::size_t> home;
  for (Box& box : boxes) {
    std::size_t track = 0;
    if (box.end > box.begin) {
      const auto known = home.find(box.node);
      if (known != home.end() && free_from[known->second] <= box.begin) {
        track = known->second;
      } else {
        while (track < tracks.size() && free_from[track] > box.begin) ++track;
      }
      if (track == tracks.size()) {
        tracks.emplace_back();
        free_from.push_back(0);
      }
      free_from[track] = box.end;
      home[box.node] = track;
    }
    tracks[track].boxes.push_back(std::move(box));
  }
  return tracks;
}

std::vector<Box> role_boxes(const Graph& graph, const Schedule& schedule, int role, int first, int count) {
  std::vector<Box> boxes;
  for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
    const Node& info = graph.nodes[at(node)];
    if (schedule.role[at(node)] != role || !iterates(info)) continue;
    for (int i = first; i < first + count; ++i) {
      Box box;
      box.node = node;
      box.iteration = i;
      box.begin = schedule.cycle[at(node)] + std::int64_t{i} * std::max(1, schedule.ii);
      box.issued = box.begin + info.cycles;
      box.end = box.begin + std::max({0, info.cycles, info.latency});
      boxes.push_back(std::move(box));
    }
  }
  std::stable_sort(boxes.begin(), boxes.end(), earlier);
  return boxes;
}

namespace {

/// Each is half a kilobyte of SVG, and rows are laid out in quadratic time.
constexpr std::int64_t kMostBoxes = 1 << 15;

class Maker {
 public:
  Maker(const Graph& graph, const Schedule& schedule) : graph_(graph), schedule_(schedule) {
    picture_.period = std::max(1, schedule.ii);
    picture_.stages = static_cast<int>((std::max(1, schedule.length) + picture_.period - 1) / picture_.period);
    picture_.steady.window = 2 * picture_.period;
    picture_.unrolled.window = (picture_.stages + 1) * picture_.period;
  }

  Picture make() {
    check_size();
    for (int unit = 0; unit < static_cast<int>(graph_.machine.units.size()); ++unit) add_unit(unit);
    for (int role = 0; role < static_cast<int>(schedule_.roles.size()); ++role) add_warps(role);
    add_unitless();
    add_iterations();
    for (const OrderBarrier& barrier : schedule_.order_barriers) add_turns(barrier);
    for (int role = 0; role < static_cast<int>(schedule_.roles.size()); ++role) add_role(role);
    for (int node = 0; node < size(); ++node) {
      const graph::Scope scope = graph_.nodes[at(node)].scope;
      if (scope == graph::Scope::tile_begin) picture_.begin_nodes.push_back(node);
      if (scope == graph::Scope::tile_end) picture_.end_nodes.push_back(node);
    }
    return std::move(picture_);
  }

 private:
  /// A latency of many intervals has as many iterations in flight, and a legal one may have millions.
  void check_size() const {
    const std::int64_t boxes = (std::int64_t{picture_.stages} + 1) * size();
    if (boxes > kMostBoxes)
      support::fail(Stage::schedule, Code::unsupported,
                    cat("a picture of ", picture_.stages, " iterations in flight, of ", size(),
                        " instructions each, would have ", boxes, " boxes; allowed: at most ", kMostBoxes,
                        " (hold the schedule to fewer iterations in flight, by max_stages)"));
  }
  int size() const { return static_cast<int>(graph_.nodes.size()); }
  std::int64_t cycle(int node) const { return schedule_.cycle[at(node)]; }

  /// Every instance of [start, start + cycles) after the node's issue that the steady window sees.
  void repeat(std::vector<Box>& boxes, int node, std::int64_t start, std::int64_t cycles, int count) const {
    const std::int64_t begin = cycle(node) + start, period = picture_.period;
    for (std::int64_t round = -floor_div(begin + cycles, period) - 1; begin + round * period < picture_.steady.window;
         ++round) {
      Box box;
      box.node = node;
      box.iteration = static_cast<int>(round);
      box.begin = begin + round * period;
      box.end = box.issued = box.begin + cycles;
      box.count = count;
      if (box.end > 0 || (cycles == 0 && box.begin == 0)) boxes.push_back(std::move(box));
    }
  }

  void add_unit(int unit) {
    std::vector<Box> boxes;
    for (int node = 0; node < size(); ++node) {
      if (!iterates(graph_.nodes[at(node)])) continue;
      for (const graph::Reservation& use : graph_.nodes[at(node)].reservations) {
        if (use.unit != unit) continue;
        repeat(boxes, node, use.start, use.cycles, use.count);
      }
    }
    if (boxes.empty()) return;
    const graph::Unit& info = graph_.machine.units[at(unit)];
    Row row;
    row.name = info.name;
    row.note = cat(info.capacity > 1 ? cat(info.capacity, " of it, ") : "", "busy ",
                   100 * held_cycles(graph_, unit) / (picture_.period * std::max(1, info.capacity)), "%");
    row.tracks = tracks_of(std::move(boxes));
    picture_.steady.rows.push_back(std::move(row));
  }

  /// For how long nodes keep the warps of a role, where they say so.
  void add_warps(int role) {
    std::vector<Box> boxes;
    std::int64_t busy = 0;
    for (int node = 0; node < size(); ++node) {
      const Node& info = graph_.nodes[at(node)];
      if (!iterates(info) || info.warp_cycles == 0 || schedule_.role[at(node)] != role) continue;
      busy += info.warp_cycles;
      repeat(boxes, node, 0, info.warp_cycles, 1);
    }
    if (boxes.empty()) return;
    Row row;
    row.name = schedule_.roles[at(role)].name;
    row.note = cat("warps busy ", 100 * busy / picture_.period, "%");
    row.tracks = tracks_of(std::move(boxes));
    picture_.steady.rows.push_back(std::move(row));
  }

  void add_unitless() {
    std::vector<Box> boxes;
    for (int node = 0; node < size(); ++node)
      if (const Node& info = graph_.nodes[at(node)];
          iterates(info) && info.reservations.empty() && info.warp_cycles == 0)
        repeat(boxes, node, 0, info.cycles, 1);
    if (boxes.empty()) return;
    Row row;
    row.name = "no unit";
    row.tracks = tracks_of(std::move(boxes));
    picture_.steady.rows.push_back(std::move(row));
  }

  void add_iterations() {
    std::vector<Box> boxes;
    for (std::int64_t i = 0; i * picture_.period < picture_.unrolled.window; ++i) {
      Box box;
      box.iteration = static_cast<int>(i);
      box.begin = i * picture_.period;
      box.end = box.issued = box.begin + std::max(1, schedule_.length);
      box.label = cat("iteration ", i);
      boxes.push_back(std::move(box));
    }
    Row row;
    row.name = "iterations";
    row.tracks.resize(at(picture_.stages));  // each keeps to its own line, round and round
    for (Box& box : boxes) row.tracks[at(box.iteration % picture_.stages)].boxes.push_back(std::move(box));
    picture_.unrolled.rows.push_back(std::move(row));
  }

  /// Adds a box for each turn, from a run's first node to the end of what its last node holds of the unit.
  void add_turns(const OrderBarrier& barrier) {
    std::vector<Box> boxes;
    const std::int64_t period = picture_.period;
    for (std::size_t r = 0; r < barrier.roles.size(); ++r) {
      const std::vector<int>& nodes = barrier.nodes[r];
      if (nodes.empty()) continue;
      const std::int64_t origin = cycle(nodes.front()) % period;
      std::int64_t first = cycle(nodes.front()) / period, length = 0;
      for (const int node : nodes) {
        const std::int64_t since = cycle(node) - origin;
        first = std::min(first, floor_div(since, period));
        std::int64_t held = 0;
        for (const graph::Reservation& use : graph_.nodes[at(node)].reservations)
          if (use.unit == barrier.unit) held = std::max<std::int64_t>(held, use.start + use.cycles);
        length = std::max(length, since - floor_div(since, period) * period + held);
      }
      for (int turn = 0; (first + turn) * period + origin < picture_.unrolled.window; ++turn) {
        Box box;
        box.iteration = turn;
        box.begin = (first + turn) * period + origin;
        box.end = box.issued = box.begin + length;
        box.role = barrier.roles[r];
        box.label = schedule_.roles[at(box.role)].name;
        boxes.push_back(std::move(box));
      }
    }
    Row row;
    row.name = cat("turns ", graph_.machine.units[at(barrier.unit)].name);
    row.tracks = tracks_of(std::move(boxes));
    picture_.unrolled.rows.push_back(std::move(row));
  }

  void add_role(int role) {
    std::vector<Box> boxes = role_boxes(graph_, schedule_, role, 0, picture_.stages + 1);
    std::erase_if(boxes, [&](const Box& box) { return box.begin >= picture_.unrolled.window; });
    const Role& info = schedule_.roles[at(role)];
    Row row;
    row.name = info.name;
    row.note = cat(info.warps, info.warps == 1 ? " warp" : " warps");
    row.waits = waits_of(boxes);
    row.tracks = tracks_of(std::move(boxes));
    picture_.unrolled.rows.push_back(std::move(row));
  }

  /// The source of an edge that lets the node issue no earlier, if the role has to wait for its result; -1: none.
  int awaited(int node) const {
    for (const graph::Edge& edge : graph_.edges) {
      if (edge.dst != node || edge.src == node || !iterates(graph_.nodes[at(edge.src)])) continue;
      const bool elsewhere = schedule_.role[at(edge.src)] != schedule_.role[at(node)];
      const bool later = elsewhere || edge.blocking || graph_.nodes[at(edge.src)].async != graph::Async::none;
      if (later && cycle(edge.src) + edge.delay == cycle(node) + edge.distance * picture_.period) return edge.src;
    }
    return -1;
  }

  std::vector<Box> waits_of(std::vector<Box> boxes) const {
    std::stable_sort(boxes.begin(), boxes.end(), earlier);
    std::vector<Box> waits;
    std::int64_t busy_until = 0;
    for (const Box& box : boxes) {
      if (const int source = awaited(box.node); source >= 0 && box.begin > busy_until) {
        Box wait = box;
        wait.begin = busy_until;
        wait.end = wait.issued = box.begin;
        wait.label = graph_.nodes[at(source)].name;
        waits.push_back(std::move(wait));
      }
      busy_until = std::max(busy_until, box.issued);
    }
    return waits;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  Picture picture_;
};

}  // namespace

Picture make_picture(const Graph& graph, const Schedule& schedule) { return Maker(graph, schedule).make(); }

}  // namespace tj::sched
