// Protects tj-bench --timeline: the table, each event of the trace and the picture of a recording that is written by
// hand. They stand in data/timeline.txt, so that no number, bar or row changes unseen. The schedule is written by hand
// too: other tests protect the scheduler's findings and a kernel's records.
#include <doctest/doctest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/pinned.hpp"
#include "tools/timeline.hpp"

namespace {

using namespace tj;
using graph::Async;
using graph::Scope;
using tools::Span;

constexpr int kLoad = 0, kBegin = 1, kProduct = 2, kUse = 3, kStore = 4;

graph::Graph made_graph() {
  graph::Graph graph;
  graph.name = "by_hand";
  graph.machine.name = "toy";
  graph.machine.units = {{"IN", 1}, {"TC", 1}, {"ALU", 1}};
  graph.values = {{"x", 1024, 1024, Scope::iteration, 1, 4}};
  graph.overhead_cycles = 55;
  const auto add = [&](const char* name, Scope scope, Async async, int unit, int cycles, int latency) {
    graph::Node node;
    node.name = node.body = name;
    node.scope = scope;
    node.async = async;
    node.cycles = cycles;
    node.latency = latency;
    node.warps = async == Async::copy ? 1 : 4;
    node.reservations = {{unit, 0, cycles, 1}};
    graph.nodes.push_back(node);
  };
  add("load", Scope::iteration, Async::copy, 0, 1, 40);
  add("begin", Scope::tile_begin, Async::none, 2, 5, 5);
  add("product", Scope::iteration, Async::matrix, 1, 4, 30);
  add("use", Scope::iteration, Async::none, 2, 10, 10);
  add("store", Scope::tile_end, Async::none, 2, 20, 20);
  graph.edges = {{kLoad, kProduct, 40, 0, false, 0}, {kProduct, kUse, 30, 0, true}};
  return graph;
}

sched::Schedule made_schedule() {
  sched::Schedule schedule;
  schedule.ii = 32;
  schedule.length = 82;
  schedule.cycle = {0, 0, 40, 72, 0};
  schedule.role = {0, 1, 1, 1, 1};
  schedule.roles = {{"load", 1, 24, 0, {kLoad}}, {"compute0", 4, 240, 8, {kProduct, kUse, kBegin, kStore}}};
  schedule.rings = {{0, 3, 0, {1}}};
  return schedule;
}

/// A role's spans one after the other: calls take what they are given, gaps grow and shrink from one to the next.
class RoleWriter {
 public:
  RoleWriter(int role, int processor, std::int64_t begin) : time_(begin) {
    spans_.role = role;
    spans_.processor = processor;
    spans_.begin = begin;
  }
  void open(int iterations) { spans_.tiles.push_back({iterations, time_ += 3, -1, {}}); }
  void close() { spans_.tiles.back().end = time_ += 7; }
  void call(int node, int iteration, std::int64_t cycles) { add({node, "", iteration, 0, 0, -1}, cycles); }
  void wait(const char* what, int node, int iteration, std::int64_t cycles) {
    add({node, what, iteration, 0, 0, -1}, cycles);
  }
  /// The role sees that its newest product is complete.
  void done() {
    for (auto span = spans_.tiles.back().spans.rbegin(); span != spans_.tiles.back().spans.rend(); ++span)
      if (span->node == kProduct && span->wait.empty()) {
        span->done = time_;
        return;
      }
  }
  void pause(std::int64_t cycles) { time_ += cycles; }
  tools::RoleSpans end() {
    add({-1, "x empty", -1, 0, 0, -1}, 9, true);
    spans_.end = time_;
    return std::move(spans_);
  }
  tools::RoleSpans cut() { return std::move(spans_); }

 private:
  void add(Span span, std::int64_t cycles, bool after = false) {
    time_ += ++calls_ * 7 % 5;
    span.begin = time_;
    span.end = time_ += cycles;
    (after ? spans_.after : spans_.tiles.back().spans).push_back(span);
  }
  tools::RoleSpans spans_;
  std::int64_t time_, calls_ = 0;
};

/// Tiles of so many iterations, of which the last may be cut off.
tools::BlockSpans made_block(unsigned number, const std::vector<int>& tiles, bool whole) {
  tools::BlockSpans block;
  block.block = number;
  RoleWriter load(0, 11 + static_cast<int>(number), 0), compute(1, 11 + static_cast<int>(number), 6);
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    load.open(tiles[t]);
    compute.open(tiles[t]);
    compute.call(kBegin, -1, 6);
    compute.pause(20 + 10 * static_cast<int>(t));
    for (int i = 0; i < tiles[t]; ++i) {
      load.wait("x empty", kLoad, i, 2 + 13 * (i % 3));
      load.call(kLoad, i, 2);
      load.pause(14);
      compute.wait("x full", kProduct, i, i == 0 ? 31 : 4 + i % 2);
      compute.call(kProduct, i, 5);
      compute.wait("product", kUse, i, 11);
      compute.done();
      compute.call(kUse, i, 12 + static_cast<int>(number));
    }
    if (t + 1 == tiles.size() && !whole) break;
    compute.call(kStore, -1, 25);
    load.close();
    compute.close();
  }
  block.roles = {whole ? load.end() : load.cut(), whole ? compute.end() : compute.cut()};
  return block;
}

tools::MeasuredTimeline made(bool on_model, const std::vector<int>& first, const std::vector<int>& second) {
  tools::MeasuredTimeline measured;
  measured.run.made.choice.candidate.graph = made_graph();
  measured.run.made.choice.schedule = made_schedule();
  measured.run.kernel = "by_hand";
  measured.run.problem = "a problem";
  measured.run.target = on_model ? "model:toy" : "toy";
  measured.run.device = "a device";
  measured.run.on_model = on_model;
  measured.run.grid = 12;
  measured.run.first_block = 4;
  measured.run.blocks = 2;
  measured.run.warps = 5;
  measured.run.warp_records = 512;
  if (!on_model) {
    measured.run.registers = 168;
    measured.run.recording_registers = 172;
    measured.run.ms = 0.0123;
    measured.run.recording_ms = 0.0145;
  }
  measured.blocks = {made_block(4, first, true), made_block(5, second, false)};
  measured.comparison = tools::compare(measured.graph(), measured.schedule(), measured.blocks);
  return measured;
}

void add_lines(const std::string& title, const std::string& text, std::vector<std::string>& lines) {
  lines.push_back("== " + title);
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
}

/// An event a line, its arguments without their names.
std::string events_of(const std::string& trace) {
  auto document = nlohmann::json::parse(trace);
  std::string text;
  for (const auto& event : document.at("traceEvents")) {
    text += event.at("pid").dump() + "." + event.at("tid").dump() + " ";
    if (event.contains("ts")) text += event.at("ts").dump() + "+" + event.at("dur").dump() + " ";
    text += event.value("cat", event.at("ph").get<std::string>()) + " " + event.at("name").get<std::string>();
    for (const auto& argument : event.at("args")) text += " " + argument.dump();
    text += "\n";
  }
  document.erase("traceEvents");
  return text + document.dump(1) + "\n";
}

}  // namespace

TEST_CASE("table, trace and picture of a recording by hand are those that are pinned") {
  std::vector<std::string> lines;
  for (const bool on_model : {false, true}) {
    const std::string of = on_model ? " of steps" : " of cycles";
    std::ostringstream table;
    tools::print_timeline(made(on_model, {3, 9, 9}, {3, 9, 7}), table);
    add_lines("table" + of, table.str(), lines);
    const tools::MeasuredTimeline measured = made(on_model, {2, 3, 3, 3}, {1, 1});
    if (!on_model) add_lines("trace" + of, events_of(tools::timeline_trace(measured)), lines);
    add_lines("picture of an iteration" + of, tools::timeline_svg(measured, 0, 1), lines);
  }
  add_lines("picture of as many as there are, the last tile cut off",
            tools::timeline_svg(made(false, {2}, {2, 3}), 1, 100), lines);
  testing::check_pinned("tests/tools/data/timeline.txt", lines);
}

TEST_CASE("the anchor is the first node of the loop, of a role that computes before one that only asks") {
  graph::Graph graph = made_graph();
  sched::Schedule schedule = made_schedule();
  CHECK(tools::anchor_of(graph, schedule) == kProduct);
  schedule.cycle[kUse] = 39;
  CHECK(tools::anchor_of(graph, schedule) == kUse);
  schedule.role = {0, 1, 2, 1, 1};  // products asked for by a thread of their own, and nothing else in the loop
  schedule.roles = {{"load", 1, 0, 0, {kLoad}}, {"compute0", 4, 0, 0, {kBegin, kStore}}, {"mma", 1, 0, 0, {kProduct}}};
  graph.nodes[kProduct].async = Async::unit;
  graph.nodes[kUse].scope = Scope::tile_end;
  CHECK(tools::anchor_of(graph, schedule) == kProduct);
}

TEST_CASE("a tile that the anchor's role has no records of has no prediction, and its other roles are shown") {
  tools::MeasuredTimeline measured = made(false, {2}, {1});
  tools::BlockSpans& block = measured.blocks[0];
  tools::RoleSpans &load = block.roles[0], &compute = block.roles[1];
  load.after.clear();
  const std::string before = events_of(tools::timeline_trace(measured));
  // Such large memory is given back, so that reading behind the last tile ends the process.
  constexpr std::size_t kMany = 1 << 18;
  compute.tiles.push_back({1, 500, -1, std::vector<Span>(kMany)});
  compute.tiles.pop_back();
  load.tiles.push_back({1, 500, -1, {{kLoad, "", 0, 510, 515, -1}}});
  std::string after = events_of(tools::timeline_trace(measured));
  const std::string added = "2.1 510+5 node load 0 1\n";
  CAPTURE(after);
  const std::size_t at = after.find(added);
  REQUIRE(at != std::string::npos);
  after.erase(at, added.size());
  CHECK(after == before);
}
