// Schedules of users' graphs, as tilejit/graph.hpp shows them.
//
// Decides the names under which a schedule's parts are read. Finds no schedule and draws none itself (sched).
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include <tilejit/graph.hpp>

#include "custom/document.hpp"
#include "custom/graph_document.hpp"
#include "graph/json_fields.hpp"
#include "graph/json_tree.hpp"
#include "sched/picture/svg.hpp"
#include "sched/picture/trace.hpp"
#include "sched/schedule.hpp"
#include "sched/tile_level.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"
#include "support/text.hpp"

namespace tj {

struct Schedule::State {
  graph::Graph graph;
  sched::Schedule schedule;
  std::vector<Node> nodes;
  std::vector<Role> roles;
  std::vector<Ring> rings;
  std::vector<Turns> turns;
  std::vector<Unit> units;
  std::string candidate;

  static std::shared_ptr<const State> of(ScheduledForm form);
};

namespace {

using support::at;

std::vector<Schedule::Node> nodes_of(const graph::Graph& graph, const sched::Schedule& schedule) {
  std::vector<Schedule::Node> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    nodes.push_back({graph.nodes[i].name, schedule.cycle[i], schedule.stage(static_cast<int>(i)), schedule.role[i],
                     static_cast<Graph::Scope>(graph.nodes[i].scope)});
  return nodes;
}

std::vector<Schedule::Role> roles_of(const sched::Schedule& schedule) {
  std::vector<Schedule::Role> roles;
  for (const sched::Role& role : schedule.roles) roles.push_back({role.name, role.warps, role.registers, role.nodes});
  return roles;
}

std::vector<Schedule::Ring> rings_of(const graph::Graph& graph, const sched::Schedule& schedule) {
  std::vector<Schedule::Ring> rings;
  for (const sched::Ring& ring : schedule.rings) {
    const graph::Value& value = graph.values[at(ring.value)];
    rings.push_back({value.name, ring.slots, value.slot_bytes, value.shared_by, ring.producer_role, ring.consumer_roles,
                     value.lies_in < 0 ? "" : graph.values[at(value.lies_in)].name});
  }
  return rings;
}

std::vector<Schedule::Turns> turns_of(const graph::Graph& graph, const sched::Schedule& schedule) {
  std::vector<Schedule::Turns> all;
  for (const sched::OrderBarrier& barrier : schedule.order_barriers) {
    Schedule::Turns turns{graph.machine.units[at(barrier.unit)].name, {}};
    for (std::size_t i = 0; i < barrier.roles.size(); ++i) turns.turns.push_back({barrier.roles[i], barrier.nodes[i]});
    all.push_back(std::move(turns));
  }
  return all;
}

std::vector<Schedule::Unit> units_of(const graph::Graph& graph) {
  std::vector<Schedule::Unit> units;
  for (const graph::Unit& unit : graph.machine.units)
    units.push_back({unit.name, unit.capacity, sched::held_cycles(graph, static_cast<int>(units.size()))});
  return units;
}

}  // namespace

std::shared_ptr<const Schedule::State> Schedule::State::of(ScheduledForm form) {
  auto state = std::make_shared<Schedule::State>();
  state->candidate = std::move(form.form.candidate);
  state->graph = std::move(form.form.graph);
  state->schedule = std::move(form.schedule);
  state->nodes = nodes_of(state->graph, state->schedule);
  state->roles = roles_of(state->schedule);
  state->rings = rings_of(state->graph, state->schedule);
  state->turns = turns_of(state->graph, state->schedule);
  state->units = units_of(state->graph);
  return state;
}

Schedule schedule(const Graph& graph, const ScheduleOptions& options) {
  return Schedule(Schedule::State::of(best_form(document_of(graph).forms(""), &options)));
}

Schedule schedule(const Graph& graph) {
  return Schedule(Schedule::State::of(best_form(document_of(graph).forms(""), nullptr)));
}

Schedule::Schedule(std::shared_ptr<const State> state) : state_(std::move(state)) {}

int Schedule::ii() const { return state_->schedule.ii; }
int Schedule::length() const { return state_->schedule.length; }
const std::string& Schedule::candidate() const { return state_->candidate; }
int Schedule::stages() const { return (length() + ii() - 1) / ii(); }
int Schedule::resource_bound() const { return state_->schedule.res_mii; }
int Schedule::recurrence_bound() const { return state_->schedule.rec_mii; }
bool Schedule::proven_ii() const { return state_->schedule.proven_ii; }
bool Schedule::proven_length() const { return state_->schedule.proven_length; }
const std::string& Schedule::certificate() const { return state_->schedule.certificate; }
std::uint64_t Schedule::search_nodes() const { return state_->schedule.search_nodes; }
bool Schedule::joint() const { return state_->schedule.joint; }

const std::vector<Schedule::Node>& Schedule::nodes() const { return state_->nodes; }
const std::vector<Schedule::Role>& Schedule::roles() const { return state_->roles; }
const std::vector<Schedule::Ring>& Schedule::rings() const { return state_->rings; }
const std::vector<Schedule::Turns>& Schedule::turns() const { return state_->turns; }
const std::vector<Schedule::Unit>& Schedule::units() const { return state_->units; }

const Schedule::Node& Schedule::node(std::string_view name) const {
  std::string known;
  for (const Node& each : state_->nodes) {
    if (each.name == name) return each;
    known += support::cat(known.empty() ? "" : ", ", each.name);
  }
  support::fail(Stage::schedule, Code::invalid_argument,
                support::cat("node is '", support::shown(name), "'; graph '", state_->graph.name, "' has ",
                             support::shown(known, 300)));
}

std::vector<std::string> Schedule::verify() const {
  std::vector<std::string> problems = sched::verify(state_->graph, state_->schedule);
  if (!problems.empty()) return problems;
  const std::optional<sched::TileLevel> tile = sched::tile_level(state_->graph, state_->schedule);
  return tile ? sched::verify_tiles(state_->graph, state_->schedule, tile->steady) : problems;
}

double Schedule::predicted_tflops(int sm_count, double clock_ghz, double iterations) const {
  const auto refuse = [](const char* name, auto value, const char* allowed) {
    support::fail(Stage::schedule, Code::invalid_argument, support::cat(name, " is ", value, "; allowed: ", allowed));
  };
  if (sm_count < 1) refuse("sm_count", sm_count, "1 and more");
  if (!(clock_ghz > 0 && std::isfinite(clock_ghz))) refuse("clock_ghz", clock_ghz, "a number above 0");
  if (!(iterations >= 1 && std::isfinite(iterations))) refuse("iterations", iterations, "1 and more");
  return sched::predict_tflops(state_->graph, state_->schedule, sm_count, clock_ghz, iterations);
}

std::string Schedule::text() const { return sched::to_text(state_->graph, state_->schedule); }
std::string Schedule::json() const {
  std::string text = sched::to_json(state_->graph, state_->schedule);
  if (!candidate().empty()) text.insert(text.find('{') + 1, "\n  \"candidate\": \"" + candidate() + "\",");
  return text;
}
std::string Schedule::svg() const { return sched::to_svg(state_->graph, state_->schedule); }
std::string Schedule::trace() const { return sched::to_trace(state_->graph, state_->schedule); }

ScheduleOptions read_options(const graph::Fields& fields, const graph::Json& json, const std::string& place,
                             const ScheduleOptions& usual) {
  ScheduleOptions options = usual;
  fields.keys(json, place.empty() ? "the document" : place,
              {"max_stages", "min_ii", "max_slots", "max_roles", "node_budget", "streaming_latency_zero", "turns",
               "joint", "mixed_roles", "copies_apart"});
  const auto number = [&](const char* key, int& member, int most) {
    member = fields.number_or(json, place, key, member, 0, most);
  };
  const auto flag = [&](const char* key, bool& member) { member = fields.flag(json, place, key, member); };
  number("max_stages", options.max_stages, INT32_MAX);
  number("min_ii", options.min_ii, sched::kMaxMinIi);
  number("max_slots", options.max_slots, INT32_MAX);
  number("max_roles", options.max_roles, INT32_MAX);
  if (const graph::Json* budget = graph::Fields::optional(json, "node_budget"))
    options.node_budget = fields.integer(*budget, graph::Fields::join(place, "node_budget"), 0, sched::kMaxNodeBudget);
  flag("streaming_latency_zero", options.streaming_latency_zero);
  flag("turns", options.turns);
  flag("joint", options.joint);
  flag("mixed_roles", options.mixed_roles);
  flag("copies_apart", options.copies_apart);
  return options;
}

ScheduleOptions ScheduleOptions::parse(std::string_view json) { return parse(json, {}); }

ScheduleOptions ScheduleOptions::parse(std::string_view json, const ScheduleOptions& usual) {
  if (json.empty()) return usual;
  return read_options(graph::Fields("options", Stage::schedule), graph::parse_json(json, "options", Stage::schedule),
                      "", usual);
}

}  // namespace tj
