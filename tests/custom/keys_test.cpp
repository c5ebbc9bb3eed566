// Protects the table of keys in src/graph/README.md: it has each key that the reader takes, and no other; and each key
// is read into a graph in code and written again.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include <tilejit/error.hpp>
#include <tilejit/graph.hpp>

#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace {

using Json = nlohmann::ordered_json;
using Keys = std::map<std::string, std::set<std::string>>;  // by the place: "", "machine", "instructions[]"
using tj::Graph;
using tj::testing::error_of;
using tj::testing::read_bytes;

/// Adds `.latency` below the place of the key before it, and what has a place of its own there.
void add_key(const std::string& token, std::string& place, Keys& keys) {
  const std::size_t dot = token.rfind('.');
  if (dot == std::string::npos) {
    keys[""].insert(token);
    return;
  }
  if (dot > 0) place = token.substr(0, dot);
  keys[place].insert(token.substr(dot + 1));
}

/// The first column of the tables whose head is "key".
Keys keys_of_document() {
  std::istringstream lines(read_bytes(TJ_REPO_DIR "/src/graph/README.md"));
  Keys keys;
  std::string line, place;
  bool in_table = false;
  while (std::getline(lines, line)) {
    if (line.rfind("| key |", 0) == 0) in_table = true;
    if (line.empty()) in_table = false;
    if (!in_table || line.rfind("| `", 0) != 0) continue;
    const std::string cell = line.substr(2, line.find(" |", 2) - 2);
    for (std::size_t at = 0; (at = cell.find('`', at)) != std::string::npos;) {
      const std::size_t end = cell.find('`', at + 1);
      REQUIRE(end != std::string::npos);
      add_key(cell.substr(at + 1, end - at - 1), place, keys);
      at = end + 1;
    }
  }
  return keys;
}

/// The keys that a message says are allowed.
std::set<std::string> allowed(const std::string& text) {
  const std::string message = error_of([&] { Graph::parse(text); }).message, before = "has the key 'zz'; allowed are ";
  const std::size_t at = message.find(before);
  REQUIRE_MESSAGE(at != std::string::npos, message);
  std::istringstream words(message.substr(at + before.size()));
  std::set<std::string> keys;
  for (std::string word; std::getline(words, word, ',');) keys.insert(word.substr(word.find_first_not_of(' ')));
  return keys;
}

Keys keys_of_reader() {
  const auto with = [](const std::string& more) {
    return R"({"machine": "hopper", "instructions": [{"name": "a", "cycles": 1}])" + more + "}";
  };
  return {{"", allowed(with(R"(, "zz": 1)"))},
          {"machine", allowed(R"({"machine": {"zz": 1}, "instructions": []})")},
          {"instructions[]", allowed(R"({"machine": "hopper", "instructions": [{"zz": 1}]})")},
          {"edges[]", allowed(with(R"(, "edges": [{"zz": 1}])"))},
          {"values[]", allowed(with(R"(, "values": [{"zz": 1}])"))},
          {"code", allowed(with(R"(, "code": {"zz": 1})"))},
          {"options", allowed(with(R"(, "options": {"zz": 1})"))},
          {"candidates[]", allowed(with(R"(, "candidates": [{"zz": 1}])"))},
          {"trials[]", allowed(with(R"(, "trials": [{"zz": 1}])"))},
          {"trials[].tensors[]", allowed(with(R"(, "trials": [{"name": "t", "tensors": [{"zz": 1}]}])"))},
          {"trials[].params[]", allowed(with(R"(, "trials": [{"name": "t", "tensors": [
              {"name": "d", "dtype": "f32", "shape": [1], "written": true}], "params": [{"zz": 1}]}])"))}};
}

void collect(const Json& json, Keys& keys) {
  for (const auto& [key, value] : json.items()) keys[""].insert(key);
  for (const char* part : {"machine", "code", "options"})
    if (json.contains(part) && json[part].is_object())
      for (const auto& [key, value] : json[part].items()) keys[part].insert(key);
  for (const char* list : {"instructions", "edges", "values", "candidates", "trials"})
    if (json.contains(list))
      for (const Json& each : json[list])
        for (const auto& [key, value] : each.items()) keys[std::string(list) + "[]"].insert(key);
  if (json.contains("trials"))
    for (const Json& trial : json["trials"])
      for (const char* list : {"tensors", "params"})
        for (const Json& each : trial[list])
          for (const auto& [key, value] : each.items()) keys[std::string("trials[].") + list + "[]"].insert(key);
}

/// Documents that have all keys between them, each with a value that is not the default.
const char* const kDocuments[] = {
    R"({"name": "all", "machine": {"functional_units": {"TC": 2, "TMA": 1}, "memory": {"SMEM": 100000, "TMEM": 131072},
  "warps_per_group": 2, "warp_size": 64, "registers": 32768, "max_registers_per_thread": 128, "register_step": 16,
  "register_roles": true, "shared_barriers": false, "overlapped_launch": false, "max_cluster": 4},
  "cluster": 4, "pairs": true, "blocks_per_sm": 2, "walk": "split", "grids": "opens", "ranges": "guarded", "piece_bytes": 512, "most_iterations": 9,
  "least_smem_bytes": 100, "flops_per_iteration": 5.5, "overhead_cycles": 2.5, "typical_iterations": 8, "useful_flops": 40,
  "options": {"max_stages": 3, "min_ii": 4, "max_slots": 5, "max_roles": 6, "node_budget": 7, "streaming_latency_zero": true,
              "turns": false, "joint": false, "mixed_roles": true, "copies_apart": true},
  "code": {"namespace": "user", "includes": ["a.cuh"], "params_type": "P", "config": {"kA": 1}, "definitions": ["WIDE"]},
  "instructions": [
    {"name": "load", "cycles": 3, "fu": "TMA", "latency": 9, "issue_cycles": 2, "variable_latency": true, "streaming": true,
     "memory": {"SMEM": 1024}, "registers": 4, "warp_cycles": 1, "body": "b", "context": "C", "copy": 1, "warps": 2,
     "cache_hint": "evict_first"},
    {"name": "mma", "rrt": {"TC": [1, 2]}, "latency": 7, "context": "C", "async": "unit", "variant": "Fast", "variant_begin": "from",
     "variant_end": "until", "max_variant_begin": 3},
    {"name": "late", "cycles": 1, "fu": null, "context": "C"},
    {"name": "end", "cycles": 1, "fu": null, "context": "C", "scope": "tile_end", "drains": true, "merges": true}],
  "values": [{"name": "v", "slot_bytes": 1024, "copied_bytes": 512, "alignment": 512, "min_slots": 2,
              "max_slots": 3, "within_warp": true},
             {"name": "w", "slot_bytes": 1024, "scope": "tile_begin", "shared_by": 2, "shared_stride": 2},
             {"name": "t", "slot_bytes": 512, "alignment": 512, "space": "tensor"}],
  "edges": [{"src": "load", "dst": "mma", "delay": 9, "value": "v", "blocking": true, "spill_cycles": 2, "same_role": true},
            {"src": "mma", "dst": "mma", "delay": 2, "delta": 1},
            {"src": "mma", "dst": "late", "delay": 2, "value": "t", "updates": true}]})",
    R"json({"name": "forms", "machine": "sm_90a", "targets": ["sm_100a"], "parameters": {"n": 2},
  "trials": [{"name": "small", "use": "check", "sizes": {"m": "n * 64"}, "blocks": "min(n, blocks_at_once)",
    "tensors": [{"name": "a", "dtype": "f16", "shape": ["m", 64], "fill": "normal / 2"},
                {"name": "d", "dtype": "f32", "shape": ["m"], "written": true, "expected": "a[i0, 0]", "tolerance": 0.5}],
    "params": [{"kind": "map", "of": "a", "box": [64, 32], "swizzle_bytes": 64}, {"kind": "pointer", "of": "d"}]}],
  "candidates": [{"name": "one", "parameters": {"n": 3}}], "instructions": [{"name": "a", "cycles": "n", "fu": "TC"}]})json",
    R"({"name": "places", "machine": "sm_90a", "instructions": [{"name": "a", "cycles": 1, "fu": "TC"}], "edges": [],
  "values": [{"name": "v", "slot_bytes": 1024, "max_slots": 1},
             {"name": "x", "slot_bytes": 1024, "max_slots": 1, "lies_in": "v"}]})",
    R"({"name": "slices", "machine": "sm_90a", "walk": "sliced", "cluster": 4, "slices": 2, "piece_bytes": 512,
  "instructions": [{"name": "a", "cycles": 1, "fu": "TC"},
                   {"name": "end", "cycles": 1, "fu": null, "scope": "tile_end", "merges": true}]})"};

}  // namespace

TEST_CASE("the table of keys has what the reader takes, and nothing else") {
  const Keys table = keys_of_document(), reader = keys_of_reader();
  for (const auto& entry : reader) {
    const std::string& place = entry.first;
    const std::set<std::string>& keys = entry.second;
    CAPTURE(place);
    REQUIRE(table.count(place) == 1);
    std::set<std::string> known = table.at(place);
    if (place.empty())  // lists and objects, whose members have rows of their own
      known.insert({"instructions", "edges", "values", "code", "options"});
    if (place == "trials[]") known.insert({"tensors", "params"});
    for (const std::string& key : keys) CHECK_MESSAGE(known.count(key) == 1, key);
    for (const std::string& key : known) CHECK_MESSAGE(keys.count(key) == 1, key);
  }
  CHECK(table.size() == reader.size());
}

TEST_CASE("each key is read into a graph in code, and written again with its value") {
  Keys given;
  for (const char* document : kDocuments) {
    collect(Json::parse(document), given);
    const Graph graph = Graph::parse(document);
    CHECK(Graph::parse(graph.json()) == graph);
    CHECK(Graph::parse(graph.json()).json() == graph.json());
    Keys before, after;
    collect(Json::parse(document), before);
    collect(Json::parse(graph.json()), after);
    for (const auto& entry : before)
      for (const std::string& key : entry.second)
        CHECK_MESSAGE(after[entry.first].count(key) == 1, (entry.first + "." + key));
  }
  for (const auto& entry : keys_of_reader())
    for (const std::string& key : entry.second)
      CHECK_MESSAGE(given[entry.first].count(key) == 1, (entry.first + "." + key));
}
