// Protects tj::Schedule: it is what tj-schedule prints, writes and draws for the same graph and options; options are
// refused by name; calls from several threads agree.
#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>
#include <tilejit/graph.hpp>

#include "graph/examples.hpp"
#include "ops/common/machine.hpp"
#include "sched/picture/svg.hpp"
#include "sched/picture/trace.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

namespace {

using tj::Graph;
using tj::ScheduleOptions;
using tj::testing::error_of;
using tj::testing::has;

Graph example(const char* name) { return Graph::parse(tj::ops::write_graph(tj::graph::example(name))); }

/// Without the time that the search took, which is another one each time.
std::string without_time(const std::string& text) {
  const std::size_t begin = text.find("search: "), end = text.find('\n', begin);
  return begin == std::string::npos ? text : text.substr(0, begin) + text.substr(end);
}
nlohmann::ordered_json without_time_json(const std::string& text) {
  auto json = nlohmann::ordered_json::parse(text);
  CHECK(json.erase("solve_ms") == 1);
  return json;
}

void refuses_options(const ScheduleOptions& options, const std::string& part) {
  const tj::Error error = error_of([&] { tj::schedule(example("fa_hopper"), options); });
  CHECK(error.stage == tj::Stage::schedule);
  CHECK(error.code == tj::Code::invalid_argument);
  CHECK_MESSAGE(has(error.message, part), error.message);
}

void refuses_text(const std::string& text, const std::string& part) {
  const tj::Error error = error_of([&] { ScheduleOptions::parse(text); });
  CHECK(error.stage == tj::Stage::schedule);
  CHECK(error.code == tj::Code::invalid_argument);
  CHECK_MESSAGE(has(error.message, part), error.message);
}

}  // namespace

TEST_CASE("a schedule of a graph in code is the library's own, in numbers and in every form") {
  for (const char* name : {"simplified_fa", "fa_hopper", "fa_blackwell", "simple_gemm"}) {
    CAPTURE(std::string(name));
    const tj::graph::Graph graph = tj::graph::example(name);
    const tj::sched::Schedule expected = tj::sched::schedule(graph);
    const tj::Schedule found = tj::schedule(example(name));
    CHECK(found.ii() == expected.ii);
    CHECK(found.length() == expected.length);
    CHECK(found.resource_bound() == expected.res_mii);
    CHECK(found.recurrence_bound() == expected.rec_mii);
    CHECK(found.proven_ii());
    CHECK(found.proven_length());
    CHECK(found.joint());
    CHECK(found.certificate() == expected.certificate);
    CHECK(found.search_nodes() == expected.search_nodes);
    CHECK(found.stages() == (expected.length + expected.ii - 1) / expected.ii);
    REQUIRE(found.nodes().size() == graph.nodes.size());
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      CHECK(found.nodes()[i].name == graph.nodes[i].name);
      CHECK(found.nodes()[i].cycle == expected.cycle[i]);
      CHECK(found.nodes()[i].stage == expected.stage(static_cast<int>(i)));
      CHECK(found.nodes()[i].role == expected.role[i]);
      CHECK(&found.node(graph.nodes[i].name) == &found.nodes()[i]);
    }
    CHECK(found.verify().empty());
    CHECK(without_time(found.text()) == without_time(tj::sched::to_text(graph, expected)));
    CHECK(without_time_json(found.json()) == without_time_json(tj::sched::to_json(graph, expected)));
    CHECK(found.svg() == tj::sched::to_svg(graph, expected));
    CHECK(found.trace() == tj::sched::to_trace(graph, expected));
  }
}

TEST_CASE("the example of the header does what it says") {
  tj::Graph graph{.name = "product", .machine = {.name = "hopper"}};
  graph.instructions = {{.name = "load", .cycles = 1, .fu = "TMA", .variable_latency = true},
                        {.name = "mma", .cycles = 2, .fu = "TC"}};
  graph.edges = {{.src = "load", .dst = "mma", .delay = 1}, {.src = "mma", .dst = "mma", .delay = 2, .delta = 1}};
  const tj::Schedule schedule = tj::schedule(graph);
  CHECK(schedule.ii() == 2);
  CHECK(schedule.proven_ii());
}

TEST_CASE("a schedule stays whole when it is moved from, and lives without its graph") {
  tj::Schedule first = tj::schedule(example("simple_gemm"));
  const tj::Schedule second = std::move(first);
  CHECK(first.svg() == second.svg());
  first = tj::schedule(example("fa_hopper"));
  CHECK(first.ii() == 4);
  CHECK(second.ii() == 2);
}

TEST_CASE("a prediction is the tile's flops over its cycles, and numbers that no device has are refused") {
  Graph graph = example("simple_gemm");  // II 2, length 4
  CHECK(tj::schedule(graph).predicted_tflops(1, 1, 10) == 0);
  graph.flops_per_iteration = 1e6;
  graph.overhead_cycles = 8;
  const tj::Schedule schedule = tj::schedule(graph);
  // 10 iterations of 1e6 in 8 + 9 * 2 + 4 = 30 cycles, on 3 multiprocessors at 2 GHz.
  CHECK(schedule.predicted_tflops(3, 2, 10) == doctest::Approx(10 * 1e6 / 30 * 2e9 * 3 / 1e12));
  const auto refused = [&](int count, double clock, double iterations, const char* part) {
    const tj::Error error = error_of([&] { static_cast<void>(schedule.predicted_tflops(count, clock, iterations)); });
    CHECK(error.stage == tj::Stage::schedule);
    CHECK_MESSAGE(has(error.message, part), error.message);
  };
  refused(0, 1, 1, "sm_count is 0; allowed: 1 and more");
  refused(1, 0, 1, "clock_ghz is 0; allowed: a number above 0");
  refused(1, std::numeric_limits<double>::infinity(), 1, "clock_ghz is inf");
  refused(1, 1, 0.5, "iterations is 0.5; allowed: 1 and more");
  refused(1, 1, std::numeric_limits<double>::quiet_NaN(), "iterations is ");
}

TEST_CASE("roles, rings, turns and units are those of the JSON form") {
  // Two products on one unit that roles take turns on, as attention does with two sub-tiles.
  Graph graph{.name = "turns", .machine = {.name = "sm_90a"}};
  graph.instructions = {{.name = "load",
                         .cycles = 100,
                         .fu = "TMA",
                         .latency = 600,
                         .variable_latency = true,
                         .streaming = true,
                         .memory = {{"SMEM", 32768}}}};
  for (const std::string copy : {"0", "1"}) {
    graph.instructions.push_back({.name = "qk." + copy,
                                  .cycles = 256,
                                  .fu = "TC",
                                  .issue_cycles = 10,
                                  .registers = 120,
                                  .async = Graph::Async::matrix,
                                  .context = "Rows",
                                  .copy = copy == "1"});
    graph.instructions.push_back({.name = "soft." + copy, .cycles = 400, .context = "Rows", .copy = copy == "1"});
    graph.edges.push_back({.src = "load", .dst = "qk." + copy, .delay = 600});
    graph.edges.push_back(
        {.src = "qk." + copy, .dst = "soft." + copy, .delay = 256, .blocking = true, .same_role = true});
  }
  const tj::Schedule schedule = tj::schedule(graph, {.copies_apart = true});
  const auto json = nlohmann::json::parse(schedule.json());
  REQUIRE(schedule.roles().size() == json["roles"].size());
  for (std::size_t r = 0; r < schedule.roles().size(); ++r) {
    const tj::Schedule::Role& role = schedule.roles()[r];
    CHECK(json["roles"][r]["name"] == role.name);
    CHECK(json["roles"][r]["warps"] == role.warps);
    CHECK(json["roles"][r]["registers"] == role.registers);
    REQUIRE(json["roles"][r]["nodes"].size() == role.nodes.size());
    for (std::size_t n = 0; n < role.nodes.size(); ++n) {
      const tj::Schedule::Node& node = schedule.nodes()[static_cast<std::size_t>(role.nodes[n])];
      CHECK(json["roles"][r]["nodes"][n] == node.name);
      CHECK(node.role == static_cast<int>(r));
    }
  }
  REQUIRE(schedule.rings().size() == 1);
  REQUIRE(json["rings"].size() == 1);
  const tj::Schedule::Ring& ring = schedule.rings()[0];
  CHECK(json["rings"][0]["value"] == ring.value);
  CHECK(json["rings"][0]["slots"] == ring.slots);
  CHECK(ring.slot_bytes == 32768);
  CHECK(ring.shared_by == 1);
  CHECK(json["rings"][0]["producer"] == schedule.roles()[static_cast<std::size_t>(ring.producer)].name);
  CHECK(json["rings"][0]["consumers"].size() == ring.consumers.size());
  CHECK(ring.consumers.size() == 2);
  REQUIRE(schedule.turns().size() == json["order_barriers"].size());
  REQUIRE(schedule.turns().size() == 1);
  CHECK(schedule.turns()[0].unit == "TC");
  REQUIRE(schedule.turns()[0].turns.size() == 2);
  for (std::size_t t = 0; t < 2; ++t) {
    const tj::Schedule::Turns::Turn& turn = schedule.turns()[0].turns[t];
    CHECK(json["order_barriers"][0]["turns"][t]["role"] == schedule.roles()[static_cast<std::size_t>(turn.role)].name);
    REQUIRE(turn.nodes.size() == 1);
    CHECK(has(schedule.nodes()[static_cast<std::size_t>(turn.nodes[0])].name, "qk."));
  }
  REQUIRE(schedule.units().size() == json["units"].size());
  for (std::size_t u = 0; u < schedule.units().size(); ++u) {
    CHECK(json["units"][u]["name"] == schedule.units()[u].name);
    CHECK(json["units"][u]["capacity"] == schedule.units()[u].capacity);
    CHECK(json["units"][u]["cycles"] == schedule.units()[u].cycles);
    if (schedule.units()[u].name == "TC") CHECK(schedule.units()[u].cycles == 512);
  }
  CHECK(tj::schedule(graph, {.turns = false, .copies_apart = true}).turns().empty());
}

TEST_CASE("each option reaches the scheduler, in code and as text") {
  const Graph graph = example("fa_hopper");
  const tj::graph::Graph inner = tj::graph::example("fa_hopper");
  struct Case {
    const char* text;
    ScheduleOptions options;
    tj::sched::Options expected;
  };
  const auto expected = [](auto set) {
    tj::sched::Options options;
    set(options);
    return options;
  };
  using Inner = tj::sched::Options;
  const Case cases[] = {
      {R"({"max_stages": 1})", {.max_stages = 1}, expected([](Inner& o) { o.max_stages = 1; })},
      {R"({"min_ii": 6})", {.min_ii = 6}, expected([](Inner& o) { o.min_ii = 6; })},
      {R"({"max_slots": 1})", {.max_slots = 1}, expected([](Inner& o) { o.max_slots = 1; })},
      {R"({"max_roles": 1, "mixed_roles": true})", {.max_roles = 1, .mixed_roles = true}, expected([](Inner& o) {
         o.max_roles = 1;
         o.mixed_roles = true;
       })},
      {R"({"node_budget": 1})", {.node_budget = 1}, expected([](Inner& o) { o.node_budget = 1; })},
      {R"({"streaming_latency_zero": true})", {.streaming_latency_zero = true}, expected([](Inner& o) {
         o.streaming_latency_zero = true;
       })},
      {R"({"turns": false})", {.turns = false}, expected([](Inner& o) { o.order_barriers = false; })},
      {R"({"joint": false})", {.joint = false}, expected([](Inner& o) { o.joint = false; })},
      {R"({"copies_apart": true})", {.copies_apart = true}, expected([](Inner& o) { o.copies_apart = true; })},
  };
  for (const Case& each : cases) {
    CAPTURE(std::string(each.text));
    CHECK(ScheduleOptions::parse(each.text) == each.options);
    const auto found = without_time_json(tj::schedule(graph, each.options).json());
    CHECK(found == without_time_json(tj::sched::to_json(inner, tj::sched::schedule(inner, each.expected))));
  }
  CHECK(ScheduleOptions::parse("") == ScheduleOptions());
  CHECK(ScheduleOptions::parse("{}") == ScheduleOptions());
}

TEST_CASE("an option that is not allowed is refused by name") {
  refuses_options({.max_stages = -1}, "max_stages is -1; it must be 0 (no limit) or more");
  refuses_options({.min_ii = -3}, "min_ii is -3");
  refuses_options({.min_ii = (1 << 22) + 1}, "min_ii is 4194305; at most 4194304 is allowed");
  refuses_options({.max_slots = -1}, "max_slots is -1");
  refuses_options({.max_roles = -1}, "max_roles is -1");
  refuses_options({.node_budget = (std::uint64_t{1} << 40) + 1}, "node_budget is 1099511627777; at most 1099511627776");
  refuses_options({.node_budget = ~std::uint64_t{0}}, "node_budget is ");
  refuses_options({.joint = false, .mixed_roles = true}, "mixed_roles is set without joint");
  refuses_options({.mixed_roles = true, .copies_apart = true}, "copies_apart is set with mixed_roles");
  refuses_text("[]", "options: the document is an array of 0; it must be an object");
  refuses_text("{", "options: not JSON");
  refuses_text(R"({"stages": 1})", "options: the document has the key 'stages'; allowed are max_stages, min_ii");
  refuses_text(R"({"max_stages": -1})", "options: max_stages is -1; it must be a whole number from 0 to 2147483647");
  refuses_text(R"({"turns": 1})", "options: turns is 1; it must be true or false");
  refuses_text(R"({"node_budget": 1e99})", "options: node_budget is 1e+99; it must be a whole number from 0");
}

TEST_CASE("what does not fit is named, and so is a node that is not there") {
  Graph graph{.name = "large", .machine = {.name = "hopper"}};
  graph.instructions = {{.name = "x", .fu = "TMA", .variable_latency = true, .memory = {{"SMEM", 200000}}},
                        {.name = "y", .fu = "TMA", .variable_latency = true, .memory = {{"SMEM", 200000}}},
                        {.name = "z", .fu = "TC"}};
  graph.edges = {{.src = "x", .dst = "z", .delay = 1}, {.src = "y", .dst = "z", .delay = 1}};
  const tj::Error error = error_of([&] { tj::schedule(graph); });
  CHECK(error.stage == tj::Stage::schedule);
  CHECK(error.code == tj::Code::unsupported);
  CHECK_MESSAGE(has(error.message, "SMEM"), error.message);
  const tj::Schedule schedule = tj::schedule(example("simple_gemm"));
  const tj::Error absent = error_of([&] { schedule.node("D"); });
  CHECK(absent.stage == tj::Stage::schedule);
  CHECK_MESSAGE(has(absent.message, "node is 'D'; graph 'simple_gemm' has A_load, B_load, C"), absent.message);
}

TEST_CASE("threads may schedule, copy and read at once") {
  const Graph graph = example("fa_hopper");
  const tj::Schedule shared = tj::schedule(graph);
  std::vector<std::string> texts(8);
  std::vector<std::thread> threads;
  for (std::string& text : texts)
    threads.emplace_back([&] {
      const tj::Schedule copy = shared;
      text = copy.svg() + tj::schedule(graph).trace() + Graph::parse(graph.json()).text();
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) CHECK(text == texts.front());
  CHECK_FALSE(texts.front().empty());
}
