// The order of questions: II upwards, at each the shortest length first, then fewer roles, then fewer bytes (see joint.hpp).
//
// Whatever a question leaves open for want of budget makes the matching proof false; the next question is asked all the same.
#include "sched/joint.hpp"

#include <algorithm>
#include <cstddef>

#include "sched/joint_model.hpp"
#include "sched/joint_roles.hpp"
#include "sched/joint_tile.hpp"
#include "sched/modulo.hpp"
#include "support/fail.hpp"

namespace tj::sched {
namespace {

using support::cat;

constexpr std::uint64_t kBindingBudget = 20'000;  ///< for finding out what binds, apart from the search itself
constexpr int kSingleSteps = 1024;                ///< IIs tried one by one before the steps grow

std::size_t at(int i) { return static_cast<std::size_t>(i); }

class Joint {
 public:
  Joint(const graph::Graph& graph, const JointOptions& options) : model_(graph, options), options_(options), budget_(options.node_budget) {}

  JointResult run() {
    const ModuloResult modulo = modulo_at(std::max(1, options_.min_ii));
    result_.res_mii = modulo.res_mii;
    result_.rec_mii = modulo.rec_mii;
    if (!modulo.found) return finish_without(modulo.proven_ii || budget_ > 0, "recurrence", modulo.certificate);
    result_.modulo_ii = modulo.ii;
    result_.modulo_length = modulo.length;
    const auto [binding, words] = model_.impossible(options_.max_roles);
    if (!binding.empty()) return finish_without(true, binding, words);
    search_intervals(modulo);
    if (!result_.found) {
      explain();
      result_.certificate = cat("no joint schedule up to II ", last_ii_, result_.proven_ii ? "" : " found within the budget", "; ", result_.certificate);
      return std::move(result_);
    }
    search_roles();
    finish(modulo);
    return std::move(result_);
  }

 private:
  ModuloResult modulo_at(int min_ii) {
    ModuloResult found = modulo_schedule(model_.split_problem(), budget_, min_ii);
    budget_ -= std::min<std::uint64_t>(budget_, found.search_nodes);
    return found;
  }

  /// One iteration after another takes no longer.
  std::int64_t longest_interval() const {
    std::int64_t total = 1;
    const Problem& problem = model_.split_problem();
    for (const int each : problem.length) total += each;
    for (const auto& uses : problem.uses)
      for (const graph::Reservation& use : uses) total += use.start + use.cycles;
    for (const graph::Edge& edge : problem.edges) total += std::max(0, edge.delay) + std::max(0, edge.spill_cycles);
    return options_.max_ii > 0 ? options_.max_ii : total;
  }

  void search_intervals(ModuloResult modulo) {
    const std::int64_t longest = std::max<std::int64_t>(longest_interval(), modulo.ii);
    const int start = modulo.ii;
    bool proven = modulo.proven_ii;
    while (modulo.found && modulo.ii <= longest) {
      last_ii_ = modulo.ii;
      const Verdict verdict = try_interval(modulo);
      if (verdict == Verdict::found) {
        result_.proven_ii = proven;
        return;
      }
      if (verdict == Verdict::unknown) proven = false;
      if (budget_ == 0) return;
      const int tried = modulo.ii - start;
      if (tried >= kSingleSteps) proven = false;
      modulo = modulo_at(modulo.ii + (tried < kSingleSteps ? 1 : 1 + tried / 16));
      proven = proven && modulo.proven_ii;
    }
    result_.proven_ii = proven;
  }

  /// The shortest length that is possible with no more stages than the shortest modulo schedule has.
  Verdict try_interval(const ModuloResult& modulo) {
    const int limit = (modulo.length + modulo.ii - 1) / modulo.ii * modulo.ii;
    Verdict verdict = ask(modulo.ii, modulo.length, options_.max_roles, -1);
    result_.proven_length = modulo.proven_length;
    if (verdict == Verdict::found) return verdict;
    bool gap = verdict == Verdict::unknown;
    excluded_length_ = modulo.length;
    if (limit > modulo.length) verdict = ask(modulo.ii, limit, options_.max_roles, -1);
    if (verdict != Verdict::found) {
      excluded_ii_ = modulo.ii;
      excluded_length_ = limit;
      return verdict;
    }
    int lower = modulo.length + 1;
    while (lower < result_.length) {
      const int middle = lower + (result_.length - 1 - lower) / 2;
      verdict = ask(modulo.ii, middle, options_.max_roles, -1);
      if (verdict == Verdict::found) continue;
      gap = gap || verdict == Verdict::unknown;
      excluded_length_ = middle;
      lower = middle + 1;
    }
    result_.proven_length = !gap;
    return Verdict::found;
  }

  void search_roles() {
    bool proven = true;
    for (int roles = model_.least_roles(); roles < result_.roles; ++roles) {
      const Verdict verdict = ask(result_.ii, result_.length, roles, -1);
      if (verdict == Verdict::unknown) proven = false;
    }
    while (result_.cross_role_bytes > 0) {
      const Verdict verdict = ask(result_.ii, result_.length, result_.roles, result_.cross_role_bytes - 1);
      if (verdict == Verdict::found) continue;
      if (verdict == Verdict::unknown) proven = false;
      break;
    }
    result_.proven_roles = proven;
  }

  /// A found answer replaces the result's.
  Verdict ask(int ii, int length, int max_roles, std::int64_t max_bytes) {
    RoleAnswer answer;
    std::uint64_t share = budget_ / 2 + (budget_ > 0 ? 1 : 0);
    budget_ -= share;
    const Verdict verdict = share == 0 ? Verdict::unknown : RoleSearch(model_, {ii, length, max_roles, max_bytes, {}}, share).run(answer);
    budget_ += share;
    if (verdict == Verdict::found) offer(ii, answer);
    return verdict;
  }

  void offer(int ii, RoleAnswer& answer) {
    const int first = *std::min_element(answer.cycle.begin(), answer.cycle.end());
    for (int& each : answer.cycle) each -= first;
    result_.found = true;
    result_.ii = ii;
    result_.length = makespan(model_.problem(), answer.cycle);
    result_.roles = answer.roles;
    result_.cross_role_bytes = model_.cross_bytes(answer.role);
    result_.role_registers = model_.role_registers(answer.role, answer.roles, ii, answer.cycle);
    result_.cycle.assign(model_.graph().nodes.size(), 0);
    result_.role.assign(model_.graph().nodes.size(), -1);
    for (int i = 0; i < model_.problem().size(); ++i) {
      const std::size_t node = at(model_.problem().node[at(i)]);
      result_.cycle[node] = answer.cycle[at(i)];
      result_.role[node] = answer.role[at(i)];
    }
  }

  /// The families of constraints without which the last excluded II would be possible.
  void explain() {
    std::vector<std::pair<std::string, Relaxation>> families;
    const auto add = [&](bool there, const std::string& name, const Relaxation& relaxed) {
      if (there) families.emplace_back(name, relaxed);
    };
    add(model_.uses_registers(), "registers", {true, false, false, false, ""});
    for (const std::string& space : model_.spaces()) add(true, space, {false, false, false, false, space});
    add(model_.has_waits(), "concurrency", {false, true, false, false, ""});
    add(model_.has_spills(), "spills", {false, false, true, false, ""});
    add(true, "roles", {false, false, false, true, ""});
    std::string alone, all;
    std::vector<std::string> names;
    for (const auto& [name, relaxed] : families) {
      std::uint64_t budget = kBindingBudget;
      RoleAnswer answer;
      const int pool = relaxed.roles ? model_.problem().size() + 1 : options_.max_roles;
      if (RoleSearch(model_, {excluded_ii_, excluded_length_, pool, -1, relaxed}, budget).run(answer) == Verdict::found) {
        result_.binding.push_back(name);
        alone += (alone.empty() ? "" : ", ") + name;
      }
      all += (all.empty() ? "" : ", ") + name;
      names.push_back(name);
    }
    const std::string at_ii = cat("II ", excluded_ii_, " with length up to ", excluded_length_);
    if (result_.binding.empty()) {
      result_.binding = names;
      result_.certificate = cat(at_ii, " infeasible: no one limit alone, but together ", all);
    } else {
      result_.certificate = cat(at_ii, " infeasible: possible without the limit on ", alone);
    }
  }

  void finish(const ModuloResult& modulo) {
    if (result_.ii > modulo.ii) {
      explain();
      result_.certificate = cat("II ", result_.ii, ": ", result_.certificate, "; units and recurrences alone allow II ", modulo.ii);
    } else {
      result_.binding = {modulo.res_mii >= modulo.rec_mii ? "unit" : "recurrence"};
      result_.certificate = modulo.certificate;
    }
    if (!result_.proven_ii) result_.certificate += "; II not proven";
    if (result_.ii == modulo.ii && result_.length > modulo.length)
      result_.certificate += cat("; length ", result_.length, " where units and edges alone allow ", modulo.length);
    result_.search_nodes = options_.node_budget - budget_;
    place_tile_nodes(model_.graph(), result_);
  }

  JointResult finish_without(bool proven, const std::string& binding, const std::string& words) {
    result_.proven_ii = proven;
    result_.binding = {binding};
    result_.certificate = cat("no joint schedule at any II: ", words);
    result_.search_nodes = options_.node_budget - budget_;
    return std::move(result_);
  }

  const JointModel model_;
  const JointOptions options_;
  std::uint64_t budget_;
  int last_ii_ = 0, excluded_ii_ = 1, excluded_length_ = 1;
  JointResult result_;
};

}  // namespace

JointResult joint_schedule(const graph::Graph& graph, const JointOptions& options) {
  graph::check(graph);
  if (options.max_roles < 1)
    support::fail(Stage::schedule, Code::invalid_argument, cat("max_roles is ", options.max_roles, "; it must be 1 or more"));
  if (options.max_stages < 0 || options.min_ii < 0 || options.max_ii < 0 || options.min_ii > 1 << 22)
    support::fail(Stage::schedule, Code::invalid_argument,
                  cat("max_stages, min_ii and max_ii are ", options.max_stages, ", ", options.min_ii, " and ", options.max_ii,
                      "; each must be 0 (no limit) or more, min_ii at most ", 1 << 22));
  const bool loops = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) { return node.scope == graph::Scope::iteration; });
  if (!loops)
    support::fail(Stage::schedule, Code::invalid_argument, cat("graph '", graph.name, "' has no iteration node; a loop needs at least one"));
  return Joint(graph, options).run();
}

}  // namespace tj::sched
