// Why a result has as many roles as it has (see joint.hpp): which families of constraints exist, and which of them keep
// two roles apart.
//
// Asks at the II and length of a result, with the roles that it has; searches for no other roles.
#include <algorithm>
#include <cstddef>

#include "sched/joint/model.hpp"
#include "sched/joint/roles.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

constexpr std::uint64_t kQuestionBudget = 4'000;  ///< a question

/// Leaving out a family; spaces are apart, because they have names.
struct Family {
  const char* name;
  bool (*there)(const JointModel&);
  bool Relaxation::* out;
};

constexpr Family kFamilies[] = {
    {"variable latency", [](const JointModel& model) { return model.has_producers(); }, &Relaxation::variable_latency},
    {"bodies", [](const JointModel& model) { return model.has_bodies(); }, &Relaxation::bodies},
    {"copies", [](const JointModel& model) { return model.has_copies(); }, &Relaxation::copies},
    {"warps", [](const JointModel& model) { return model.has_warps(); }, &Relaxation::warps},
    {"registers", [](const JointModel& model) { return model.uses_registers(); }, &Relaxation::registers},
    {"concurrency", [](const JointModel& model) { return model.has_waits(); }, &Relaxation::concurrency},
    {"spills", [](const JointModel& model) { return model.has_spills(); }, &Relaxation::spills},
};

/// Clusters in their order open roles 0, 1, ...
std::vector<int> renumbered(const JointModel& model, const std::vector<int>& role) {
  std::vector<int> fresh(role.size() + 1, -1), result(role.size());
  int next = 0;
  for (const auto& cluster : model.clusters())
    for (const int i : cluster) {
      int& number = fresh[at(role[at(i)])];
      if (number < 0) number = next++;
      result[at(i)] = number;
    }
  return result;
}

class Apart {
 public:
  Apart(const graph::Graph& graph, const JointResult& result, const JointOptions& options)
      : model_(graph, options), result_(result), options_(options) {
    for (const int node : model_.problem().node) role_.push_back(result.role[at(node)]);
  }

  std::vector<RolePair> pairs() const {
    std::vector<RolePair> list;
    for (int second = 1; second < result_.roles; ++second)
      for (int first = 0; first < second; ++first) list.push_back(why(first, second));
    return list;
  }

 private:
  RolePair why(int first, int second) const {
    std::vector<int> merged = role_;
    for (int& each : merged)
      if (each == second) each = first;
    merged = renumbered(model_, merged);
    RolePair pair;
    pair.first = first;
    pair.second = second;
    if (possible(merged, options_.relaxed)) return pair;
    for (const Family& family : kFamilies) {
      Relaxation one = options_.relaxed;
      one.*family.out = true;
      if (!family.there(model_) || !possible(merged, one)) continue;
      pair.kept_by = {family.name};
      return pair;
    }
    for (const std::string& space : model_.spaces()) {
      Relaxation one = options_.relaxed;
      if (!one.space.empty()) break;  // one space can be left out, no more
      one.space = space;
      if (!possible(merged, one)) continue;
      pair.kept_by = {space};
      return pair;
    }
    pair.kept_by = together(merged);
    return pair;
  }

  /// All left out, then one after the other put back where it is not needed.
  std::vector<std::string> together(const std::vector<int>& merged) const {
    Relaxation left_out = options_.relaxed;
    for (const Family& family : kFamilies) left_out.*family.out = true;
    if (!possible(merged, left_out)) return {"units and recurrences"};
    std::vector<std::string> names;
    for (std::size_t k = std::size(kFamilies); k-- > 0;) {
      const Family& family = kFamilies[k];
      if (options_.relaxed.*family.out) continue;
      Relaxation back = left_out;
      back.*family.out = false;
      if (possible(merged, back))
        left_out = back;
      else if (family.there(model_))
        names.insert(names.begin(), family.name);
    }
    return names;
  }

  bool possible(const std::vector<int>& merged, const Relaxation& relaxed) const {
    std::uint64_t budget = kQuestionBudget;
    RoleAnswer answer;
    const RoleQuestion question{result_.ii, result_.length, model_.problem().size() + 1, -1, relaxed, &merged, nullptr};
    return RoleSearch(model_, question, budget).run(answer) == Verdict::found;
  }

  const JointModel model_;
  const JointResult& result_;
  const JointOptions options_;
  std::vector<int> role_;
};

}  // namespace

std::vector<std::pair<std::string, Relaxation>> JointModel::families() const {
  std::vector<std::pair<std::string, Relaxation>> list;
  for (const std::string& space : spaces_) {
    if (space == options_.relaxed.space) continue;
    list.emplace_back(space, options_.relaxed);
    list.back().second.space = space;
  }
  const auto add = [&](const char* name, bool Relaxation::* out) {
    if (options_.relaxed.*out) return;
    list.emplace_back(name, options_.relaxed);
    list.back().second.*out = true;
  };
  for (const Family& family : kFamilies)
    if (family.there(*this)) add(family.name, family.out);
  add("roles", &Relaxation::roles);
  return list;
}

std::vector<RolePair> why_apart(const graph::Graph& graph, const JointResult& result, const JointOptions& options) {
  if (!result.found || result.role.size() != graph.nodes.size())
    support::fail(Stage::schedule, Code::invalid_argument,
                  support::cat("graph '", graph.name, "': the result is of no schedule of this graph"));
  return Apart(graph, result, options).pairs();
}

}  // namespace tj::sched
