// Protects tj-bench --measure-bodies: a row for each node of a user's kernel, no cycles without a GPU, and which member
// of the graph a measured time is written into.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <tilejit/graph.hpp>

#include "graph/json_reader.hpp"
#include "ops/common/machine.hpp"
#include "support/expect.hpp"
#include "support/log.hpp"
#include "support/scratch.hpp"
#include "tools/graph_files.hpp"
#include "tools/measure_bodies.hpp"
#include "tools/options.hpp"
#include "tools/timeline_run.hpp"
#include "tools/tried_product.hpp"

namespace {

using tj::Graph;
using tj::test::TriedProduct;
using tj::testing::has;

struct Measured {
  int code = 0;
  std::string out, err;
};

Measured run_bodies(const std::vector<std::string>& words) {
  std::ostringstream out, err;
  Measured done;
  done.code = tj::tools::measure_bodies(words, out, err);
  done.out = out.str();
  done.err = err.str();
  return done;
}

const char* const kDocument = R"({"name": "p", "machine": "sm_90a", "instructions": [
  {"name": "load", "cycles": 10, "fu": "TMA", "latency": 500, "issue_cycles": 2, "variable_latency": true},
  {"name": "mma", "cycles": 64, "fu": "TC", "latency": "60 + 30", "async": "matrix", "issue_cycles": 8, "warp_cycles": 8},
  {"name": "scale", "cycles": 16, "fu": "ALU", "latency": 30, "warp_cycles": 20},
  {"name": "end", "cycles": 100, "scope": "tile_end"}],
  "edges": [{"src": "load", "dst": "mma", "delay": 500}, {"src": "mma", "dst": "scale", "delay": 90, "blocking": true},
            {"src": "scale", "dst": "scale", "delay": 30, "delta": 1}, {"src": "scale", "dst": "mma", "delay": 16, "delta": 2}]})";

}  // namespace

TEST_CASE("a user's kernel on the model has a row for each node, and its steps are no costs") {
  const TriedProduct product("0", false);
  const Measured done = run_bodies({"--graph", product.path(), "--target", "model:sm_80", "--launches", "1"});
  CHECK_MESSAGE(done.code == tj::tools::kExitOk, done.err);
  CHECK_MESSAGE(has(done.out, "product for model:sm_80"), done.out);
  CHECK_MESSAGE(has(done.out, "steps of the CPU model"), done.out);
  for (const char* node : {"\nload ", "\nbegin.0 ", "\nmma.0 ", "\nstore.0 "})
    CHECK_MESSAGE(has(done.out, node), done.out);
  const Measured kept =
      run_bodies({"--graph", product.path(), "--target", "model:sm_80", "--write", "/nowhere/x.json"});
  CHECK(kept.code != tj::tools::kExitOk);
  CHECK_MESSAGE(has(kept.err, "--write keeps cycles of a GPU, and this ran on 'model:sm_80'"), kept.err);
  const TriedProduct forms("0");
  const Measured one = run_bodies({"--graph", forms.path(), "--target", "model:sm_80", "--candidate", "three"});
  CHECK_MESSAGE(has(one.out, "product_three for model:sm_80"), one.out);
}

TEST_CASE("a graph is read once, so that it may come through a pipe") {
  const TriedProduct product("0", false);
  const std::string document = tj::testing::read_bytes(product.path());
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  REQUIRE(::write(ends[1], document.data(), document.size()) == static_cast<ssize_t>(document.size()));
  ::close(ends[1]);
  const Measured done =
      run_bodies({"--graph", "/dev/fd/" + std::to_string(ends[0]), "--folder",
                  product.path().substr(0, product.path().rfind('/')), "--target", "model:sm_80", "--launches", "1"});
  ::close(ends[0]);
  CHECK_MESSAGE(done.code == tj::tools::kExitOk, done.err);
  CHECK_MESSAGE(has(done.out, "\nmma.0 "), done.out);
}

TEST_CASE("mistakes of --measure-bodies are named") {
  CHECK(has(run_bodies({}).err, "give one of --op and --graph"));
  CHECK(has(run_bodies({"--op", "gemm", "--write", "x"}).err, "--graph"));
  CHECK(has(run_bodies({"--op", "gem"}).err, "allowed: fmha, gemm"));
  CHECK(run_bodies({}).code == tj::tools::kExitBadUse);
  if (std::getenv("TJ_TARGET") != nullptr) return;
  // Without a word of the target a GPU is meant: one that is not there, or another than the graph is for.
  const Measured none = run_bodies({"--graph", TriedProduct("0", false).path()});
  CHECK(none.code != tj::tools::kExitOk);
  CHECK_MESSAGE((has(none.err, "measured on a GPU, and there is none here") || has(none.err, "is for")), none.err);
}

TEST_CASE("measured times are written into the members that the graph gives, and delays follow latencies") {
  const tj::graph::Graph graph = tj::ops::read_graph(Graph::parse(kDocument).resolved().json(), "p");
  const std::vector<tj::tools::MeasuredBody> bodies = {{0, 5, {}}, {1, 9, 111}, {2, 44, {}}, {3, 130, {}}};
  const auto costs = tj::tools::costs_of(graph, bodies, kDocument);
  const Graph measured = Graph::parse(tj::tools::with_costs(kDocument, "", "p", costs));
  CHECK(measured.instructions[0].issue_cycles == 5);
  CHECK(measured.instructions[0].latency == 500);  // a copy's end is not seen
  CHECK(measured.instructions[1].latency == 111);
  CHECK(measured.instructions[1].expressions.empty());
  CHECK(measured.instructions[1].issue_cycles == 9);
  CHECK(measured.instructions[1].warp_cycles == 9);
  CHECK(measured.instructions[1].cycles == 64);
  CHECK(measured.instructions[2].latency == 44);
  CHECK(measured.instructions[2].warp_cycles == 44);
  CHECK(measured.instructions[2].cycles == 16);
  CHECK(measured.instructions[3].cycles == 130);
  CHECK(measured.edges[0].delay == 500);
  CHECK(measured.edges[1].delay == 111);
  CHECK(measured.edges[2].delay == 44);
  CHECK(measured.edges[3].delay == 16);  // no latency: as it was
}

TEST_CASE("of a graph with candidates and targets the form that ran is written") {
  const std::string document = std::string(kDocument).insert(
      1,
      R"("targets": ["sm_100a"], "parameters": {"late": 7}, "candidates": [{"name": "slow", "parameters": {"late": 70}}], )");
  std::string late = document;
  late.replace(late.find("\"60 + 30\""), 9, "\"late\"");
  const Graph form = Graph::parse(late).resolved("sm_100a", "slow");
  CHECK(form.instructions[1].latency == 70);
  const tj::graph::Graph graph = tj::ops::read_graph(form.json(), "p");
  const auto costs = tj::tools::costs_of(graph, {{0, {}, {}}, {1, 9, 111}, {2, {}, {}}, {3, 130, {}}}, late);
  const Graph measured = Graph::parse(tj::tools::with_costs(late, form.json(), "p", costs));
  CHECK((measured.candidates.empty() && measured.targets.empty() && measured.parameters.empty()));
  CHECK(measured.json().find("\"sm_100a\"") != std::string::npos);
  CHECK(measured.instructions[1].latency == 111);
  CHECK(measured.instructions[1].expressions.empty());
  CHECK(measured.instructions[2].latency == 30);
  CHECK(measured.instructions[3].cycles == 130);
}

TEST_CASE("the run of a user's graph says its form") {
  const TriedProduct product("0");
  std::ostringstream err;
  const auto op = tj::tools::read_graph_op("tj-bench", {product.path(), ""}, err);
  for (const char* name : {"two", "three"}) {
    tj::tools::TimelineProblem problem;
    problem.target = "model:sm_80";
    problem.flags["candidate"] = {name};
    problem.graph = op.get();
    const tj::tools::RecordedRun run = tj::tools::run_recorded(problem, tj::support::Log(tj::LogLevel::off, {}));
    CHECK(run.candidate == name);
    const Graph form = Graph::parse(run.form), wanted = Graph::parse(tj::testing::read_bytes(product.path()));
    CHECK(form.json() == wanted.resolved("sm_80", name).json());
  }
}
