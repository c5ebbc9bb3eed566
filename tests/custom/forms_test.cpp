// Protects what a user's document says beside one graph: expressions over facts and parameters, further targets,
// candidates, options. A form is what its numbers say; texts survive; each mistake is named by place.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <tilejit/error.hpp>
#include <tilejit/graph.hpp>

#include "arch/arch.hpp"
#include "arch/fact_file.hpp"
#include "custom/custom.hpp"
#include "custom/document.hpp"
#include "custom/expression.hpp"
#include "custom/sample_kernel.hpp"
#include "support/expect.hpp"

namespace {

using tj::Document;
using tj::Graph;
using tj::testing::error_of;
using tj::testing::has;

/// A product whose sizes are parameters and whose costs follow from the target.
std::string product(const std::string& more = R"("candidates": [
    {"name": "narrow", "parameters": {"block_n": 64}}, {"name": "wide", "parameters": {"block_n": 256}}],)",
                    const std::string& cycles = "block_m * block_n * block_k * 2 / matrix_flops_per_cycle") {
  return R"({"name": "product", "machine": "sm_90a", "targets": ["sm_100a", "sm_90+smem=99K"],
  "parameters": {"block_m": 128, "block_n": 128, "block_k": 64, "bytes": "(block_m + block_n) * block_k * 2"}, )" +
         more + R"(
  "typical_iterations": "4096 / block_k", "flops_per_iteration": "2 * block_m * block_n * block_k", "overhead_cycles": "1000.5",
  "code": {"namespace": "user", "includes": ["a.cuh"], "params_type": "user::P",
           "config": {"kBlockN": "=block_n", "kHalf": "=block_n / 2 + 0.5", "Element": "tj::dev::F16"}, "definitions": ["WIDE", "PARTS=4"]},
  "instructions": [
    {"name": "load", "cycles": "copy_cycles_per_kb * bytes / 1024", "fu": "TMA", "latency": "copy_latency_cycles",
     "variable_latency": true, "streaming": true, "memory": {"SMEM": "bytes"}, "context": "Loader"},
    {"name": "mma", "cycles": ")" +
         cycles + R"(", "fu": "TC", "context": "Sums"}],
  "values": [{"name": "ab", "slot_bytes": "bytes"}],
  "edges": [{"src": "load", "dst": "mma", "delay": "max(copy_latency_cycles, 10) + 0", "value": "ab"},
            {"src": "mma", "dst": "mma", "delay": 1, "delta": 1}]
})";
}

double value_of(const std::string& text) {
  const tj::Numbers numbers{{{"a", 3}, {"b_2", 0.5}}, "machine 'x'"};
  return tj::evaluate(text, numbers, tj::graph::Fields("graph 'g'"), "instructions[0].cycles");
}
void refuses_expression(const std::string& text, const std::string& part) {
  const tj::Error error = error_of([&] { value_of(text); });
  CHECK(error.stage == tj::Stage::graph);
  CHECK(error.code == tj::Code::invalid_argument);
  CHECK_MESSAGE(has(error.message, "graph 'g': instructions[0].cycles is "), error.message);
  CHECK_MESSAGE(has(error.message, part), error.message);
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
void refuses_text(const std::string& text, const std::string& part) {
  const tj::Error error = error_of([&] { Graph::parse(text, "g"); });
  CHECK(error.stage == tj::Stage::graph);
  CHECK(error.code == tj::Code::invalid_argument);
  CHECK_MESSAGE(has(error.message, part), error.message);
}

}  // namespace

TEST_CASE("expressions have the usual values") {
  CHECK(value_of("2") == 2);
  CHECK(value_of(" 1 + 2 * a ") == 7);
  CHECK(value_of("(1 + 2) * a - -1") == 10);
  CHECK(value_of("7 / 2 / 2") == 1.75);
  CHECK(value_of("min(a, 2, 9) + max(b_2, .25)") == 2.5);
  CHECK(value_of("ceil(7 / 2) * floor(2.9)") == 8);
  CHECK(value_of("10 - 4 - 3") == 3);
}

TEST_CASE("what is no expression is refused with its place") {
  refuses_expression("", "it ends where a number or a name is expected");
  refuses_expression("1 +", "it ends where a number or a name is expected");
  refuses_expression("1 2", "'2' is not expected there");
  refuses_expression("a b_2", "'b' is not expected there");
  refuses_expression("(1", "')' is missing at byte 3");
  refuses_expression("1 / 0", "a part of it is no finite number; divide by no 0");
  refuses_expression("c", "there is no 'c'; machine 'x' has a, b_2");
  refuses_expression("sqrt(2)", "there is no function 'sqrt'; allowed are min, max, ceil, floor");
  refuses_expression("ceil(1, 2)", "'ceil' has 2 arguments; allowed is one");
  refuses_expression("1e5", "'e' is not expected there");
  refuses_expression(std::string("8\0garbage", 9), "' is not expected there");
  refuses_expression(std::string("8 + \0", 5), "a number or a name is expected at byte 5");
  refuses_expression("$", "a number or a name is expected at byte 1");
  refuses_expression(std::string(40, '(') + "1" + std::string(40, ')'), "nested deeper than 32 levels");
  refuses_expression(std::string(100, '-') + "1", "nested deeper than 32 levels");
  refuses_expression(std::string(257, '1'), "is an expression of 257 bytes; at most 256 are allowed");
}

TEST_CASE("a graph is worked out for each of its targets, from the facts of each") {
  const Graph graph = Graph::parse(product(""));
  CHECK(graph.targets == std::vector<std::string>{"sm_100a", "sm_90+smem=99K"});
  for (const char* target : {"sm_90a", "sm_100a"}) {
    CAPTURE(target);
    const tj::arch::Arch& arch = *tj::arch::find(target);
    const Graph one = graph.resolved(target);
    CHECK(one.machine.name == target);
    CHECK(one.instructions[1].cycles == std::ceil(128 * 128 * 64 * 2 / arch.fact("matrix_flops_per_cycle")));
    CHECK(one.instructions[0].latency == std::ceil(arch.fact("copy_latency_cycles")));
    CHECK(one.instructions[0].memory.at("SMEM") == 32768);
    CHECK(one.values[0].slot_bytes == 32768);
    CHECK(one.edges[0].delay == one.instructions[0].latency);
    CHECK(one.typical_iterations == 64);
    CHECK(one.overhead_cycles == 1000.5);
    CHECK(one.code->config[0] == Graph::Constant{"kBlockN", 128});
    CHECK(one.code->config[1] == Graph::Constant{"kHalf", 65});
    CHECK(one.code->definitions == std::vector<std::string>{"WIDE", "PARTS=4"});
    CHECK(one.parameters.empty());
    CHECK(one.instructions[1].expressions.empty());
  }
  CHECK(graph.resolved() == graph.resolved("sm_90a"));
  CHECK(tj::schedule(graph).ii() == tj::schedule(graph.resolved()).ii());
  CHECK(has(error_of([&] { graph.resolved("sm_80"); }).message,
            "the target is 'sm_80'; this graph is for sm_90a, sm_100a, sm_90+smem=99K"));
  CHECK(has(error_of([&] { graph.resolved("", "wide"); }).message, "the candidate is 'wide'; this graph has none"));
}

TEST_CASE("a whole number is the next one, but for what floating point adds; only delays may be negative") {
  const auto one = [](const std::string& cycles, const std::string& delay) {
    return Graph::parse(changed(product("", cycles), "\"delay\": 1,", "\"delay\": \"" + delay + "\",")).resolved();
  };
  CHECK(one("0.1 * 3 * 10", "0 - 2.5").instructions[1].cycles == 3);
  CHECK(one("0.1 * 3 * 10", "0 - 2.5").edges[1].delay == -2);
  Graph large = Graph::parse(product(""));
  large.values[0].expressions["copied_bytes"] = "0 * bytes";
  large.expressions["least_smem_bytes"] = "100000.00001";  // 1e-10 of it, and no rounding
  CHECK(large.resolved().least_smem_bytes == 100001);
}

TEST_CASE("a machine has its name whatever the order and the spelling of its options") {
  const Graph graph = Graph::parse(changed(product(""), "sm_90+smem=99K", "sm_90+smem=101376+copies=engine"));
  const Graph one = graph.resolved("sm_90+smem=99K");
  CHECK(one.machine.name == "sm_90+smem=99K");
  CHECK(graph.resolved("sm_90+copies=engine+smem=101376") == one);
  const std::string text =
      R"({"machine": "sm_90a+smem=204800", "instructions": [{"name": "a", "cycles": "sm_count"}]})";
  const tj::arch::FactFile& file =
      tj::arch::read_facts(R"({"tilejit_facts": 1, "arch": "sm_90a", "facts": {"sm_count": 78}})", "/f.json", "test");
  const tj::arch::Arch& arch = tj::arch::with_facts(tj::arch::parse_arch("sm_90a+smem=200K"), &file);
  CHECK(Graph::parse(text).resolved(arch.name).instructions[0].cycles == 78);
  CHECK(Graph::parse(text).resolved().instructions[0].cycles == 132);
}

TEST_CASE("expressions, parameters, candidates, targets and options survive being written and parsed") {
  Graph graph = Graph::parse(product());
  graph.options.copies_apart = true;
  graph.options.node_budget = 5000;
  graph.useful_flops = 3e9;
  CHECK(graph.instructions[0].expressions.at("memory.SMEM") == "bytes");
  CHECK(graph.expressions.at("typical_iterations") == "4096 / block_k");
  CHECK(graph.parameters[3] == Graph::Parameter{"bytes", "(block_m + block_n) * block_k * 2"});
  CHECK(graph.candidates[1].parameters.at("block_n") == "256");
  const std::string text = graph.json();
  CHECK(Graph::parse(text) == graph);
  CHECK(Graph::parse(text).json() == text);
  CHECK(has(text, "{\"name\":\"wide\",\"parameters\":{\"block_n\":256}}"));
  CHECK(has(text, "\"options\": {\"node_budget\":5000,\"copies_apart\":true}"));
  // A graph that says nothing of this is written as ever.
  CHECK_FALSE(has(graph.resolved("", "wide").json(), "candidates"));
  Graph plain{.name = "plain", .machine = {.name = "hopper"}};
  plain.instructions = {{.name = "a", .fu = "TC"}};
  CHECK_FALSE(has(plain.json(), "options"));
  plain.instructions[0].expressions = {{"cycles", "2 + 3"}};
  CHECK(tj::schedule(plain).ii() == 5);
  CHECK(Graph::parse(plain.json()) == Graph::parse(Graph::parse(plain.json()).json()));
}

TEST_CASE("of candidates the one is taken that does most in a cycle; those without a schedule are left out") {
  const Graph graph = Graph::parse(product());
  double best = 0;
  std::string name;
  for (const char* each : {"narrow", "wide"}) {
    const Graph one = graph.resolved("", each);
    const tj::Schedule schedule = tj::schedule(one);
    const double cycles = one.overhead_cycles + (one.typical_iterations - 1) * schedule.ii() + schedule.length();
    const double rate = one.flops_per_iteration * one.typical_iterations / cycles;
    if (rate > best) best = rate, name = each;
  }
  const tj::Schedule taken = tj::schedule(graph);
  CHECK(taken.candidate() == name);
  CHECK(has(taken.json(), "\"candidate\": \"" + name + "\""));
  CHECK(taken.ii() == tj::schedule(graph.resolved("", name)).ii());
  CHECK(tj::schedule(graph.resolved("", name)).candidate().empty());
  // A form that has no schedule is left out. Where no form has one, the error says what is lacking.
  const std::string two = R"({"machine": "hopper", "parameters": {"bytes": 1000},
    "candidates": [{"name": "large", "parameters": {"bytes": 200000}}, {"name": "small", "parameters": {"bytes": 1000}}],
    "instructions": [{"name": "x", "cycles": 1, "fu": "TMA", "variable_latency": true, "memory": {"SMEM": "bytes"}},
                     {"name": "y", "cycles": 1, "fu": "TMA", "variable_latency": true, "memory": {"SMEM": "bytes"}},
                     {"name": "z", "cycles": 1, "fu": "TC"}],
    "edges": [{"src": "x", "dst": "z", "delay": 1}, {"src": "y", "dst": "z", "delay": 1}]})";
  Graph large = Graph::parse(two);
  CHECK(tj::schedule(large).candidate() == "small");
  large.candidates.pop_back();
  const tj::Error error = error_of([&] { tj::schedule(large); });
  CHECK(error.stage == tj::Stage::schedule);
  CHECK(error.code == tj::Code::unsupported);
}

TEST_CASE("a graph's options are those of its schedule where the call says nothing else") {
  Graph graph{.name = "two", .machine = {.name = "hopper"}};
  graph.instructions = {{.name = "a.0", .fu = "TC", .copy = 0}, {.name = "a.1", .fu = "TC", .copy = 1}};
  CHECK(tj::schedule(graph).roles().size() == 1);
  graph.options.copies_apart = true;
  CHECK(tj::schedule(graph).roles().size() == 2);
  CHECK(tj::schedule(Graph::parse(graph.json())).roles().size() == 2);
  CHECK(tj::schedule(graph, {}).roles().size() == 1);
  graph.options.min_ii = 7;
  CHECK(tj::schedule(graph).ii() == 7);
  CHECK(tj::schedule(graph, tj::ScheduleOptions::parse(R"({"min_ii": 9})", graph.options)).roles().size() == 2);
  refuses_text(R"({"machine": "hopper", "options": {"min_ii": -1}, "instructions": [{"name": "a", "cycles": 1}]})",
               "options.min_ii is -1; it must be a whole number");
  refuses_text(R"({"machine": "hopper", "options": {"roles": 1}, "instructions": [{"name": "a", "cycles": 1}]})",
               "options has the key 'roles'; allowed are max_stages, min_ii");
}

TEST_CASE("mistakes beside a graph are named by place, value and what is allowed") {
  refuses_text(product("", "x / 2"),
               "instructions[1].cycles is 'x / 2': there is no 'x'; machine 'sm_90a' with the graph's parameters has");
  refuses_text(product("", "1e9"), "instructions[1].cycles is '1e9'");
  refuses_text(product("", "99999999999"), "instructions[1].cycles is 99999999999; it must be a whole number");
  refuses_text(product("", "100000000 * 100000000"),
               "instructions[1].cycles is '100000000 * 100000000', which is 1e+16");
  refuses_text(changed(product(), "\"sm_100a\"", "\"sm_90a\""),
               "targets[0] is 'sm_90a', which stands before it, or is the machine");
  refuses_text(changed(product(), "\"sm_100a\"", "\"sm_1\""), "targets[0] is 'sm_1'; allowed are hopper");
  refuses_text(changed(product(), "\"sm_100a\"", "\"sm_80\""),
               "there is no 'copy_cycles_per_kb'; machine 'sm_80' with the graph's parameters has");
  refuses_text(changed(product(), "\"block_k\": 64", "\"2k\": 64"), "parameters.2k is no name");
  refuses_text(changed(product(), "\"block_k\": 64", "\"sm_count\": 64"),
               "parameters.sm_count has the name of a fact of machine 'sm_90a'");
  refuses_text(changed(product(), "\"block_k\": 64", "\"block_k\": true"),
               "parameters.block_k is true; allowed are a number and an expression");
  refuses_text(changed(product(), "{\"block_n\": 64}", "{\"block_x\": 64}"),
               "candidates[0].parameters.block_x is no entry of parameters");
  refuses_text(changed(product(), "\"narrow\"", "\"wide\""),
               "candidates[1].name is 'wide', as of a candidate before it");
  refuses_text(changed(product(), "\"narrow\"", "\"a b\""), "candidates[0].name is 'a b'; allowed are 1 to 64 letters");
  refuses_text(changed(product(), "{\"block_n\": 64}", "{\"block_n\": \"b\"}"),
               "candidates 'narrow', parameters.block_n is 'b': there is no 'b'");
  refuses_text(changed(product(), "4096 / block_k", "0"), "typical_iterations is 0; allowed are 1 and more");
  refuses_text(changed(product(), "PARTS=4", "PARTS="), "code.definitions[1] is 'PARTS='; allowed are names");
  refuses_text(changed(product(), "PARTS=4", "WIDE=2"),
               "code.definitions[1] is 'WIDE=2', and 'WIDE' before it has its name; keep one");
  refuses_text(product("", "-0.5"), "instructions[1].cycles is '-0.5', which is -0.5; allowed are 0 and more");
  refuses_text(changed(product(), "\"sm_100a\"", "\"sm_90+smem=101376\""),
               "targets[1] is 'sm_90+smem=99K', which stands before it, or is the machine");
  refuses_text(changed(product(), "\"machine\": \"sm_90a\", ", ""), "machine is missing; give it");
  refuses_text(changed(product(), "\"machine\": \"sm_90a\"", "\"machine\": 3"),
               "machine is 3; allowed are a name, such as \"hopper\", or an object");
  refuses_text(changed(product(), "WIDE", "-DX"), "code.definitions[0] is '-DX'");
  refuses_text(changed(product(), "=block_n\"", "=block\""), "code.config.kBlockN is 'block': there is no 'block'");
  refuses_text(
      R"({"machine": {"functional_units": {"A": 1}}, "targets": ["sm_80"], "instructions": [{"name": "a", "cycles": 1}]})",
      "targets are given, and the machine has no name");
  refuses_text(R"({"machine": {"functional_units": {"A": 1}}, "instructions": [{"name": "a", "cycles": "sm_count"}]})",
               "the machine, an object, has no facts and no parameters");
  Graph graph{.name = "g", .machine = {.name = "hopper"}};
  graph.instructions = {{.name = "a", .fu = "TC", .expressions = {{"name", "2"}}}};
  CHECK(has(error_of([&] { graph.check(); }).message, "instructions[0].expressions has 'name', which is no number of"));
}

TEST_CASE("a kernel has the candidates of its graph on the target, with their options and definitions") {
  tj::test::SampleKernel sample;
  sample.edit_graph("\"machine\": \"sm_90a\"",
                    R"("machine": "sm_90a", "targets": ["sm_90a+smem=200K"], "parameters": {"slots": 4},
    "candidates": [{"name": "few", "parameters": {"slots": 1}}, {"name": "more", "parameters": {"slots": 3}}],
    "options": {"max_stages": 3, "copies_apart": true, "node_budget": 9000}, "typical_iterations": 32)");
  sample.edit_graph("\"config\": {", "\"definitions\": [\"WIDE\"], \"config\": {\"kSlots\": \"=slots\", ");
  const auto made = tj::read_custom(sample.description);
  for (const char* target : {"sm_90a", "sm_90a+smem=200K"}) {
    const auto candidates = made->candidates(made->request(), tj::arch::parse_arch(target));
    REQUIRE(candidates.size() == 2);
    CHECK(candidates[0].graph.name == "gemm_gelu_few");
    CHECK(candidates[1].graph.name == "gemm_gelu_more");
    CHECK(candidates[0].graph.machine.name == target);
    CHECK(candidates[1].graph.config.front() ==
          std::pair<std::string, std::string>("static constexpr int kSlots", "3"));
    CHECK(candidates[0].max_stages == 3);
    CHECK(candidates[0].copies_apart);
    CHECK(candidates[0].node_budget == 9000);
    CHECK_FALSE(candidates[0].one_role);
    CHECK(candidates[0].typical_iterations == 32);
    CHECK(candidates[0].definitions == std::vector<std::string>{"WIDE"});
  }
  tj::custom::Description own = sample.description;
  own.max_stages = 2;
  const auto other = tj::read_custom(own);
  CHECK(other->candidates(other->request(), *tj::arch::find("sm_90a"))[0].max_stages == 2);
  const auto refused = [&](const char* option, const char* part) {
    tj::test::SampleKernel wrong;
    wrong.edit_graph("\"machine\": \"sm_90a\"", std::string("\"machine\": \"sm_90a\", \"options\": ") + option);
    const tj::Error error = error_of([&] { tj::read_custom(wrong.description); });
    CHECK(error.code == tj::Code::invalid_argument);
    CHECK_MESSAGE(has(error.message, part), error.message);
  };
  refused("{\"min_ii\": 5}", "options.min_ii is 5; allowed for a kernel: 0");
  refused("{\"joint\": false}", "options.joint is false; allowed for a kernel: true");
  refused("{\"max_roles\": 3}", "options.max_roles is 3 and mixed_roles is false; allowed for a kernel: 0 and false");
}

TEST_CASE("damaged documents are refused by a tj::Error, or survive being written and parsed") {
  constexpr int kRounds = 300;
  const std::string letters = "\"{}[]:,0129.+-*/()=abn_ ";
  int read = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::mt19937_64 random(static_cast<std::uint64_t>(round));
    std::string text = product();
    for (std::size_t edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 4);
      else
        text[at] = letters[random() % letters.size()];
    }
    CAPTURE(text);
    try {
      const Graph graph = Graph::parse(text);
      CHECK(Graph::parse(graph.json()) == graph);
      ++read;
    } catch (const tj::Error& e) {
      CHECK(e.stage == tj::Stage::graph);
    }
  }
  CHECK(read > 3);
}
