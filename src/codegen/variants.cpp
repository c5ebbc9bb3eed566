// See variants.hpp.
#include "codegen/variants.hpp"

#include <algorithm>
#include <cstddef>

#include "codegen/timeline.hpp"

namespace tj::codegen {
namespace {

using support::cat;

constexpr int kAnySteps = 1 << 29;  // a stage may be added

/// The nodes that say one bound of the role's range. Of those with the same answer, the begin is the last stage's and
/// the end the first stage's. In the order of the role.
std::vector<int> deciding(const FamilyText& family, std::string graph::Range::* bound) {
  const auto range = [&](int index) -> const std::string& { return family.node(index).range.*bound; };
  const auto stage = [&](int index) { return role_stage(family.graph, family.schedule, index); };
  const bool begin = bound == &graph::Range::begin;
  std::vector<int> list;
  for (const int index : family.role().nodes) {
    if (range(index).empty()) continue;
    const auto same = std::find_if(list.begin(), list.end(), [&](int other) {
      return family.node(other).context == family.node(index).context &&
             family.node(other).copy == family.node(index).copy && range(other) == range(index);
    });
    if (same == list.end())
      list.push_back(index);
    else if (begin ? stage(index) > stage(*same) : stage(index) < stage(*same))
      *same = index;
  }
  return list;
}

std::vector<std::string> bounds(const FamilyText& family, std::string graph::Range::* bound) {
  std::vector<std::string> list;
  for (const int index : deciding(family, bound)) {
    const int stage = role_stage(family.graph, family.schedule, index);
    list.push_back(cat(family.node(index).range.*bound, "(", family.variable(family.node(index)), ", tile)",
                       stage > 0 ? cat(" + ", stage) : ""));
  }
  return list;
}

/// The largest or the smallest of the bounds.
void declare_bound(Writer& w, const char* name, const std::vector<std::string>& bounds, const char* beyond) {
  w.line(bounds.size() == 1 ? "const " : "", "int ", name, " = ", bounds[0], ";");
  for (std::size_t b = 1; b < bounds.size(); ++b)
    w.line("if (const int also = ", bounds[b], "; also ", beyond, " ", name, ") ", name, " = also;");
}

}  // namespace

std::string tag_of(const std::string& variant) {
  return variant == graph::kFastVariant || variant == graph::kGeneralVariant ? cat("dev::", variant) : variant;
}

StepRange::StepRange(const FamilyText& family)
    : begins_(bounds(family, &graph::Range::begin)), ends_(bounds(family, &graph::Range::end)) {
  for (const int index : family.role().nodes) {
    const graph::Range& range = family.node(index).range;
    if (!range) continue;
    any_ = true;
    if (!range.begin.empty())
      general_steps_ = std::max(
          general_steps_, std::min(range.max_begin, kAnySteps) + role_stage(family.graph, family.schedule, index));
  }
}

void StepRange::declare(Writer& w, int first) const {
  if (general_steps_ > first) declare_bound(w, kFirst, begins_, ">");
  if (ends()) declare_bound(w, kBehind, ends_, "<");
}

std::string StepRange::holds(int first, const std::string& begin) const {
  const std::string from = general_steps_ > first ? cat("s >= ", begin) : "";
  if (!ends()) return from;
  return cat(from, from.empty() ? "" : " && ", "s < ", kBehind);
}

}  // namespace tj::codegen
