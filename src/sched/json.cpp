// A schedule as JSON: the keys are an interface (src/sched/README.md lists them).
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sched/report_json.hpp"
#include "sched/schedule.hpp"
#include "sched/tile_level.hpp"
#include "support/index.hpp"
#include "support/json.hpp"

namespace tj::sched {
namespace {

using support::at;

using support::Json;

const char* scope_text(graph::Scope scope) {
  switch (scope) {
    case graph::Scope::tile_begin:
      return "tile_begin";
    case graph::Scope::tile_end:
      return "tile_end";
    case graph::Scope::iteration:
      break;
  }
  return "iteration";
}

Json names(const graph::Graph& graph, const std::vector<int>& nodes) {
  Json list = Json::array();
  for (const int node : nodes) list.push_back(graph.nodes[at(node)].name);
  return list;
}

/// The units, with the cycles that an iteration holds each of them.
Json units(const graph::Graph& graph) {
  Json list = Json::array();
  for (std::size_t u = 0; u < graph.machine.units.size(); ++u)
    list.push_back({{"name", graph.machine.units[u].name},
                    {"capacity", graph.machine.units[u].capacity},
                    {"cycles", held_cycles(graph, static_cast<int>(u))}});
  return list;
}

Json nodes(const graph::Graph& graph, const Schedule& schedule) {
  Json list = Json::array();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const int node = static_cast<int>(i);
    list.push_back({{"name", graph.nodes[i].name},
                    {"cycle", schedule.cycle[i]},
                    {"stage", schedule.stage(node)},
                    {"role", schedule.roles[at(schedule.role[i])].name},
                    {"scope", scope_text(graph.nodes[i].scope)}});
    if (const graph::Range& range = graph.nodes[i].range) {
      Json& json = list.back();
      json["variant"] = range.variant;
      if (!range.begin.empty()) json["variant_begin"] = range.begin;
      if (!range.end.empty()) json["variant_end"] = range.end;
    }
  }
  return list;
}

/// The interval below that a search excluded.
Json excluded(const Excluded& of) {
  Json out = {{"ii", of.ii}, {"recurrence", nullptr}, {"unit", nullptr}, {"nodes", of.nodes}};
  if (!of.recurrence.empty())
    out["recurrence"] = {{"nodes", of.recurrence}, {"cycles", of.cycles}, {"distance", of.distance}};
  if (!of.unit.empty()) out["unit"] = of.unit;
  return out;
}

/// Tiles that follow each other; null where tile_level() has none.
Json tile(const graph::Graph& graph, const Schedule& schedule) {
  const std::optional<TileLevel> level = tile_level(graph, schedule);
  if (!level) return nullptr;
  Json out = {{"ii", level->ii},
              {"c", level->c},
              {"n0", level->n0},
              {"proven", level->proven},
              {"walks", level->walks},
              {"periods", level->periods},
              {"alone", level->alone},
              {"alone_n0", level->alone_n0},
              {"certificate", level->certificate},
              {"overlaps", Json::array()}};
  for (std::size_t r = 0; r < schedule.roles.size(); ++r)
    out["overlaps"].push_back({{"role", schedule.roles[r].name}, {"cycles", level->steady.ahead[r]}});
  return out;
}

}  // namespace

namespace {

Json document(const graph::Graph& graph, const Schedule& schedule) {
  Json out;
  out["graph"] = graph.name;
  out["machine"] = graph.machine.name;
  out["ii"] = schedule.ii;
  out["length"] = schedule.length;
  out["res_mii"] = schedule.res_mii;
  out["rec_mii"] = schedule.rec_mii;
  out["proven_ii"] = schedule.proven_ii;
  out["proven_length"] = schedule.proven_length;
  out["certificate"] = schedule.certificate;
  if (schedule.excluded.ii > 0) out["excluded"] = excluded(schedule.excluded);
  out["joint"] = schedule.joint;
  out["cluster"] = graph.cluster;
  if (graph.pairs) out["pairs"] = true;
  out["blocks_per_sm"] = graph.blocks_per_sm;
  out["walk"] = graph::name_of(graph.walk);
  out["overhead_cycles"] = graph.overhead_cycles;
  if (graph.most_iterations > 0) out["most_iterations"] = graph.most_iterations;
  if (graph::has_ranges(graph)) out["ranges"] = graph::name_of(graph.ranges);
  out["search_nodes"] = schedule.search_nodes;
  out["solve_ms"] = schedule.solve_ms;
  out["units"] = units(graph);
  out["nodes"] = nodes(graph, schedule);
  out["roles"] = Json::array();
  for (const Role& role : schedule.roles)
    out["roles"].push_back({{"name", role.name},
                            {"warps", role.warps},
                            {"registers", role.registers},
                            {"nodes", names(graph, role.nodes)}});
  out["rings"] = Json::array();
  for (const Ring& ring : schedule.rings) {
    const graph::Value& value = graph.values[at(ring.value)];
    Json consumers = Json::array();
    for (const int role : ring.consumer_roles) consumers.push_back(schedule.roles[at(role)].name);
    out["rings"].push_back({{"value", value.name},
                            {"slots", ring.slots},
                            {"slot_bytes", value.slot_bytes},
                            {"shared_by", value.shared_by},
                            {"producer", schedule.roles[at(ring.producer_role)].name},
                            {"consumers", consumers}});
    if (value.lies_in >= 0) out["rings"].back()["lies_in"] = graph.values[at(value.lies_in)].name;
  }
  out["order_barriers"] = Json::array();
  for (const OrderBarrier& barrier : schedule.order_barriers) {
    Json turns = Json::array();
    for (std::size_t r = 0; r < barrier.roles.size(); ++r)
      turns.push_back({{"role", schedule.roles[at(barrier.roles[r])].name}, {"nodes", names(graph, barrier.nodes[r])}});
    out["order_barriers"].push_back({{"unit", graph.machine.units[at(barrier.unit)].name}, {"turns", turns}});
  }
  out["tile"] = tile(graph, schedule);
  return out;
}

std::string text_of(const Json& out) { return out.dump(2, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string to_json(const graph::Graph& graph, const Schedule& schedule) { return text_of(document(graph, schedule)); }

std::string to_json(const graph::Graph& graph, const Schedule& schedule, const DescribedDevice& device) {
  Json out = document(graph, schedule);
  out["sm_count"] = device.sm_count;
  out["clock_ghz"] = device.clock_ghz;
  return text_of(out);
}

}  // namespace tj::sched
