// The order of questions: II upwards, at each the shortest length first, then fewer roles, then fewer bytes (see
// joint.hpp).
//
// A question that stays open for want of budget makes the matching proof false; the next question is asked all the
// same.
#include "sched/joint/joint.hpp"

#include <algorithm>
#include <cstddef>

#include "sched/bounds.hpp"
#include "sched/joint/model.hpp"
#include "sched/joint/roles.hpp"
#include "sched/joint/tile.hpp"
#include "sched/modulo/binding.hpp"
#include "sched/modulo/modulo.hpp"
#include "sched/rings.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

using support::cat;

constexpr std::uint64_t kBindingBudget = 4'000;  ///< nodes for finding out what binds, apart from the search itself
constexpr int kFirstIntervals = 16;              ///< IIs that fail before one iteration after another is looked at
constexpr int kUsualRoles = 6;                   ///< the pool where no other is asked for
constexpr int kSingleSteps = 1024;               ///< IIs tried one by one before the steps grow

class Joint {
 public:
  Joint(const graph::Graph& graph, const JointOptions& options)
      : model_(graph, options),
        options_(options),
        budget_(options.node_budget),
        modulo_budget_(options.modulo_budget) {}

  JointResult run() {
    const ModuloResult modulo = modulo_at(std::max(1, options_.min_ii));
    result_.res_mii = modulo.res_mii;
    result_.rec_mii = modulo.rec_mii;
    result_.open_ii = modulo.open_ii;
    if (!modulo.found && options_.most_ii != 0) return give_up(modulo.certificate);
    if (!modulo.found) return finish_without(modulo.proven_ii || modulo_budget_ > 0, "recurrence", modulo.certificate);
    result_.modulo_ii = modulo.ii;
    result_.modulo_length = modulo.length;
    const auto [binding, words] = model_.impossible(pool());
    if (!binding.empty()) return finish_without(true, binding, words);
    search_intervals(modulo);
    if (result_.beyond) return give_up(cat("it would have a larger II than ", last_ii_));
    if (!result_.found) {
      explain();
      result_.search_nodes = visited();
      const char* beyond = result_.nowhere     ? ", nor with one iteration after another"
                           : result_.proven_ii ? ""
                                               : " found within the budget";
      result_.certificate = cat("no joint schedule up to II ", last_ii_, beyond, "; ", result_.certificate);
      return std::move(result_);
    }
    if (result_.roles > model_.least_roles(options_.relaxed) || free_bytes_) search_roles();
    delay();
    finish(modulo);
    return std::move(result_);
  }

 private:
  ModuloResult modulo_at(int min_ii) {
    ModuloResult found =
        modulo_schedule(model_.certain_problem(), modulo_budget_, min_ii, options_.most_ii, options_.open_ii);
    modulo_budget_ -= std::min<std::uint64_t>(modulo_budget_, found.search_nodes);
    return found;
  }

  /// An II at which one iteration follows another takes no longer.
  std::int64_t longest_interval() const {
    std::int64_t total = 1;
    const Problem& problem = model_.certain_problem();
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
      if (tried == kFirstIntervals && options_.max_ii == 0 && impossible_at(static_cast<int>(longest))) {
        result_.nowhere = true;
        return;
      }
      if (tried >= kSingleSteps) proven = false;
      if (options_.most_ii == kFirstIi) {
        result_.beyond = true;
        return;
      }
      modulo = modulo_at(modulo.ii + (tried < kSingleSteps ? 1 : 1 + tried / 16));
      proven = proven && modulo.proven_ii;
    }
    result_.beyond = options_.most_ii > 0 && !modulo.found;
    result_.proven_ii = proven;
  }

  /// No answer for want of budget counts as possible.
  bool impossible_at(int ii) {
    std::uint64_t share = std::min(budget_, kBindingBudget);
    budget_ -= share;
    RoleAnswer answer;
    const RoleQuestion question{ii, ii, pool(), -1, options_.relaxed, nullptr, nullptr};
    const Verdict verdict = RoleSearch(model_, question, share).run(answer);
    budget_ += share;
    return verdict == Verdict::infeasible;
  }

  /// The shortest length that is possible with no more stages than the shortest modulo schedule has.
  Verdict try_interval(const ModuloResult& modulo) {
    const int limit = (modulo.length + modulo.ii - 1) / modulo.ii * modulo.ii;
    hint_ = modulo.cycle;
    result_.proven_length = modulo.proven_length;
    if (try_seeds(modulo)) return Verdict::found;
    Verdict verdict = ask(modulo.ii, modulo.length, pool(), -1);
    if (verdict == Verdict::found || try_alone(modulo)) return Verdict::found;
    bool gap = verdict == Verdict::unknown;
    excluded_length_ = modulo.length;
    if (limit > modulo.length) verdict = ask(modulo.ii, limit, pool(), -1);
    if (verdict != Verdict::found) {
      excluded_ii_ = modulo.ii;
      excluded_length_ = limit;
      excluded_ = verdict == Verdict::infeasible;
      return verdict;
    }
    int lower = modulo.length + 1;
    while (lower < result_.length) {
      const int middle = lower + (result_.length - 1 - lower) / 2;
      verdict = ask(modulo.ii, middle, pool(), -1);
      if (verdict == Verdict::found) continue;
      gap = gap || verdict == Verdict::unknown;
      excluded_length_ = middle;
      lower = middle + 1;
    }
    result_.proven_length = !gap;
    return Verdict::found;
  }

  /// The modulo schedule as it is, with the fewest roles, and with a role for each copy. This is the answer where
  /// nothing but units and edges binds, and no search was needed.
  bool try_seeds(const ModuloResult& modulo) {
    for (const bool by_copy : {false, true}) {
      RoleAnswer answer;
      answer.cycle = modulo.cycle;
      if (!model_.seed(by_copy, options_.relaxed, answer.role)) continue;
      answer.roles = 1 + *std::max_element(answer.role.begin(), answer.role.end());
      if (answer.roles > pool() || !model_.satisfied(answer.role, modulo.ii, modulo.cycle, options_.relaxed)) continue;
      offer(modulo.ii, answer);
      // With one role for each kind there is nothing to choose.
      free_bytes_ = by_copy || answer.roles > 2;
      result_.proven_roles = !free_bytes_;
      return true;
    }
    return false;
  }

  /// A role for each node, where neither registers, memory nor spills speak for few roles. Then nothing but units and
  /// edges binds, and search_roles() finds how few are enough.
  bool try_alone(const ModuloResult& modulo) {
    if (options_.max_roles > 0 || !model_.roles_are_free()) return false;
    RoleAnswer answer;
    answer.cycle = modulo.cycle;
    answer.role.assign(at(model_.problem().size()), 0);
    for (const auto& cluster : model_.clusters()) {
      for (const int node : cluster) answer.role[at(node)] = answer.roles;
      ++answer.roles;
    }
    if (!model_.satisfied(answer.role, modulo.ii, modulo.cycle, options_.relaxed)) return false;
    free_bytes_ = true;
    offer(modulo.ii, answer);
    return true;
  }

  int pool() const {
    if (options_.relaxed.roles) return model_.problem().size() + 1;
    return options_.max_roles > 0 ? options_.max_roles : kUsualRoles;
  }

  void search_roles() {
    bool proven = true;
    for (int roles = model_.least_roles(options_.relaxed); roles < result_.roles; ++roles) {
      const Verdict verdict = ask(result_.ii, result_.length, roles, -1);
      if (verdict == Verdict::unknown) proven = false;
    }
    while (result_.cross_role_bytes > model_.least_bytes(options_.relaxed)) {
      const Verdict verdict = ask(result_.ii, result_.length, result_.roles, result_.cross_role_bytes - 1);
      if (verdict == Verdict::found) continue;
      if (verdict == Verdict::unknown) proven = false;
      break;
    }
    result_.proven_roles = proven;
  }

  /// Puts a found answer in place of the result's.
  Verdict ask(int ii, int length, int max_roles, std::int64_t max_bytes) {
    RoleAnswer answer;
    std::uint64_t share = budget_ / 2 + (budget_ > 0 ? 1 : 0);
    budget_ -= share;
    const RoleQuestion question{ii, length, max_roles, max_bytes, options_.relaxed, nullptr, &hint_};
    const Verdict verdict = share == 0 ? Verdict::unknown : RoleSearch(model_, question, share).run(answer);
    budget_ += share;
    if (verdict == Verdict::found) {
      free_bytes_ = true;
      offer(ii, answer);
    }
    return verdict;
  }

  void offer(int ii, RoleAnswer& answer) {
    const int first = *std::min_element(answer.cycle.begin(), answer.cycle.end());
    for (int& each : answer.cycle) each -= first;
    best_ = answer;
    result_.found = true;
    result_.ii = ii;
    result_.length = makespan(model_.problem(), answer.cycle);
    result_.roles = answer.roles;
    result_.cross_role_bytes = model_.cross_bytes(answer.role);
  }

  /// Copies as late as roles and units allow, so that slots are held no longer than needed; not where that breaks a
  /// limit.
  void delay() {
    std::vector<int> cycle = best_.cycle;
    delay_copies(model_.decided_problem(best_.role), model_.graph(), result_.ii, cycle);
    const int first = *std::min_element(cycle.begin(), cycle.end());
    for (int& each : cycle) each -= first;
    if (cycle == best_.cycle || !model_.satisfied(best_.role, result_.ii, cycle, options_.relaxed)) return;
    best_.cycle = std::move(cycle);
    result_.length = makespan(model_.problem(), best_.cycle);
  }

  void fill() {
    result_.role_registers = model_.role_registers(best_.role, best_.roles, result_.ii, best_.cycle);
    result_.cycle.assign(model_.graph().nodes.size(), 0);
    result_.role.assign(model_.graph().nodes.size(), -1);
    for (int i = 0; i < model_.problem().size(); ++i) {
      const std::size_t node = at(model_.problem().node[at(i)]);
      result_.cycle[node] = best_.cycle[at(i)];
      result_.role[node] = best_.role[at(i)];
    }
    place_tile_nodes(model_.graph(), options_.mixed_roles, options_.copies_apart, result_);
  }

  /// The families of constraints without which the last excluded II would be possible.
  void explain() {
    std::string alone, all;
    std::vector<std::string> names;
    for (const auto& [name, relaxed] : model_.families()) {
      std::uint64_t budget = kBindingBudget;
      RoleAnswer answer;
      const int most = relaxed.roles ? model_.problem().size() + 1 : pool();
      if (RoleSearch(model_, {excluded_ii_, excluded_length_, most, -1, relaxed, nullptr, nullptr}, budget)
              .run(answer) == Verdict::found) {
        result_.binding.push_back(name);
        alone += (alone.empty() ? "" : ", ") + name;
      }
      all += (all.empty() ? "" : ", ") + name;
      names.push_back(name);
    }
    const std::string at_ii = cat("II ", excluded_ii_, " with length up to ", excluded_length_);
    const char* verdict = excluded_ ? " infeasible: " : " not found within the budget: ";
    if (result_.binding.empty()) {
      result_.binding = names;
      result_.certificate = cat(at_ii, verdict, "no one limit alone, but together ", all);
    } else {
      result_.certificate = cat(at_ii, verdict, "possible without the limit on ", alone);
    }
  }

  void finish(const ModuloResult& modulo) {
    if (result_.ii > modulo.ii) {
      explain();
      result_.certificate =
          cat("II ", result_.ii, ": ", result_.certificate, "; units and recurrences alone allow II ", modulo.ii);
    } else {
      result_.binding = {modulo.res_mii >= modulo.rec_mii ? "unit" : "recurrence"};
      result_.excluded = what_binds(model_.certain_problem(), modulo);
      result_.certificate = modulo.certificate + to_words(result_.excluded);
    }
    if (!result_.proven_ii) result_.certificate += "; II not proven";
    if (result_.ii == modulo.ii && result_.length > modulo.length)
      result_.certificate += cat("; length ", result_.length, " where units and edges alone allow ", modulo.length);
    result_.search_nodes = visited();
    fill();
  }

  std::uint64_t visited() const { return options_.node_budget - budget_ + options_.modulo_budget - modulo_budget_; }

  /// Whoever has no use for a larger II does not ask what binds.
  JointResult give_up(const std::string& words) {
    result_.beyond = true;
    result_.search_nodes = visited();
    result_.certificate = cat("no joint schedule: ", words);
    return std::move(result_);
  }

  JointResult finish_without(bool proven, const std::string& binding, const std::string& words) {
    result_.proven_ii = proven;
    result_.binding = {binding};
    result_.certificate = cat("no joint schedule at any II: ", words);
    result_.search_nodes = visited();
    return std::move(result_);
  }

  const JointModel model_;
  const JointOptions options_;
  std::uint64_t budget_, modulo_budget_;
  int last_ii_ = 0, excluded_ii_ = 1, excluded_length_ = 1;
  std::vector<int> hint_;  ///< the modulo schedule of the II at hand
  RoleAnswer best_;
  bool excluded_ = true;     ///< is excluded_ii_ proven to have none?
  bool free_bytes_ = false;  ///< could the same number of roles send fewer bytes?
  JointResult result_;
};

}  // namespace

JointResult joint_schedule(const graph::Graph& graph, const JointOptions& options) {
  graph::check(graph);
  if (options.max_roles < 0)
    support::fail(Stage::schedule, Code::invalid_argument,
                  cat("max_roles is ", options.max_roles, "; it must be 0 (as many as pay) or more"));
  if (options.max_stages < 0 || options.min_ii < 0 || options.max_ii < 0 || options.min_ii > kMaxMinIi)
    support::fail(Stage::schedule, Code::invalid_argument,
                  cat("max_stages, min_ii and max_ii are ", options.max_stages, ", ", options.min_ii, " and ",
                      options.max_ii, "; each must be 0 (no limit) or more, min_ii at most ", kMaxMinIi));
  const bool loops = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                 [](const graph::Node& node) { return node.scope == graph::Scope::iteration; });
  if (!loops)
    support::fail(Stage::schedule, Code::invalid_argument,
                  cat("graph '", graph.name, "' has no iteration node; a loop needs at least one"));
  return Joint(graph, options).run();
}

}  // namespace tj::sched
