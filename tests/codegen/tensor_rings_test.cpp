// Protects rings in tensor memory that several products add to, that are read an iteration later, and whose columns
// others may have. Also slots that the matrix unit hands back after the loop. On attention's graphs, which have all of
// it.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "codegen/layout.hpp"
#include "codegen/timeline.hpp"
#include "ops/fmha/fmha.hpp"
#include "pipeline.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

using namespace tj;
using codegen::Event;
using codegen::EventKind;
using testing::has;

namespace {

const arch::Arch& blackwell() { return *arch::find("sm_100a"); }

Choice attention(int head_dim, bool causal) {
  return choose(ops::fmha_op(), ops::fmha_request(FmhaConfig{DType::f16, head_dim, causal, false}), blackwell());
}

int role_named(const sched::Schedule& schedule, const std::string& name) {
  for (std::size_t r = 0; r < schedule.roles.size(); ++r)
    if (schedule.roles[r].name == name) return static_cast<int>(r);
  return -1;
}

int ring_of(const Choice& choice, const std::string& value) {
  for (std::size_t r = 0; r < choice.schedule.rings.size(); ++r)
    if (choice.candidate.graph.values[static_cast<std::size_t>(choice.schedule.rings[r].value)].name == value)
      return static_cast<int>(r);
  return -1;
}

std::string text_of(const Choice& choice) {
  return codegen::emit(choice.candidate.graph, choice.schedule, blackwell().primitives).text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool waits_in_tensor(const std::string& line) {
  const bool waits = has(line, "dev::wait_full<") || has(line, "dev::wait_empty<");
  return waits && (has(line, "RingScores") || has(line, "RingOutput") || has(line, "RingWeights"));
}

}  // namespace

TEST_CASE("several products add to a value: the first asks for the slot, the last hands it on") {
  const Choice choice = attention(128, true);
  const graph::Graph& graph = choice.candidate.graph;
  const int ring = ring_of(choice, "output.0"), trips = 3;
  const codegen::Timeline timeline =
      codegen::simulate(graph, choice.schedule, role_named(choice.schedule, "mma"), trips);
  std::vector<Event> events;
  for (const auto& step : timeline.steps) events.insert(events.end(), step.begin(), step.end());
  for (int iteration = 0; iteration < trips; ++iteration) {
    CAPTURE(iteration);
    std::vector<std::string> order;
    for (const Event& event : events) {
      if (event.iteration != iteration) continue;
      if (event.kind == EventKind::wait_empty && event.ring == ring) order.push_back("asks");
      if (event.kind == EventKind::unit_publish && event.ring == ring) order.push_back("hands on");
      if (event.kind == EventKind::call && event.node >= 0 &&
          graph.nodes[static_cast<std::size_t>(event.node)].name.ends_with(".0")) {
        const std::string& body = graph.nodes[static_cast<std::size_t>(event.node)].body;
        if (body.starts_with("pv_")) order.push_back(body);
      }
    }
    CHECK(order == std::vector<std::string>{"asks", "pv_0", "pv_1", "pv_2", "pv_3", "hands on"});
  }
}

TEST_CASE("fillers of one value in two roles are refused") {
  Choice choice = attention(128, true);
  graph::Graph& graph = choice.candidate.graph;
  graph::Edge second = graph.edges[0];
  for (const graph::Edge& edge : graph.edges)
    if (edge.value >= 0 && graph.values[static_cast<std::size_t>(edge.value)].name == "factors.0") second = edge;
  second.src = graph.node_index("correct.1");
  graph.edges.push_back(second);
  CHECK(has(testing::error_of([&] { codegen::make_layout(graph, choice.schedule); }).message,
            "is filled by 2 nodes; exactly one is allowed, or several of the matrix unit"));
}

TEST_CASE("an order between roles without a value: kept by a ring that is filled again, else refused") {
  const Choice choice = attention(128, true);
  CHECK_FALSE(
      text_of(choice)
          .empty());  // it has two such: scores are filled again when they are read, output when it is corrected
  Choice more = choice;
  more.candidate.graph.edges.push_back({more.candidate.graph.node_index("weights_0.0"),
                                        more.candidate.graph.node_index("qk.1"), 0, 1, false, -1, 0, false});
  CHECK(
      has(testing::error_of([&] { text_of(more); }).message, "'weights_0.0' -> 'qk.1' crosses roles without a value"));
}

TEST_CASE("blocks of many tiles wait for what the unit hands back after the loop, before they end") {
  CHECK(has(text_of(attention(128, false)), "dev::wait_drained<"));
  CHECK_FALSE(has(text_of(attention(128, true)), "dev::wait_drained<"));  // one tile: nobody asks for the slot again
}

TEST_CASE("behind the last of several waits for tensor memory that are written there is a fence") {
  for (const int head_dim : {64, 128})
    for (const bool causal : {false, true}) {
      const std::vector<std::string> lines = lines_of(text_of(attention(head_dim, causal)));
      for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
        if (!waits_in_tensor(lines[i])) continue;
        INFO(lines[i]);
        // Under one condition twice, the second wait's fence is for both.
        const std::size_t next = has(lines[i + 2], "if (n > 0)") ? i + 3 : i + 1;
        CHECK((waits_in_tensor(lines[next]) || has(lines[next], "dev::tensor_after_sync<")));
      }
    }
}

TEST_CASE("columns are not shared with what is still read an iteration later") {
  Choice choice = attention(128, true);
  graph::Graph& graph = choice.candidate.graph;
  // Without the reader at the tile's end, which by itself keeps others off.
  std::erase_if(graph.edges, [&](const graph::Edge& edge) {
    return graph.nodes[static_cast<std::size_t>(edge.dst)].body == "store" &&
           edge.value == choice.schedule.rings[static_cast<std::size_t>(ring_of(choice, "output.0"))].value;
  });
  const codegen::Layout layout = codegen::make_layout(graph, choice.schedule);
  const int output = layout.rings[static_cast<std::size_t>(ring_of(choice, "output.0"))].column;
  for (const char* scores : {"scores.0", "scores.1"})
    CHECK(layout.rings[static_cast<std::size_t>(ring_of(choice, scores))].column != output);
}

TEST_CASE("what the unit calls its columns is no name for a context") {
  Choice choice = attention(64, true);
  for (graph::Node& node : choice.candidate.graph.nodes)
    if (node.context == "Softmax") node.context = "Tensor";
  const std::string message = testing::error_of([&] { text_of(choice); }).message;
  CHECK_MESSAGE(
      has(message, "context 'Tensor' of node 'begin.0' would be a variable 'tensor', a name that the unit uses"),
      message);
}
