// See limits.hpp.
#include "tools/limits.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "sched/bounds.hpp"
#include "support/fail.hpp"

namespace tj::tools {
namespace {

using support::cat;

constexpr int kManySlots = 32;

/// What is asked again.
struct Asked {
  graph::Graph graph;
  sched::Options options;
};

void more_stages(Asked& asked) { asked.options.max_stages = 0; }
void more_slots(Asked& asked) {
  asked.options.max_slots = 0;
  asked.graph.machine.memory_bytes.erase("SMEM");
  for (graph::Value& value : asked.graph.values) {
    if (value.scope != graph::Scope::iteration) continue;
    value.max_slots = std::max(value.max_slots, kManySlots);
    value.lies_in = -1;
  }
}
void more_roles(Asked& asked) {
  asked.options.max_roles = std::max<int>(1, static_cast<int>(asked.graph.nodes.size()));
}

std::string limit_of(int count, const char* what) {
  return cat("the limit of ", count, " ", what, count == 1 ? "" : "s");
}

bool possible(const Asked& asked, int ii) {
  try {
    return sched::schedule_within(asked.graph, asked.options, ii).ii <= ii;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string limits_line(const graph::Graph& graph, const sched::Options& options, const sched::Schedule& schedule) {
  if (schedule.certificate.find("infeasible: exhausted") == std::string::npos) return "";
  using Loosen = void (*)(Asked&);
  std::vector<std::pair<std::string, Loosen>> limits;
  if (options.max_stages > 0) limits.emplace_back(limit_of(options.max_stages, "stage"), more_stages);
  limits.emplace_back("the limits on slots of rings", more_slots);
  if (options.max_roles > 0) limits.emplace_back(limit_of(options.max_roles, "role"), more_roles);
  const int ii = schedule.ii - 1;
  std::string alone, all;
  Asked together{graph, options};
  for (const auto& [name, loosen] : limits) {
    Asked one{graph, options};
    loosen(one);
    loosen(together);
    all += cat(all.empty() ? "" : " and ", name);
    if (possible(one, ii)) alone += cat(alone.empty() ? "" : ", or ", name);
  }
  if (alone.empty() && possible(together, ii)) alone = all;  // limits that bind together
  if (alone.empty()) return cat("limits: no schedule of II ", ii, " was found without ", all, " either\n");
  return cat("limits: II ", ii, " would be possible without ", alone, "\n");
}

}  // namespace tj::tools
