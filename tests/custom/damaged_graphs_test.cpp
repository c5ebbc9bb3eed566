// Protects scheduler, pictures and emitter against whatever a legal document of a user may ask for: seeded changes to
// graphs with code, always the same. Each is made, and then its schedule is right, or refused by a tj::Error that
// blames the graph.
#include <doctest/doctest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include <tilejit/error.hpp>
#include <tilejit/graph.hpp>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "graph/json_reader.hpp"
#include "ops/common/machine.hpp"
#include "sched/picture/svg.hpp"
#include "sched/picture/trace.hpp"
#include "sched/schedule.hpp"
#include "support/full.hpp"
#include "support/scratch.hpp"

namespace {

using namespace tj;
using Json = nlohmann::ordered_json;

const int kRounds = testing::share(500);

class Damage {
 public:
  explicit Damage(int seed) : random_(static_cast<std::uint64_t>(seed)) {}

  void apply(Json& document) {
    Json& nodes = document["instructions"];
    Json& edges = document["edges"];
    if (below(2) == 0)
      node(nodes[below(nodes.size())]);
    else if (below(4) == 0)
      value(document["values"][below(document["values"].size())]);
    else
      edge(edges, nodes, document["values"]);
  }
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

 private:
  int number(int bound) { return static_cast<int>(below(static_cast<std::size_t>(bound))); }

  void node(Json& json) {
    switch (below(9)) {
      case 0:
        json["scope"] = std::vector<const char*>{"tile_begin", "iteration", "tile_end"}[below(3)];
        break;
      case 1:
        json["async"] = std::vector<const char*>{"none", "copy", "matrix", "store"}[below(4)];
        break;
      case 2:
        json["warps"] = std::vector<int>{1, 2, 3, 5, 8, 32}[below(6)];
        break;
      case 3:
        json["copy"] = number(3);
        break;
      case 4:
        json["variable_latency"] = below(2) == 0;
        break;
      case 5:
        json["warp_cycles"] = number(2000);
        break;
      case 6:
        json["registers"] = number(300);
        break;
      case 7:
        if (below(2) == 0)
          json["merges"] = true;
        else
          json["variant"] = "Fast", json["variant_begin"] = "fast_begin";
        break;
      default:
        json["latency"] = number(3000);
    }
  }
  void value(Json& json) {
    json["min_slots"] = 1 + number(4);
    json["max_slots"] = json["min_slots"].get<int>() + number(3);
    json["slot_bytes"] = 1024 * number(100);
  }
  void edge(Json& edges, const Json& nodes, const Json& values) {
    Json& json = edges[below(edges.size())];
    const auto name = [&] { return nodes[below(nodes.size())]["name"]; };
    switch (below(9)) {
      case 0:
        json["delta"] = number(4);
        break;
      case 1:
        json["delay"] = number(2000) - 300;
        break;
      case 2:
        json["blocking"] = below(2) == 0;
        break;
      case 3:
        json["same_role"] = below(2) == 0;
        break;
      case 4:
        json["src"] = name();
        break;
      case 5:
        json["dst"] = name();
        break;
      case 6:
        json.erase("value");
        break;
      case 7:
        json["value"] = values[below(values.size())]["name"];
        break;
      default:
        edges.push_back(Json(json)), edges.back()["dst"] = name();
    }
  }

  std::mt19937_64 random_;
};

/// The sample's graph, without what stands beside one.
Json product_alone() {
  Json document = Json::parse(testing::read_bytes(TJ_REPO_DIR "/samples/05_custom_gemm/gemm_gelu.json"));
  document.erase("trials");
  return document;
}

}  // namespace

TEST_CASE("damaged graphs are the same in code as in text, or refused in the same words") {
  const Json documents[] = {Json::parse(testing::read_bytes(TJ_REPO_DIR "/tests/graph/data/clustered.json")),
                            product_alone()};
  int read = 0;
  for (int round = 0; round < kRounds; ++round) {
    Damage damage(round);
    Json document = documents[damage.below(2)];
    for (std::size_t edit = 1 + damage.below(3); edit > 0; --edit) damage.apply(document);
    const std::string text = document.dump();
    CAPTURE(text);
    std::string written, refused;
    try {
      written = ops::write_graph(ops::read_graph(text, "damaged"));
    } catch (const Error& e) {
      refused = e.message;
    }
    if (written.empty()) {
      CHECK_THROWS_WITH(Graph::parse(text, "damaged"), doctest::Contains(refused.c_str()));
      continue;
    }
    CHECK(Graph::parse(text, "damaged").json() == written);
    ++read;
  }
  CHECK(read > kRounds / 10);
}

TEST_CASE("damaged graphs are scheduled and written, or refused") {
  const std::vector<graph::Machine> machines = {ops::machine_of(*arch::find("sm_90a"))};
  const Json documents[] = {Json::parse(testing::read_bytes(TJ_REPO_DIR "/tests/graph/data/coded.json")),
                            product_alone()};
  int made = 0;
  for (int round = 0; round < kRounds; ++round) {
    Damage damage(round);
    Json document = documents[damage.below(2)];
    for (std::size_t edit = 1 + damage.below(5); edit > 0; --edit) damage.apply(document);
    CAPTURE(document.dump());
    try {
      const graph::Graph graph = graph::read_json(document.dump(), "damaged", machines);
      sched::Options options;
      options.node_budget = 5000;
      options.order_barriers = damage.below(2) == 0;
      const sched::Schedule schedule = sched::schedule(graph, options);
      const std::vector<std::string> wrong = sched::verify(graph, schedule);
      CHECK_MESSAGE(wrong.empty(), (wrong.empty() ? "" : wrong.front()));
      sched::to_svg(graph, schedule);
      sched::to_trace(graph, schedule);
      const std::string text = codegen::emit(graph, schedule, "sm90").text;
      CHECK(text == codegen::emit(graph, schedule, "sm90").text);
      ++made;
    } catch (const Error& e) {
      CHECK_MESSAGE(e.code != Code::internal, e.what());
      CHECK((e.stage == Stage::graph || e.stage == Stage::schedule || e.stage == Stage::codegen));
    }
  }
  CHECK(made > kRounds / 10);
}
