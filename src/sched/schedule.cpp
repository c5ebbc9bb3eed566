// Graph -> schedule, read top to bottom: check, roles, cycles, rings, turns.
//
// Decides how often cycles are searched again when the slots that they need are not there. Each retry narrows what is
// allowed (fewer slots, then strict reuse, then a larger II), so the loop ends.
#include "sched/schedule.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "sched/bounds.hpp"
#include "sched/joint/joint.hpp"
#include "sched/joint/tile.hpp"
#include "sched/modulo/binding.hpp"
#include "sched/modulo/modulo.hpp"
#include "sched/modulo/problem.hpp"
#include "sched/rings.hpp"
#include "sched/roles.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

using support::cat;

constexpr int kSlotAttempts = 40;
constexpr std::uint64_t kBudgetOf40 = 7'000;  ///< nodes of the search for a graph of 40
constexpr std::uint64_t kRolesShare =
    4;  ///< nodes of the search for roles, for one of the modulo search: its nodes are that much smaller

/// The options, and the largest II that is of use; 0: any.
struct Limited : Options {
  int most_ii = 0;
};

void check_options(const graph::Graph& graph, const Limited& options) {
  const auto refuse = [](const char* name, int value, const char* or_else = "") {
    support::fail(Stage::schedule, Code::invalid_argument,
                  cat(name, " is ", value, "; it must be 0 (no limit) or more", or_else));
  };
  if (options.max_stages < 0) refuse("max_stages", options.max_stages);
  if (options.min_ii < 0) refuse("min_ii", options.min_ii);
  static_assert(kFirstIi == -1);
  if (options.most_ii < kFirstIi) refuse("most_ii", options.most_ii, ", or -1 (the first II that bounds allow)");
  if (options.max_slots < 0) refuse("max_slots", options.max_slots);
  if (options.max_roles < 0) refuse("max_roles", options.max_roles);
  if (options.node_budget > kMaxNodeBudget && options.node_budget != kBudgetBySize)
    support::fail(Stage::schedule, Code::invalid_argument,
                  cat("node_budget is ", options.node_budget, "; at most ", kMaxNodeBudget, " is allowed"));
  if (options.min_ii > kMaxMinIi)
    support::fail(Stage::schedule, Code::invalid_argument,
                  cat("min_ii is ", options.min_ii, "; at most ", kMaxMinIi, " is allowed"));
  if (!graph.machine.shared_barriers && (!options.joint || options.copies_apart))
    support::fail(
        Stage::schedule, Code::invalid_argument,
        cat("machine '", graph.machine.name, "' has no barriers in shared memory, so that the loop is one role: ",
            options.joint ? "copies_apart is set; it must not be" : "joint is off; it must be set"));
  if (options.mixed_roles && !options.joint)
    support::fail(Stage::schedule, Code::invalid_argument,
                  "mixed_roles is set without joint; the simple split keeps what completes by itself apart: set both, "
                  "or neither");
  if (options.mixed_roles && options.copies_apart)
    support::fail(Stage::schedule, Code::invalid_argument,
                  "copies_apart is set with mixed_roles, which lets any nodes share a role; set one of them");
  for (const graph::Node& node : graph.nodes)
    if (node.scope == graph::Scope::iteration) return;
  support::fail(Stage::schedule, Code::invalid_argument,
                cat("graph '", graph.name, "' has no iteration node; a loop needs at least one"));
}

/// Cycles into the schedule, and the role orders that follow from them.
void take_cycles(const graph::Graph& graph, const Problem& problem, const ModuloResult& found, Schedule& schedule) {
  std::vector<int> cycle = found.cycle;
  delay_copies(problem, graph, found.ii, cycle);
  const int first = *std::min_element(cycle.begin(), cycle.end());
  for (int& each : cycle) each -= first;
  schedule.ii = found.ii;
  schedule.length = makespan(problem, cycle);
  schedule.proven_ii = found.proven_ii;
  schedule.proven_length = found.proven_length;
  schedule.excluded = what_binds(problem, found);
  schedule.certificate = found.certificate + to_words(schedule.excluded);
  schedule.cycle.assign(graph.nodes.size(), 0);
  for (int i = 0; i < problem.size(); ++i) schedule.cycle[at(problem.node[at(i)])] = cycle[at(i)];
  order_roles(graph, schedule);
}

bool within(const std::vector<int>& slots, const SlotCaps& caps) {
  for (std::size_t v = 0; v < slots.size(); ++v)
    if (caps[v] > 0 && slots[v] > caps[v]) return false;
  return true;
}

/// Names of the units that stand for the roles' warps.
std::vector<std::string> warps_of(const Schedule& schedule) {
  std::vector<std::string> names;
  for (const Role& role : schedule.roles) names.push_back(cat("'warps of role ", role.name, "'"));
  return names;
}

/// Slots that the next search may count on.
struct Narrowing {
  explicit Narrowing(const graph::Graph& graph, const Options& options)
      : allowed(slot_caps(graph, options)), caps(allowed), min_ii(options.min_ii) {}
  const SlotCaps allowed;
  SlotCaps caps;
  bool strict = false, narrowed = false;
  int min_ii = 0;
};

/// Rings for a schedule whose cycles and roles are there. False when its slots are not there; then less is allowed next
/// time.
bool take_rings(const graph::Graph& graph, Narrowing& slots, Schedule& schedule) {
  const std::vector<int> needed = slots_needed(graph, schedule);
  const std::vector<int> fitting = shrink_to_fit(graph, schedule, needed);
  if (needed == fitting && within(needed, slots.caps)) {
    make_rings(graph, needed, slots.allowed, schedule);
    if (slots.narrowed)
      schedule.certificate +=
          "; found again because shared memory or slot limits leave fewer slots than the shortest schedule holds";
    return true;
  }
  slots.narrowed = true;
  if (needed != fitting) {
    for (std::size_t v = 0; v < slots.caps.size(); ++v)
      if (slots.caps[v] > 0) slots.caps[v] = std::min(slots.caps[v], fitting[v]);
  }
  if (slots.strict) slots.min_ii = schedule.ii + std::max(1, schedule.ii / 8);
  slots.strict = true;
  return false;
}

[[noreturn]] void no_slots(const graph::Graph& graph, int ii) {
  support::fail(Stage::schedule, Code::unsupported,
                cat("graph '", graph.name, "': no II up to ", ii,
                    " fits the slots that shared memory and limits allow; use a smaller tile"));
}

/// Bounds that do not depend on slots.
int recurrence_without_slots(const graph::Graph& graph, const Options& options, const Schedule& schedule) {
  return recurrence_bound(make_problem(graph, schedule.role, SlotCaps(graph.values.size(), 0), false, options)).ii;
}

/// A node of the search costs more in a larger graph, and a schedule of a larger graph takes more nodes.
std::uint64_t budget_by_size(const graph::Graph& graph) {
  std::uint64_t size = 0;
  for (const graph::Node& node : graph.nodes) size += node.scope == graph::Scope::iteration ? 1 : 0;
  return kBudgetOf40 * 40 / std::max<std::uint64_t>(size, 8);
}

/// Cycles and slots together: what the cycles need must be allowed and fit.
void solve(const graph::Graph& graph, const Limited& options, Schedule& schedule) {
  Narrowing slots(graph, options);
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    Problem problem = make_problem(graph, schedule.role, slots.caps, slots.strict, options);
    hold_warps(graph, schedule.role, warps_of(schedule), problem);
    const std::uint64_t left = options.node_budget - std::min(options.node_budget, schedule.search_nodes);
    const ModuloResult found = modulo_schedule(problem, left, slots.min_ii, options.most_ii);
    schedule.search_nodes += found.search_nodes;
    if (!found.found)
      support::fail(Stage::schedule, Code::unsupported,
                    cat("graph '", graph.name, "' has no schedule: ", found.certificate));
    if (attempt == 0) {
      schedule.res_mii = found.res_mii;
      schedule.rec_mii = recurrence_without_slots(graph, options, schedule);
    }
    take_cycles(graph, problem, found, schedule);
    if (take_rings(graph, slots, schedule)) return;
  }
  no_slots(graph, schedule.ii);
}

/// The joint search within the budget; false when it was not enough, and the simple split has to answer.
bool solve_joint(const graph::Graph& graph, const Limited& options, int* open_ii, Schedule& schedule) {
  const int known = open_ii != nullptr ? std::exchange(*open_ii, 0) : 0;
  Narrowing slots(graph, options);
  std::uint64_t searched = 0;
  int res_mii = 0, rec_mii = 0;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    JointOptions joint;
    joint.modulo_budget = options.node_budget - std::min(options.node_budget, searched);
    joint.node_budget = kRolesShare * options.node_budget - std::min(kRolesShare * options.node_budget, searched);
    joint.max_roles = options.max_roles;
    joint.max_stages = options.max_stages;
    joint.streaming_latency_zero = options.streaming_latency_zero;
    joint.mixed_roles = options.mixed_roles;
    joint.copies_apart = options.copies_apart;
    joint.relaxed.variable_latency = joint.relaxed.bodies = options.mixed_roles;
    joint.min_ii = slots.min_ii;
    joint.most_ii = options.most_ii;
    joint.open_ii = known;
    joint.slots = slots.caps;
    joint.strict_slots = slots.strict;
    const JointResult found = joint_schedule(graph, joint);
    searched += found.search_nodes;
    if (!found.found && !found.proven_ii && !found.nowhere && !found.beyond) return false;
    schedule = with_roles(graph, found, options);
    schedule.search_nodes = searched;
    if (attempt == 0) {
      res_mii = found.res_mii;
      rec_mii = recurrence_without_slots(graph, options, schedule);
      if (open_ii != nullptr) *open_ii = found.open_ii;
    }
    schedule.res_mii = res_mii;
    schedule.rec_mii = rec_mii;
    if (take_rings(graph, slots, schedule)) return true;
  }
  no_slots(graph, schedule.ii);
}

void solve_split(const graph::Graph& graph, const Limited& options, Schedule& schedule) {
  assign_roles(graph, schedule);
  solve(graph, options, schedule);
}

}  // namespace

Schedule schedule(const graph::Graph& graph, const Options& options) { return schedule_within(graph, options, 0); }

Schedule schedule_within(const graph::Graph& graph, const Options& given, int most_ii, int* open_ii) {
  const auto begin = std::chrono::steady_clock::now();
  graph::check(graph);
  Limited options{given, most_ii};
  if (!graph.machine.shared_barriers) {  // nothing could tell roles apart when another is done
    options.mixed_roles = true;
    options.max_roles = 1;
  }
  check_options(graph, options);
  if (options.node_budget == kBudgetBySize) options.node_budget = budget_by_size(graph);
  Schedule result;
  result.streaming_latency_zero = options.streaming_latency_zero;
  result.copies_apart = options.copies_apart;
  if (!options.joint) {
    solve_split(graph, options, result);
  } else if (!solve_joint(graph, options, open_ii, result)) {
    if (options.mixed_roles)
      support::fail(Stage::schedule, Code::unsupported,
                    cat("graph '", graph.name, "': the joint search gave up within node_budget ", options.node_budget,
                        ", and mixed roles have no simpler answer; raise it"));
    if (options.most_ii == kFirstIi)
      support::fail(Stage::schedule, Code::unsupported,
                    cat("graph '", graph.name, "': the joint search gave up at the first II within node_budget ",
                        options.node_budget, "; no simpler answer is looked for there"));
    solve_split(graph, options, result);
    result.proven_ii = result.proven_length = false;
    result.certificate +=
        "; the joint search gave up within the budget: roles by the simple split, memory and registers not checked";
  }
  if (options.order_barriers) find_order_barriers(graph, result);
  cut_steps(graph, result);
  order_roles(graph, result);
  result.solve_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace tj::sched
