// A schedule as text for people: bounds, roles with their nodes in issue order, rings, turns.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <optional>
#include <string>

#include "sched/schedule.hpp"
#include "sched/tile_level.hpp"
#include "support/index.hpp"
#include "support/text_stream.hpp"

namespace tj::sched {
namespace {

using support::at;

void role_lines(std::ostream& out, const graph::Graph& graph, const Schedule& schedule, const Role& role) {
  out << "role " << role.name << ": " << role.warps << (role.warps == 1 ? " warp" : " warps");
  if (role.registers > 0) out << ", " << role.registers << " registers a thread";
  out << "\n";
  for (const int node : role.nodes) {
    const graph::Node& info = graph.nodes[at(node)];
    out << "  " << std::left << std::setw(16) << info.name << std::right;
    if (info.scope == graph::Scope::iteration)
      out << " cycle " << std::setw(6) << schedule.cycle[at(node)] << "  stage " << schedule.stage(node)
          << (info.range ? "  " + graph::to_text(info.range) : "") << "\n";
    else
      out << (info.scope == graph::Scope::tile_begin ? " once, before the loop\n" : " once, after the loop\n");
  }
}

void tile_lines(std::ostream& out, const graph::Graph& graph, const Schedule& schedule) {
  const std::optional<TileLevel> tile = tile_level(graph, schedule);
  if (!tile) return;
  const auto with = [](std::int64_t cycles) { return (cycles < 0 ? " - " : " + ") + std::to_string(std::abs(cycles)); };
  out << "tile: n iterations take n * " << tile->ii << with(tile->c)
      << (tile->proven ? " cycles (proven) from n = " : " cycles (not proven) from n = ") << tile->n0 << " on, "
      << tile->periods[0] << ", " << tile->periods[1] << ", " << tile->periods[2] << " where n is 0, 1, 2";
  if (tile->walks) out << "; a tile alone n * " << tile->ii << with(tile->alone);
  if (tile->walks && tile->alone_n0 > tile->n0) out << " from n = " << tile->alone_n0 << " on";
  out << "\ntile certificate: " << tile->certificate << "\n";
  for (std::size_t r = 0, shown = 0; r < schedule.roles.size(); ++r)
    if (tile->steady.ahead[r] > 0)
      out << (shown++ == 0 ? "tile overlap: " : "; ") << schedule.roles[r].name << " begins the next one "
          << tile->steady.ahead[r] << (tile->steady.ahead[r] == 1 ? " cycle" : " cycles") << " before this one ends";
  if (std::any_of(tile->steady.ahead.begin(), tile->steady.ahead.end(), [](std::int64_t each) { return each > 0; }))
    out << "\n";
}

}  // namespace

std::string title(const graph::Graph& graph) {
  std::string text = graph.name + " on " + graph.machine.name;
  if (graph.pairs) text += ", pairs of blocks";
  if (graph.blocks_per_sm > 1) text += ", " + std::to_string(graph.blocks_per_sm) + " blocks an SM";
  return text;
}

std::string to_text(const graph::Graph& graph, const Schedule& schedule) {
  support::TextStream out;
  out << "graph " << title(graph) << "\n";
  if (graph::has_ranges(graph)) out << "ranges " << graph::name_of(graph.ranges) << "\n";
  out << "II " << schedule.ii << (schedule.proven_ii ? " (proven)" : " (not proven)") << ", length " << schedule.length
      << (schedule.proven_length ? " (proven)" : " (not proven)") << ", ResMII " << schedule.res_mii << ", RecMII "
      << schedule.rec_mii << "\n";
  out << "certificate: " << schedule.certificate << "\n";
  out << "search: " << schedule.search_nodes << " nodes, " << std::fixed << std::setprecision(3) << schedule.solve_ms
      << " ms\n";
  for (const Role& role : schedule.roles) role_lines(out, graph, schedule, role);
  tile_lines(out, graph, schedule);
  for (const Ring& ring : schedule.rings) {
    out << "ring " << graph.values[at(ring.value)].name << ": " << ring.slots
        << (ring.slots == 1 ? " slot of " : " slots of ") << graph.values[at(ring.value)].slot_bytes << " bytes, "
        << schedule.roles[at(ring.producer_role)].name << " ->";
    for (const int role : ring.consumer_roles) out << " " << schedule.roles[at(role)].name;
    if (const int place = graph.values[at(ring.value)].lies_in; place >= 0)
      out << ", in the place of " << graph.values[at(place)].name;
    out << "\n";
  }
  for (const OrderBarrier& barrier : schedule.order_barriers) {
    out << "turns on " << graph.machine.units[at(barrier.unit)].name << ":";
    for (std::size_t r = 0; r < barrier.roles.size(); ++r) {
      out << (r == 0 ? " " : ", then ") << schedule.roles[at(barrier.roles[r])].name << " (";
      for (std::size_t n = 0; n < barrier.nodes[r].size(); ++n)
        out << (n == 0 ? "" : " ") << graph.nodes[at(barrier.nodes[r][n])].name;
      out << ")";
    }
    out << "\n";
  }
  return out.str();
}

}  // namespace tj::sched
