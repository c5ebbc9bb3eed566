// See timeline_compare.hpp.
#include "tools/timeline_compare.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <tilejit/error.hpp>

#include "sched/tile_level.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::tools {
namespace {

using support::at;

using graph::Scope;
using Times = std::vector<std::int64_t>;

std::optional<std::int64_t> median(Times times) {
  if (times.empty()) return std::nullopt;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

/// Iterations at a tile's ends lack neighbours: they are left out where a tile has more.
bool inside(int iteration, int iterations, int stages) {
  return iterations <= 2 * stages || (iteration >= stages && iteration < iterations - stages);
}

class Comparer {
 public:
  Comparer(const graph::Graph& graph, const sched::Schedule& schedule, const std::vector<BlockSpans>& blocks)
      : graph_(graph),
        schedule_(schedule),
        blocks_(blocks),
        stages_((std::max(1, schedule.length) + schedule.ii - 1) / std::max(1, schedule.ii)) {}

  Comparison make() {
    comparison_.anchor = anchor_of(graph_, schedule_);
    for (int role = 0; role < static_cast<int>(schedule_.roles.size()); ++role)
      comparison_.roles.push_back(row_of(role));
    add_tiles();
    return std::move(comparison_);
  }

 private:
  const graph::Node& node(int index) const { return graph_.nodes[at(index)]; }

  template <class Use>
  void for_tiles(int role, Use&& use) const {
    for (const BlockSpans& block : blocks_)
      for (const RoleSpans& spans : block.roles)
        if (spans.role == role)
          for (std::size_t t = 0; t < spans.tiles.size(); ++t) use(block, t, spans.tiles[t]);
  }

  static const Span* find(const TileSpans& tile, int node, int iteration) {
    for (const Span& span : tile.spans)
      if (span.wait.empty() && span.node == node && span.iteration == iteration) return &span;
    return nullptr;
  }
  /// Begins of the anchor in each iteration of that tile.
  std::map<int, std::int64_t> anchors(const BlockSpans& block, std::size_t tile) const {
    std::map<int, std::int64_t> begins;
    for (const RoleSpans& role : block.roles) {
      if (role.role != schedule_.role[at(comparison_.anchor)] || tile >= role.tiles.size()) continue;
      for (const Span& span : role.tiles[tile].spans)
        if (span.wait.empty() && span.node == comparison_.anchor) begins[span.iteration] = span.begin;
    }
    return begins;
  }

  RoleRow row_of(int role) const {
    RoleRow row;
    row.role = role;
    int first = -1;
    for (const int index : schedule_.roles[at(role)].nodes) {
      const bool loops = node(index).scope == Scope::iteration;
      (loops ? row.nodes : row.once).push_back(row_of_node(role, index));
      if (loops && first < 0) first = index;
    }
    if (first >= 0) row.interval = interval(role, first);
    add_waits(row);
    return row;
  }

  NodeRow row_of_node(int role, int index) const {
    NodeRow row;
    row.node = index;
    row.predicted_offset = schedule_.cycle[at(index)] - schedule_.cycle[at(comparison_.anchor)];
    row.predicted_issue = node(index).cycles;
    row.predicted_latency = std::max(node(index).cycles, node(index).latency);
    const bool loops = node(index).scope == Scope::iteration;
    Times offsets, issues, dones;
    for_tiles(role, [&](const BlockSpans& block, std::size_t t, const TileSpans& tile) {
      const std::map<int, std::int64_t> zero = loops ? anchors(block, t) : std::map<int, std::int64_t>();
      for (const Span& span : tile.spans) {
        if (!span.wait.empty() || span.node != index || (loops && !inside(span.iteration, tile.iterations, stages_)))
          continue;
        issues.push_back(span.end - span.begin);
        if (span.done >= 0) dones.push_back(span.done - span.begin);
        if (const auto found = zero.find(span.iteration); found != zero.end())
          offsets.push_back(span.begin - found->second);
      }
    });
    row.measured_offset = median(std::move(offsets));
    row.measured_issue = median(std::move(issues));
    row.measured_done = median(std::move(dones));
    return row;
  }

  std::optional<std::int64_t> interval(int role, int index) const {
    Times times;
    for_tiles(role, [&](const BlockSpans&, std::size_t, const TileSpans& tile) {
      const Span* before = nullptr;
      for (const Span& span : tile.spans) {
        if (!span.wait.empty() || span.node != index) continue;
        if (before != nullptr && span.iteration == before->iteration + 1 &&
            inside(before->iteration, tile.iterations, stages_))
          times.push_back(span.begin - before->begin);
        before = &span;
      }
    });
    return median(std::move(times));
  }

  void add_waits(RoleRow& row) const {
    std::map<std::pair<std::string, int>, Times> waits;
    std::int64_t all = 0, waited = 0, issued = 0;
    for_tiles(row.role, [&](const BlockSpans&, std::size_t, const TileSpans& tile) {
      if (!tile.whole()) return;
      all += tile.end - tile.begin;
      for (const Span& span : tile.spans) {
        (span.wait.empty() ? issued : waited) += span.end - span.begin;
        if (!span.wait.empty()) waits[{span.wait, span.node}].push_back(span.end - span.begin);
      }
    });
    const auto share = [&](std::int64_t part) {
      return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0.0;
    };
    row.waiting = share(waited);
    row.issuing = share(issued);
    for (const auto& [what, times] : waits) {
      std::int64_t sum = 0;
      for (const std::int64_t time : times) sum += time;
      row.waits.push_back({what.first, what.second, *median(times), *std::max_element(times.begin(), times.end()),
                           times.size(), share(sum)});
    }
    std::stable_sort(row.waits.begin(), row.waits.end(),
                     [](const WaitRow& a, const WaitRow& b) { return a.share > b.share; });
  }

  void add_tiles() {
    struct Parts {
      Times head, loop, tail;
    };
    std::map<std::int64_t, Parts> by_iterations;
    for_tiles(schedule_.role[at(comparison_.anchor)], [&](const BlockSpans&, std::size_t, const TileSpans& tile) {
      const Span* first = find(tile, comparison_.anchor, 0);
      const Span* last = find(tile, comparison_.anchor, tile.iterations - 1);
      if (!tile.whole() || first == nullptr || last == nullptr) return;
      Parts& parts = by_iterations[tile.iterations];
      parts.head.push_back(first->begin - tile.begin);
      parts.loop.push_back(last->begin - first->begin);
      parts.tail.push_back(tile.end - last->begin);
    });
    for (const auto& [iterations, parts] : by_iterations) {
      TileRow row{parts.head.size(), iterations, *median(parts.head), *median(parts.loop), *median(parts.tail), 0, {}};
      row.predicted = graph_.overhead_cycles + static_cast<double>(iterations - 1) * schedule_.ii + schedule_.length;
      row.tile_level = tile_parts(iterations);
      comparison_.tiles.push_back(row);
    }
    std::reverse(comparison_.tiles.begin(), comparison_.tiles.end());
  }

  /// Cycles of the anchor's role, from where it is done with the tile before.
  std::optional<TileRow::Parts> tile_parts(std::int64_t iterations) const {
    try {
      const sched::TileTimes times = sched::tile_times(graph_, schedule_, static_cast<int>(iterations));
      const sched::TileRole& role = times.roles[at(schedule_.role[at(comparison_.anchor)])];
      const std::int64_t first = times.cycle[at(comparison_.anchor)], loop = (iterations - 1) * schedule_.ii;
      return TileRow::Parts{first - role.enters, loop, role.leaves - first - loop};
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  const graph::Graph& graph_;
  const sched::Schedule& schedule_;
  const std::vector<BlockSpans>& blocks_;
  const int stages_;
  Comparison comparison_;
};

}  // namespace

int anchor_of(const graph::Graph& graph, const sched::Schedule& schedule) {
  // Copies and stores run as far ahead or behind as slots allow.
  const auto rank = [&](int index) {
    int most = 0;
    for (const int other : schedule.roles[at(schedule.role[at(index)])].nodes) {
      const graph::Node& node = graph.nodes[at(other)];
      if (node.scope == Scope::iteration)
        most = std::max(most, !graph::issued_by_one(node.async) ? 2 : node.async == graph::Async::unit ? 1 : 0);
    }
    return most;
  };
  int best = -1;
  for (int index = 0; index < static_cast<int>(graph.nodes.size()); ++index) {
    if (graph.nodes[at(index)].scope != Scope::iteration) continue;
    const bool better = best < 0 || (rank(index) != rank(best) ? rank(index) > rank(best)
                                                               : schedule.cycle[at(index)] < schedule.cycle[at(best)]);
    if (better) best = index;
  }
  if (best < 0)
    support::fail(Stage::argument, Code::unsupported,
                  support::cat("'", graph.name, "' has no node that iterates: there is no interval to compare"));
  return best;
}

Comparison compare(const graph::Graph& graph, const sched::Schedule& schedule, const std::vector<BlockSpans>& blocks) {
  return Comparer(graph, schedule, blocks).make();
}

}  // namespace tj::tools
