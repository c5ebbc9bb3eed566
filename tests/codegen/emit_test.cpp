// Protects the kernel contract on the side of the text. The schedule decides it, the same schedule gives the same
// bytes, and a schedule that cannot be expressed is refused by name.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "ops/fmha/sm90.hpp"
#include "ops/gemm/gemm.hpp"
#include "sched/schedule.hpp"

using namespace tj;

namespace {

graph::Graph attention() {
  return ops::fmha_group_graph(FmhaConfig{DType::f16, 128, false, false}, {2, 128}, *arch::find("sm_90a"));
}

std::string text_of(const graph::Graph& graph, const sched::Schedule& schedule) {
  return codegen::emit(graph, schedule, "sm90").text;
}

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("the same graph and schedule give the same bytes, and sites are numbered from 1 without a gap") {
  const auto graph = attention();
  const auto schedule = sched::schedule(graph);
  const auto a = codegen::emit(graph, schedule, "sm90"), b = codegen::emit(graph, schedule, "sm90");
  CHECK(a.text == b.text);
  REQUIRE(!a.sites.empty());
  std::set<std::string> names;
  for (std::size_t i = 0; i < a.sites.size(); ++i) {
    CHECK(a.sites[i].id == static_cast<int>(i) + 1);
    CHECK(!a.sites[i].what.empty());
    CHECK(occurrences(a.text, "<" + std::to_string(i + 1) + ">(") +
              occurrences(a.text, "<" + std::to_string(i + 1) + ", ") >=
          1);
  }
}

TEST_CASE("one stage and two stages differ in prologue, order and waits") {
  const auto graph = attention();
  sched::Options one;
  one.max_stages = 1;
  const auto overlapped = sched::schedule(graph), plain = sched::schedule(graph, one);
  CHECK(overlapped.ii < plain.ii);
  const std::string a = text_of(graph, overlapped), b = text_of(graph, plain);
  CHECK(a != b);
  CHECK(a.find("stage 1") != std::string::npos);
  CHECK(b.find("stage 1") == std::string::npos);
  CHECK(a.find("epilogue") != std::string::npos);
}

TEST_CASE("blocks side by side are said to the compiler, and their share is what bounds a block") {
  auto graph = attention();
  const auto schedule = sched::schedule(graph);
  CHECK(occurrences(text_of(graph, schedule), "TJ_KERNEL(tj_kernel, 384, ") == 1);
  CHECK(codegen::emit(graph, schedule, "sm90").shape.blocks_per_sm == 1);
  const graph::Machine whole = graph.machine;
  graph.blocks_per_sm = 2;
  CHECK(codegen::emit(graph, schedule, "sm90").shape.blocks_per_sm == 2);
  CHECK(occurrences(text_of(graph, schedule), "TJ_KERNEL_BESIDE(tj_kernel, 384, 2, ") == 1);
  graph.machine = graph::share_of(whole, 2);
  CHECK_THROWS_WITH(text_of(graph, schedule), doctest::Contains("bytes of shared memory, sm_90a has 115712 a block"));
}

TEST_CASE("moving slots, an order barrier or a node's stage by hand changes the text") {
  const auto graph = attention();
  const auto schedule = sched::schedule(graph);
  const std::string before = text_of(graph, schedule);
  SUBCASE("slots") {
    auto moved = schedule;
    for (auto& ring : moved.rings)
      if (graph.values[static_cast<std::size_t>(ring.value)].scope == graph::Scope::iteration) ring.slots = 2;
    CHECK(text_of(graph, moved) != before);
  }
  SUBCASE("turns") {
    auto moved = schedule;
    REQUIRE(!moved.order_barriers.empty());
    moved.order_barriers.clear();
    CHECK(text_of(graph, moved).find("named_sync") == std::string::npos);
  }
  SUBCASE("stage") {
    auto moved = schedule;
    const auto v = static_cast<std::size_t>(graph.node_index("load_v"));
    moved.cycle[v] = moved.cycle[v] % moved.ii + (moved.stage(static_cast<int>(v)) == 0 ? moved.ii : 0);
    CHECK(text_of(graph, moved) != before);
  }
}

TEST_CASE("steps that share one text stay one for the compiler: it may not peel the loop itself") {
  const ops::Candidate candidate = ops::gemm_candidate({}, *arch::find("sm_90a"));
  sched::Options options;
  options.order_barriers = candidate.turns;
  const std::string text = text_of(candidate.graph, sched::schedule(candidate.graph, options));
  CHECK(occurrences(text, "mma(consumer, ") == 1);
  const std::size_t loop = text.find("for (int s = 0; s < n; ++s)");
  REQUIRE(loop != std::string::npos);
  const std::size_t before = text.rfind('\n', text.rfind('\n', loop) - 1);
  CHECK(text.substr(before, loop - before).find("#pragma unroll 1") != std::string::npos);
  CHECK(occurrences(text, "#pragma unroll 1") == 2);  // and that of the role that only copies
}

TEST_CASE("a load that has a role of its own gets a warp of its own") {
  const auto graph = attention();
  auto schedule = sched::schedule(graph);
  const int v = graph.node_index("load_v");
  sched::Role second = schedule.roles[0];
  second.name = "load_v";
  second.nodes = {v};
  auto& first = schedule.roles[0].nodes;
  first.erase(std::find(first.begin(), first.end(), v));
  schedule.role[static_cast<std::size_t>(v)] = static_cast<int>(schedule.roles.size());
  // Behind the first: small roles share a register group, in order.
  for (auto& role : schedule.role)
    if (role > 0) role = role == static_cast<int>(schedule.roles.size()) ? 1 : role + 1;
  for (auto& barrier : schedule.order_barriers)
    for (auto& role : barrier.roles) ++role;
  schedule.roles.insert(schedule.roles.begin() + 1, second);
  const auto unit = codegen::emit(graph, schedule, "sm90");
  CHECK(unit.shape.threads == 384);
  CHECK(unit.text.find("if (warp == 0 && dev::elect_one())") != std::string::npos);
  CHECK(unit.text.find("if (warp == 1 && dev::elect_one())") != std::string::npos);
}

TEST_CASE("what the text cannot express is refused by name") {
  const auto graph = attention();
  const auto schedule = sched::schedule(graph);
  const auto message = [&](const graph::Graph& g, const sched::Schedule& s) {
    try {
      codegen::emit(g, s, "sm90");
    } catch (const Error& e) {
      CHECK(e.stage == Stage::codegen);
      return e.message;
    }
    return std::string("nothing");
  };
  SUBCASE("registers that would cross roles") {
    auto moved = schedule;
    const auto softmax = static_cast<std::size_t>(graph.node_index("softmax.0"));
    moved.role[softmax] = moved.role[static_cast<std::size_t>(graph.node_index("softmax.1"))];
    CHECK(message(graph, moved).find("share registers and must share a role") != std::string::npos);
  }
  SUBCASE("more shared memory than there is") {
    auto moved = schedule;
    for (auto& ring : moved.rings) ring.slots = 8;
    CHECK(message(graph, moved).find("bytes of shared memory") != std::string::npos);
  }
  SUBCASE("a ring without slots") {
    auto moved = schedule;
    moved.rings[1].slots = 0;
    CHECK(message(graph, moved).find("at least 1") != std::string::npos);
  }
}
