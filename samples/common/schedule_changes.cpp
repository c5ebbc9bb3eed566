// See schedule_changes.hpp.
#include "common/schedule_changes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "common/report_text.hpp"

namespace tj::samples {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;

template <class T>
T value_of(const Json& object, const char* key, T otherwise) {
  if (!object.is_object() || !object.contains(key)) return otherwise;
  const Json& value = object[key];
  if constexpr (std::is_same_v<T, std::string>)
    return value.is_string() ? value.get<T>() : otherwise;
  else if constexpr (std::is_same_v<T, bool>)
    return value.is_boolean() ? value.get<T>() : otherwise;
  else
    return value.is_number() ? value.get<T>() : otherwise;
}

std::string joined(const Names& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string number(int value) { return std::to_string(value); }
std::string step(int from, int to) { return number(from) + " -> " + number(to); }
std::string count(std::size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

const ScheduleFacts::Node* find(const ScheduleFacts& facts, const std::string& name) {
  for (const auto& node : facts.nodes)
    if (node.name == name) return &node;
  return nullptr;
}

/// Nodes of `of` that `other` lacks.
Names lacking(const ScheduleFacts& of, const ScheduleFacts& other) {
  Names names;
  for (const auto& node : of.nodes)
    if (find(other, node.name) == nullptr) names.push_back(node.name);
  return names;
}

Names nodes_of(const ScheduleFacts& facts, const std::string& role) {
  Names names;
  for (const auto& node : facts.nodes)
    if (node.role == role && node.loop) names.push_back(node.name);
  return names;
}

void add_nodes(const ScheduleFacts& before, const ScheduleFacts& now, Names& changes) {
  const Names gone = lacking(before, now), fresh = lacking(now, before);
  if (!gone.empty() && !fresh.empty())
    changes.push_back(joined(fresh) + " in the place of " + joined(gone));
  else if (!fresh.empty())
    changes.push_back(joined(fresh) + " besides");
  else if (!gone.empty())
    changes.push_back("without " + joined(gone));
}

/// Nodes that are apart now and were together, as the roles of now; said once a role that is new.
void add_roles(const ScheduleFacts& before, const ScheduleFacts& now, Names& changes) {
  if (before.roles == now.roles) return;
  Names fresh;
  for (const std::string& role : now.roles)
    if (std::find(before.roles.begin(), before.roles.end(), role) == before.roles.end()) {
      const Names nodes = nodes_of(now, role);
      fresh.push_back(nodes.empty() ? role : role + " (" + joined(nodes) + ")");
    }
  std::string text = count(before.roles.size(), "role", "roles") + " -> " + std::to_string(now.roles.size());
  if (!fresh.empty()) text += ": " + joined(fresh) + (fresh.size() == 1 ? " apart" : "");
  changes.push_back(text);
}

/// How much of the time each unit is held; said where it differs by a point at least.
void add_units(const ScheduleFacts& before, const ScheduleFacts& now, Names& changes) {
  Names units;
  for (const auto& [unit, percent] : now.busy)
    for (const auto& [old, was] : before.busy)
      if (old == unit && std::lround(was) != std::lround(percent))
        units.push_back(unit + " " + std::to_string(std::lround(was)) + "% -> " + std::to_string(std::lround(percent)) +
                        "%");
  if (!units.empty()) changes.push_back("busy: " + joined(units));
}

void add_slots(const ScheduleFacts& before, const ScheduleFacts& now, Names& changes) {
  std::map<std::pair<int, int>, Names> moved;  // by (before, now)
  for (const auto& [value, slots] : now.slots)
    for (const auto& [old, was] : before.slots)
      if (old == value && was != slots) moved[{was, slots}].push_back(value);
  for (const auto& [from_to, values] : moved)
    changes.push_back(joined(values) + ": " + step(from_to.first, from_to.second) + " slots");
}

void add_sharers(const ScheduleFacts& before, const ScheduleFacts& now, Names& changes) {
  for (const auto& [value, blocks] : now.sharers)
    for (const auto& [old, was] : before.sharers)
      if (old == value && was != blocks)
        changes.push_back(value + ": one copy for " + number(was) + " -> " +
                          count(static_cast<std::size_t>(blocks), "block", "blocks"));
}

/// Nodes that run behind others, where that is new.
void add_stages(const ScheduleFacts& before, const ScheduleFacts& now, Names& changes) {
  if (before.stages == now.stages) return;
  std::string text = count(static_cast<std::size_t>(before.stages), "stage", "stages") + " -> " + number(now.stages);
  Names ahead, behind;
  for (const auto& node : now.nodes)
    if (node.loop) (node.stage == 0 ? ahead : behind).push_back(node.name);
  if (!ahead.empty() && !behind.empty())
    text += ": " + joined(ahead) + " of a later iteration beside " + joined(behind);
  changes.push_back(text);
}

}  // namespace

std::string ScheduleFacts::slots_text() const {
  Names words;
  for (const auto& [value, depth] : slots) words.push_back(value + " " + number(depth));
  return words.empty() ? "none" : joined(words);
}

ScheduleFacts schedule_facts(const std::string& schedule_json) {
  const Json root = Json::parse(schedule_json, nullptr, false);
  ScheduleFacts facts;
  facts.graph = value_of(root, "graph", std::string());
  facts.overhead_cycles = value_of(root, "overhead_cycles", 0.0);
  facts.sm_count = value_of(root, "sm_count", 0);
  facts.clock_ghz = value_of(root, "clock_ghz", 0.0);
  facts.ii = value_of(root, "ii", 0);
  facts.length = value_of(root, "length", 0);
  facts.cluster = value_of(root, "cluster", 1);
  facts.pairs = value_of(root, "pairs", false);
  facts.blocks_per_sm = value_of(root, "blocks_per_sm", 1);
  facts.walk = value_of(root, "walk", std::string("persistent"));
  facts.certificate = value_of(root, "certificate", std::string());
  for (const Json& node : list(root, "nodes")) {
    const bool loop = value_of(node, "scope", std::string("iteration")) == "iteration";
    facts.nodes.push_back({value_of(node, "name", std::string("?")), value_of(node, "role", std::string("?")),
                           value_of(node, "cycle", 0), value_of(node, "stage", 0), loop});
    facts.stages = std::max(facts.stages, facts.nodes.back().stage + 1);
  }
  for (const Json& unit : list(root, "units")) {
    const double cycles = value_of(unit, "cycles", 0.0), capacity = value_of(unit, "capacity", 1.0);
    if (cycles > 0 && capacity > 0 && facts.ii > 0)
      facts.busy.emplace_back(value_of(unit, "name", std::string("?")),
                              100 * facts.blocks_per_sm * cycles / (capacity * facts.ii));
  }
  for (const Json& role : list(root, "roles")) facts.roles.push_back(value_of(role, "name", std::string("?")));
  for (const Json& ring : list(root, "rings")) {
    const std::string value = value_of(ring, "value", std::string("?"));
    facts.slots.emplace_back(value, value_of(ring, "slots", 0));
    facts.sharers.emplace_back(value, value_of(ring, "shared_by", 1));
  }
  return facts;
}

namespace {

std::string walk_text(const std::string& walk) {
  if (walk == "one_tile") return "a block a tile";
  if (walk == "split") return "blocks that share tiles";
  if (walk == "sliced") return "clusters that do a tile together";
  return walk == "dynamic" ? "blocks that draw tile after tile" : "blocks that stay for several tiles";
}

}  // namespace

std::vector<std::string> schedule_changes(const ScheduleFacts& before, const ScheduleFacts& now) {
  Names changes;
  if (before.ii != now.ii) changes.push_back("II " + step(before.ii, now.ii) + " cycles");
  add_units(before, now, changes);
  add_nodes(before, now, changes);
  add_roles(before, now, changes);
  add_slots(before, now, changes);
  add_stages(before, now, changes);
  if (before.length != now.length) changes.push_back("length " + step(before.length, now.length));
  if (before.cluster != now.cluster) changes.push_back("blocks in clusters: " + step(before.cluster, now.cluster));
  if (before.pairs != now.pairs)
    changes.push_back(now.pairs ? "products of a block each -> of pairs of blocks"
                                : "products of pairs of blocks -> of a block each");
  add_sharers(before, now, changes);
  if (before.blocks_per_sm != now.blocks_per_sm)
    changes.push_back("blocks side by side on an SM: " + step(before.blocks_per_sm, now.blocks_per_sm));
  if (before.walk != now.walk) changes.push_back(walk_text(before.walk) + " -> " + walk_text(now.walk));
  return changes;
}

}  // namespace tj::samples
