// Protects the numbers in the format of user graphs: of each field the least and the most that are read, and the whole
// text with which the next ones are refused. What fields mean is for json_test.cpp.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include <tilejit/error.hpp>

#include "graph/json_reader.hpp"
#include "support/full.hpp"
#include "support/scratch.hpp"

namespace {

using namespace tj;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kCycles = 4194304, kSpace = std::int64_t{1} << 40;

Json good() {
  Json json = Json::parse(testing::read_bytes(TJ_REPO_DIR "/tests/graph/data/coded.json"));
  json["machine"]["max_cluster"] = 8;
  return json;
}

/// The words with which the document is refused; "" where it is not.
std::string said(const std::string& text) {
  try {
    graph::read_json(text, "mine");
  } catch (const Error& error) {
    CHECK(error.stage == Stage::graph);
    CHECK(error.code == Code::invalid_argument);
    return error.message;
  }
  return "";
}

std::string said_with(const char* pointer, const Json& value, const Json& base) {
  Json json = base;
  json[Json::json_pointer(pointer)] = value;
  return said(json.dump());
}

/// A number within its limits may still be refused with the rest of the graph.
void check_range(const char* pointer, const std::string& place, std::int64_t low, std::int64_t high,
                 const Json& base = good()) {
  CAPTURE(place);
  const std::string allowed = "; it must be a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  for (const std::int64_t value : {low, high}) {
    const std::string message = said_with(pointer, value, base);
    CHECK_MESSAGE(!message.starts_with("graph 'mine': " + place + " is "), message);
  }
  for (const std::int64_t value : {low - 1, high + 1})
    CHECK(said_with(pointer, value, base) == "graph 'mine': " + place + " is " + std::to_string(value) + allowed);
}

}  // namespace

TEST_CASE("numbers of the machine and the launch") {
  REQUIRE(said(good().dump()) == "");
  check_range("/machine/functional_units/TC", "machine.functional_units.TC", 1, 4096);
  check_range("/machine/memory/SMEM", "machine.memory.SMEM", 1, kSpace);
  check_range("/machine/warps_per_group", "machine.warps_per_group", 1, 32);
  check_range("/machine/warp_size", "machine.warp_size", 1, 128);
  check_range("/machine/registers", "machine.registers", 1, 16777216);
  check_range("/machine/max_registers_per_thread", "machine.max_registers_per_thread", 1, 65536);
  check_range("/machine/register_step", "machine.register_step", 1, 240);
  check_range("/machine/max_cluster", "machine.max_cluster", 1, 16);
  check_range("/cluster", "cluster", 1, 8);
  check_range("/blocks_per_sm", "blocks_per_sm", 1, 32);
  check_range("/most_iterations", "most_iterations", 0, kCycles);
  check_range("/least_smem_bytes", "least_smem_bytes", 0, 1073741824);
}

TEST_CASE("numbers of an instruction and an edge") {
  for (const char* key : {"latency", "issue_cycles", "warp_cycles"})
    check_range((std::string("/instructions/2/") + key).c_str(), std::string("instructions[2].") + key, 0, kCycles);
  Json cycles = good();
  cycles["instructions"][2].erase("rrt");
  check_range("/instructions/2/cycles", "instructions[2].cycles", 0, kCycles, cycles);
  check_range("/instructions/2/registers", "instructions[2].registers", 0, 65536);
  check_range("/instructions/2/copy", "instructions[2].copy", 0, 63);
  check_range("/instructions/2/warps", "instructions[2].warps", 1, 32);
  check_range("/instructions/2/max_variant_begin", "instructions[2].max_variant_begin", 0, graph::Range().max_begin);
  Json memory = good();
  memory["instructions"][2]["memory"] = {{"SMEM", 1}};
  memory["machine"]["memory"] = {{"SMEM", 1000}};
  check_range("/instructions/2/memory/SMEM", "instructions[2].memory.SMEM", 0, 1000, memory);
  memory["machine"].erase("memory");
  check_range("/instructions/2/memory/SMEM", "instructions[2].memory.SMEM", 0, kSpace, memory);
  check_range("/edges/0/delay", "edges[0].delay", -kCycles, kCycles);
  check_range("/edges/0/delta", "edges[0].delta", 0, 1024);
  check_range("/edges/0/spill_cycles", "edges[0].spill_cycles", 0, kCycles);
}

TEST_CASE("numbers of a value and of the code") {
  check_range("/values/0/alignment", "values[0].alignment", 1, 4096);
  check_range("/values/0/min_slots", "values[0].min_slots", 1, 1024);
  check_range("/values/0/max_slots", "values[0].max_slots", 2, 1024);
  Json tensor = good();
  tensor["values"][0]["space"] = "tensor";
  check_range("/values/0/slot_bytes", "values[0].slot_bytes", 0, kSpace, tensor);
  CHECK(said_with("/values/0/slot_bytes", 0, good()) ==
        "graph 'mine': values[0].slot_bytes is 0 for a value in shared memory; allowed: 1 to 1099511627776");
  check_range("/values/0/copied_bytes", "values[0].copied_bytes", 0, 8192);
  Json large = good();
  large["values"][0]["slot_bytes"] = std::int64_t{1} << 31;
  check_range("/values/0/copied_bytes", "values[0].copied_bytes", 0, 1073741824, large);
  Json cluster = good();
  cluster["cluster"] = 4;
  check_range("/values/0/shared_by", "values[0].shared_by", 1, 4, cluster);
  check_range("/values/0/shared_stride", "values[0].shared_stride", 1, 4, cluster);
  check_range("/code/config/kRows", "code.config.kRows", std::numeric_limits<std::int32_t>::min(),
              std::numeric_limits<std::int32_t>::max());
}

TEST_CASE("numbers with a fraction") {
  for (const char* key : {"flops_per_iteration", "overhead_cycles"}) {
    CAPTURE(key);
    const std::string pointer = std::string("/") + key, begin = std::string("graph 'mine': ") + key + " is ";
    for (const double value : {0.0, 0.5, 1e18}) CHECK(said_with(pointer.c_str(), value, good()) == "");
    for (const double value : {-0.5, 1.0000001e18}) {
      const std::string message = said_with(pointer.c_str(), value, good());
      CHECK_MESSAGE(message.starts_with(begin), message);
      CHECK(message.find("; it must be a number from 0 to 1") != std::string::npos);
    }
  }
}

TEST_CASE("lengths of texts") {
  const auto is = [](const char* pointer, std::size_t bytes) {
    return said_with(pointer, std::string(bytes, 'x'), good());
  };
  CHECK(is("/name", 128) == "");
  CHECK(is("/name", 129) == "graph 'mine': name is '" + std::string(100, 'x') +
                                "... (129 bytes)'; a name has 1 to 128 bytes and no control characters");
  CHECK(is("/name", 0) == "graph 'mine': name is ''; a name has 1 to 128 bytes and no control characters");
  for (const char* character : {"\x1f", "\x7f"})
    CHECK(said_with("/name", character, good()).find("no control characters") != std::string::npos);
  for (const char* character : {" ", "~", "\xC2\x80"}) CHECK(said_with("/name", character, good()) == "");
  for (const char* key : {"namespace", "params_type"}) {
    const std::string pointer = std::string("/code/") + key;
    CHECK(is(pointer.c_str(), 256).find("bytes; at most") == std::string::npos);
    CHECK(is(pointer.c_str(), 257) ==
          std::string("graph 'mine': code.") + key + " has 257 bytes; at most 256 are allowed");
  }
  CHECK(is("/code/includes/0", 257) == "graph 'mine': code.includes[0] has 257 bytes; at most 256 are allowed");
  CHECK(is("/code/config/Element", 257) == "graph 'mine': code.config.Element has 257 bytes; at most 256 are allowed");
}

TEST_CASE("entries of lists and members of objects") {
  const auto list_of = [](const char* pointer, std::size_t count, const std::function<Json(std::size_t)>& entry) {
    Json json = good();
    Json::array_t list;
    for (std::size_t i = 0; i < count; ++i) list.push_back(entry(i));
    json[Json::json_pointer(pointer)] = std::move(list);
    return said(json.dump());
  };
  const auto name = [](std::size_t i) { return Json("f" + std::to_string(i) + ".cuh"); };
  CHECK(list_of("/code/includes", 64, name) == "");
  CHECK(list_of("/code/includes", 65, name) == "graph 'mine': code.includes has 65 entries; at most 64 are allowed");
  const auto value = [](std::size_t i) { return Json{{"name", "v" + std::to_string(i)}, {"slot_bytes", 16}}; };
  CHECK(list_of("/values", 1025, value) == "graph 'mine': values has 1025 entries; at most 1024 are allowed");
  const Json one = good()["edges"][1];
  const auto same = [&](std::size_t) { return one; };
  const auto node = [](std::size_t i) { return Json{{"name", "n" + std::to_string(i)}, {"cycles", 1}}; };
  CHECK(list_of("/instructions", 1025, node) ==
        "graph 'mine': instructions has 1025 entries; at most 1024 are allowed");
  if (!testing::thinned_out(1)) {  // nlohmann's own checks of long lists take long there
    CHECK(list_of("/edges", 16385, same) == "graph 'mine': edges has 16385 entries; at most 16384 are allowed");
    CHECK(list_of("/values", 1024, value).find("entries") == std::string::npos);
    CHECK(list_of("/edges", 16384, same).find("entries") == std::string::npos);
    CHECK(list_of("/instructions", 1024, node).find("entries") == std::string::npos);
  }
  for (const int members : {256, 257}) {
    Json json = good();
    json["code"]["config"] = Json::object();
    for (int i = 0; i < members; ++i) json["code"]["config"]["k" + std::to_string(i)] = i;
    CHECK(said(json.dump()) ==
          (members == 256 ? "" : "graph 'mine': code.config has 257 members; at most 256 are allowed"));
  }
}

TEST_CASE("reservations of a table, its length, and how deep and long a document may be") {
  const auto table = [](std::size_t length, int first, int second) {
    Json json = {{"machine", {{"functional_units", {{"TC", 2}}}}}, {"instructions", Json::array()}};
    Json row = Json::array();
    for (std::size_t i = 0; i < length; ++i) row.push_back(i % 2 == 0 ? first : second);
    json["instructions"].push_back({{"name", "a"}, {"rrt", {{"TC", row}}}});
    return said(json.dump());
  };
  CHECK(table(4096, 1, 2).find("reservations of all instructions") == std::string::npos);
  CHECK(table(4097, 1, 2) ==
        "graph 'mine': instructions[0] brings the reservations of all instructions to 4097; at most 4096 are allowed, "
        "a run of equal entries of a rrt row counting as one");
  CHECK(table(65536, 1, 1) == "");
  CHECK(table(65537, 1, 1) ==
        "graph 'mine': instructions[0].rrt.TC[65536] is one entry too many; an array may have 65536");
  const auto deep = [](std::size_t arrays) {
    return said("{\"machine\": " + std::string(arrays, '[') + std::string(arrays, ']') + "}");
  };
  CHECK(deep(15) == "graph 'mine': machine is an array of 1; allowed are a name, such as \"hopper\", or an object");
  CHECK(deep(16).find(" is nested deeper than 16 levels; the format needs fewer") != std::string::npos);
  const std::string text = good().dump();
  const std::size_t most = std::size_t{16} << 20;
  CHECK(said(text + std::string(most - text.size(), ' ')) == "");
  CHECK(said(std::string(most + 1, ' ')) == "graph 'mine': the text has 16777217 bytes; at most 16777216 are read");
}
