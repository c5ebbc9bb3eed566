// See schedule_summary.hpp.
#include "common/schedule_summary.hpp"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/report_text.hpp"

namespace tj::samples {
namespace {

using Json = nlohmann::ordered_json;

/// A name or a number, as text.
std::string word(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return {};
  const Json& value = object[key];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string first_word(const Json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (std::string text = word(object, key); !text.empty()) return text;
  return "?";
}

}  // namespace

std::string schedule_summary(const std::string& schedule_json, const std::string& indent) {
  const Json root = Json::parse(schedule_json, nullptr, false);
  if (!root.is_object()) return "(no schedule in the report)";
  long stages = 0;
  std::map<std::string, std::string> nodes_of_role;
  std::vector<std::string> order;
  for (const Json& node : list(root, "nodes")) {
    const std::string stage = word(node, "stage"), role = first_word(node, {"role"});
    stages = std::max(stages, std::strtol(stage.c_str(), nullptr, 10) + 1);
    if (!nodes_of_role.count(role)) order.push_back(role);
    const std::string scope = word(node, "scope");  // what runs once a tile has no cycle of its own
    nodes_of_role[role] += " " + first_word(node, {"name"}) +
                           (scope.empty() || scope == "iteration" ? "@" + first_word(node, {"cycle"}) : "");
  }
  std::string text = "II " + first_word(root, {"ii"}) + " cycles (" +
                     (word(root, "proven_ii") == "true" ? "proven" : "not proven") + "), length " +
                     first_word(root, {"length"}) + ", " + std::to_string(stages) + " stages";
  std::map<std::string, std::string> size_of_role;
  for (const Json& role : list(root, "roles")) {
    const std::string registers = first_word(role, {"registers"});  // 0: the compiler gives what it likes
    size_of_role[first_word(role, {"name"})] = " (" + first_word(role, {"warps"}) +
                                               (first_word(role, {"warps"}) == "1" ? " warp" : " warps") +
                                               (registers == "0" ? ")" : ", " + registers + " registers a thread)");
  }
  for (const std::string& role : order)
    text += "\n" + indent + "role " + role + size_of_role[role] + ":" + nodes_of_role[role];
  std::string rings;
  for (const Json& ring : list(root, "rings"))
    rings += " " + first_word(ring, {"name", "value"}) + " x" + first_word(ring, {"slots", "depth"});
  if (!rings.empty()) text += "\n" + indent + "rings:" + rings;
  if (const std::string certificate = word(root, "certificate"); !certificate.empty())
    text += "\n" + indent + certificate;
  return text;
}

std::string kernel_text(const KernelReport& report) {
  return "kernel   " + report.name + " for " + report.target + ", " +
         (report.origin == KernelOrigin::compiled ? "made" : "cache hit") +
         format(" (schedule %.1f, source %.1f, compiler %.1f, load %.1f ms)\n", report.schedule_ms, report.codegen_ms,
                report.compile_ms, report.load_ms) +
         "schedule " + schedule_summary(report.schedule_json, "         ") + "\n";
}

}  // namespace tj::samples
