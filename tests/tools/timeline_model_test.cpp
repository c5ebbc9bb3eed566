// Protects that a recording kernel on the CPU model writes its schedule: each role's nodes in order and complete,
// dependent nodes one after the other. Trace and picture of it can be read. The model's steps are no cycles: lengths
// decide nothing here.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sched/svg_check.hpp"
#include "support/scratch.hpp"
#include "tools/bench.hpp"
#include "tools/options.hpp"
#include "tools/timeline.hpp"

namespace {

using namespace tj;
using tools::BlockSpans;
using tools::Span;

tools::MeasuredTimeline measure(const std::string& op, const std::string& target, ops::Flags flags) {
  tools::TimelineProblem problem;
  problem.op = op;
  problem.target = target;
  problem.flags = std::move(flags);
  return tools::measure_timeline(tools::run_recorded(problem, support::Log(LogLevel::off, {})));
}

const Span* find(const BlockSpans& block, const sched::Schedule& schedule, std::size_t tile, int node, int iteration) {
  for (const tools::RoleSpans& role : block.roles) {
    if (role.role != schedule.role[static_cast<std::size_t>(node)] || tile >= role.tiles.size()) continue;
    for (const Span& span : role.tiles[tile].spans)
      if (span.wait.empty() && span.node == node && span.iteration == iteration) return &span;
  }
  return nullptr;
}

/// Pairs of instances that an edge ties. The instance that needs the other's result begins no earlier than the result
/// is there, as far as roles see it.
std::size_t check_edges(const tools::MeasuredTimeline& measured) {
  const graph::Graph& graph = measured.graph();
  std::size_t pairs = 0;
  for (const BlockSpans& block : measured.blocks)
    for (std::size_t tile = 0; tile < block.roles.front().tiles.size(); ++tile)
      for (const graph::Edge& edge : graph.edges) {
        const auto loops = [&](int node) {
          return graph.nodes[static_cast<std::size_t>(node)].scope == graph::Scope::iteration;
        };
        if (!loops(edge.src) || !loops(edge.dst) || edge.delay < 0) continue;
        for (int i = 0; i + edge.distance < block.roles.front().tiles[tile].iterations; ++i) {
          const Span *from = find(block, measured.schedule(), tile, edge.src, i),
                     *to = find(block, measured.schedule(), tile, edge.dst, i + edge.distance);
          if (from == nullptr || to == nullptr) continue;
          ++pairs;
          const bool seen = edge.blocking && from->done >= 0 &&
                            measured.schedule().role[static_cast<std::size_t>(edge.src)] ==
                                measured.schedule().role[static_cast<std::size_t>(edge.dst)];
          CAPTURE(graph.nodes[static_cast<std::size_t>(edge.src)].name);
          CAPTURE(graph.nodes[static_cast<std::size_t>(edge.dst)].name);
          CAPTURE(i);
          CHECK(to->begin >= (seen ? from->done : from->end));
        }
      }
  return pairs;
}

void check_whole(const tools::MeasuredTimeline& measured) {
  CHECK(!measured.blocks.empty());
  for (std::size_t b = 0; b < measured.blocks.size(); ++b)
    CHECK(measured.blocks[b].block == measured.run.first_block + b);
  for (const BlockSpans& block : measured.blocks) {
    CHECK(block.roles.size() == measured.schedule().roles.size());
    CHECK(tools::check_block(measured.graph(), measured.schedule(), block).empty());
    for (const tools::RoleSpans& role : block.roles) {
      CHECK(role.end >= 0);
      CHECK(role.tiles.size() == block.roles.front().tiles.size());
      std::int64_t before = role.begin;
      for (const tools::TileSpans& tile : role.tiles) {
        CHECK(tile.whole());
        for (const Span& span : tile.spans) {
          CHECK(span.begin >= before);
          CHECK(span.end >= span.begin);
          before = span.end;
        }
      }
    }
  }
  CHECK(check_edges(measured) > 0);
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("attention with turns, two sub-tiles: order, dependences, products seen complete") {
  const tools::MeasuredTimeline measured = measure(
      "fmha", "model:sm_90a",
      {{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"causal", {"true"}}, {"seq-q", {"256"}}, {"seq-k", {"1400"}}});
  check_whole(measured);
  for (const tools::RoleRow& row : measured.comparison.roles) {
    if (row.nodes.empty()) {  // o's way to memory: no part of the loop
      CHECK(!row.once.empty());
      continue;
    }
    CHECK(row.interval.has_value());
    for (const tools::NodeRow& node : row.nodes) {
      CHECK(node.measured_issue.has_value());
      CHECK(node.measured_offset.has_value());
      CHECK(node.measured_done.has_value() ==
            (measured.graph().nodes[static_cast<std::size_t>(node.node)].async == graph::Async::matrix));
    }
    CHECK(row.waiting + row.issuing <= 1.0);
    CHECK(!row.waits.empty());
  }
  CHECK(!measured.comparison.tiles.empty());
}

TEST_CASE("products: rings of their own for each consumer, stores by a role of its own, several tiles a block") {
  check_whole(measure("gemm", "model:sm_90a",
                      {{"dtype", {"f16"}}, {"tile", {"128x128x64"}}, {"m", {"512"}}, {"n", {"512"}}, {"k", {"320"}}}));
}

TEST_CASE("products in tensor memory, and a block that has no barriers in shared memory") {
  check_whole(measure("gemm", "model:sm_100a", {{"dtype", {"f16"}}, {"m", {"256"}}, {"n", {"256"}}, {"k", {"512"}}}));
  check_whole(measure("gemm", "model:gfx90a", {{"dtype", {"f16"}}, {"m", {"128"}}, {"n", {"128"}}, {"k", {"512"}}}));
}

TEST_CASE("trace, picture and table: what is in them, and that they can be read") {
  testing::Scratch scratch;
  const std::string trace_path = scratch / "trace.json", svg_path = scratch / "picture.svg";
  std::ostringstream out, err;
  const int code =
      tools::bench({"--timeline", "--op", "gemm", "--target", "model:sm_90a", "--dtype", "f16", "--tile", "128x128x64",
                    "--m", "256", "--n", "256", "--k", "512", "--trace", trace_path, "--svg", svg_path},
                   out, err);
  CHECK_MESSAGE(code == tools::kExitOk, err.str());
  for (const char* part : {"steps of the CPU model", "load0 (1 warp): interval 512 predicted", "mma.0",
                           "waits for a full", "tiles of 8 iterations", "bars:"})
    CHECK_MESSAGE(out.str().find(part) != std::string::npos, std::string(part), " is not in: ", out.str());

  const auto trace = nlohmann::json::parse(read(trace_path));
  CHECK(trace.at("otherData").at("unit").get<std::string>().find("steps are not cycles") != std::string::npos);
  CHECK(!trace.at("otherData").at("bars").get<std::string>().empty());
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> threads;
  std::map<int, std::string> processes;
  std::map<int, int> products;
  for (const auto& event : trace.at("traceEvents")) {
    const int process = event.at("pid");
    if (event.at("ph") == "M" && event.at("name") == "process_name") processes[process] = event.at("args").at("name");
    if (event.at("ph") != "X") continue;
    const std::int64_t begin = event.at("ts"), length = event.at("dur");
    CHECK(begin >= 0);
    CHECK(length >= 0);
    if (length > 0) threads[{process, event.at("tid")}].emplace_back(begin, begin + length);
    products[process] += event.at("name") == "mma.0" && event.at("cat") == "node" ? 1 : 0;
  }
  CHECK(processes.size() == 8);  // of four blocks
  CHECK(processes.at(1) == "predicted, block 0: cycles");
  CHECK(processes.at(2) == "measured, block 0: steps");
  CHECK(products.at(1) == products.at(2));
  CHECK(products.at(1) > 0);
  for (auto& [thread, events] : threads) {
    std::sort(events.begin(), events.end());
    for (std::size_t e = 1; e < events.size(); ++e) CHECK(events[e].first >= events[e - 1].second);
  }

  const std::string svg = read(svg_path);
  CHECK(test::SvgReader(svg).read().size() > 50);
  for (const char* part : {"measured, steps", "predicted", "which are no cycles", "waits for"})
    CHECK_MESSAGE(svg.find(part) != std::string::npos, std::string(part));
}

TEST_CASE("places that are full, blocks that there are none of, files that cannot be written: each is said") {
  const std::vector<std::string> small = {"--op",   "copy_rows", "--target",  "model:sm_90a",
                                          "--rows", "8",         "--columns", "2048"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), small.begin(), small.end());
    std::ostringstream out, err;
    const int code = tools::timeline(more, out, err);
    return std::pair(code, err.str());
  };
  testing::Scratch scratch;
  const auto far = run({"--first-block", "100000"});
  CHECK(far.first == tools::kExitBadUse);
  CHECK_MESSAGE(far.second.find("--first-block is 100000") != std::string::npos, far.second);
  const auto nowhere = run({"--trace", scratch / "none" + "/trace.json"});
  CHECK(nowhere.first == tools::kExitBadUse);
  CHECK_MESSAGE(nowhere.second.find("--trace: cannot write") != std::string::npos, nowhere.second);
  std::ostringstream out, err;
  CHECK(tools::timeline({"--op", "gemm", "--target", "model:sm_90a", "--dtype", "f16", "--tile", "128x128x64", "--m",
                         "128", "--n", "128", "--k", "2048", "--records", "64", "--svg", scratch / "x.svg"},
                        out, err) == tools::kExitBadUse);
  CHECK_MESSAGE(err.str().find("--records is 64") != std::string::npos, err.str());
}
