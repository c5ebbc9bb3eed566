// Protects forms that attention does not use. They are ordinary readers and writers of rings, values that are filled
// once a tile and read by nodes at its begin or end, and copies that fill two rings from a role of several threads.
// Also the text's refusals.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "codegen/emit.hpp"
#include "codegen/timeline.hpp"
#include "sched/schedule.hpp"

using namespace tj;
using codegen::Event;
using codegen::EventKind;
using graph::Async;
using graph::Graph;
using graph::Scope;

namespace {

Graph empty_graph() {
  Graph g;
  g.name = "toy";
  g.machine.name = "toy";
  g.machine.units = {{"A", 1}, {"B", 1}, {"C", 1}};
  g.machine.memory_bytes["SMEM"] = 65536;
  g.namespace_name = "tj::ops::toy";
  g.params_type = "tj::ops::toy::Params";
  return g;
}

int add(Graph& g, const char* name, int copy, Scope scope, Async async = Async::none) {
  graph::Node n;
  n.name = n.body = name;
  n.context = async == Async::copy ? "Loader" : "Worker";
  n.copy = copy;
  n.scope = scope;
  n.async = async;
  n.cycles = async == Async::copy ? 1 : 50;
  n.latency = async == Async::copy ? 400 : 50;
  n.warps = async == Async::copy ? 1 : 4;
  n.reservations = {{async == Async::copy ? 0 : copy + 1, 0, 50, 1}};
  g.nodes.push_back(n);
  return static_cast<int>(g.nodes.size()) - 1;
}

int add_value(Graph& g, const char* name, Scope scope) {
  g.values.push_back({name, 1024, 1024, scope, 1, scope == Scope::iteration ? 4 : 1});
  return static_cast<int>(g.values.size()) - 1;
}

void flow(Graph& g, int from, int to, int value) {
  g.edges.push_back({from, to, g.nodes[static_cast<std::size_t>(from)].latency, 0, false, value});
}

/// load_bias once a tile, read at its begin and end. load_x, work, pass each iteration; finish -> write once at the
/// end.
struct Toy {
  Graph graph = empty_graph();
  int load_bias = add(graph, "load_bias", 0, Scope::tile_begin, Async::copy),
      load_x = add(graph, "load_x", 0, Scope::iteration, Async::copy);
  int begin = add(graph, "begin", 0, Scope::tile_begin), work = add(graph, "work", 0, Scope::iteration),
      finish = add(graph, "finish", 0, Scope::tile_end);
  int pass = add(graph, "pass", 1, Scope::iteration), write = add(graph, "write", 1, Scope::tile_end);
  int bias = add_value(graph, "bias", Scope::tile_begin), x = add_value(graph, "x", Scope::iteration),
      y = add_value(graph, "y", Scope::iteration), sum = add_value(graph, "sum", Scope::tile_end);
  sched::Schedule schedule;
  explicit Toy(const sched::Options& options = {}) {
    flow(graph, load_bias, begin, bias);
    flow(graph, load_bias, finish, bias);
    flow(graph, load_x, work, x);
    flow(graph, work, pass, y);
    flow(graph, finish, write, sum);
    schedule = sched::schedule(graph, options);
  }
  std::vector<Event> events(int node, int n) const {
    const auto timeline = codegen::simulate(graph, schedule, schedule.role[static_cast<std::size_t>(node)], n);
    std::vector<Event> all = timeline.tile_begin;
    for (const auto& step : timeline.steps) all.insert(all.end(), step.begin(), step.end());
    all.insert(all.end(), timeline.tile_end.begin(), timeline.tile_end.end());
    return all;
  }
  int ring(int value) const {
    for (std::size_t r = 0; r < schedule.rings.size(); ++r)
      if (schedule.rings[r].value == value) return static_cast<int>(r);
    return -1;
  }
};

/// The place of the only such event.
std::ptrdiff_t place(const std::vector<Event>& events, EventKind kind, int ring, int node = -1, int iteration = -2) {
  const auto fits = [&](const Event& e) {
    return e.kind == kind && (ring < 0 || e.ring == ring) && (node < 0 || e.node == node) &&
           (iteration < -1 || e.iteration == iteration);
  };
  REQUIRE(std::count_if(events.begin(), events.end(), fits) == 1);
  return std::find_if(events.begin(), events.end(), fits) - events.begin();
}

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("the toy's schedule is right") {
  const Toy toy;
  CHECK(sched::verify(toy.graph, toy.schedule).empty());
  CHECK(toy.schedule.rings.size() == 4);
}

TEST_CASE(
    "a value of the tile's begin is waited for before its first reader and kept until its last, at the tile's end") {
  const Toy toy;
  for (int n = 0; n < 5; ++n) {
    CAPTURE(n);
    const auto events = toy.events(toy.work, n);
    const int ring = toy.ring(toy.bias);
    const auto wait = place(events, EventKind::wait_full, ring), release = place(events, EventKind::release, ring);
    CHECK(wait < place(events, EventKind::call, -1, toy.begin));
    CHECK(release > place(events, EventKind::call, -1, toy.finish));
  }
}

TEST_CASE("a value of the tile's end is waited for by its reader and handed back after it") {
  const Toy toy;
  for (int n = 0; n < 5; ++n) {
    CAPTURE(n);
    const int ring = toy.ring(toy.sum);
    const auto filled = toy.events(toy.finish, n), read = toy.events(toy.write, n);
    CHECK(place(filled, EventKind::wait_empty, ring) < place(filled, EventKind::call, -1, toy.finish));
    CHECK(place(filled, EventKind::publish, ring) > place(filled, EventKind::call, -1, toy.finish));
    CHECK(place(read, EventKind::wait_full, ring) < place(read, EventKind::call, -1, toy.write));
    CHECK(place(read, EventKind::release, ring) > place(read, EventKind::call, -1, toy.write));
  }
}

TEST_CASE(
    "an ordinary node between two rings waits for both, then hands one back and publishes the other, behind a fence "
    "for readers that are asynchronous") {
  for (const auto& [max_slots, reader] : {std::pair{0, Async::none}, {1, Async::none}, {0, Async::matrix}}) {
    sched::Options options;
    options.max_slots = max_slots;
    Toy toy(options);
    toy.graph.nodes[static_cast<std::size_t>(toy.pass)].async = reader;
    const auto events = toy.events(toy.work, 6);
    for (int i = 0; i < 6; ++i) {
      const auto call = place(events, EventKind::call, -1, toy.work, i);
      CHECK(place(events, EventKind::wait_full, toy.ring(toy.x), -1, i) < call);
      CHECK(place(events, EventKind::wait_empty, toy.ring(toy.y), -1, i) < call);
      CHECK(place(events, EventKind::release, toy.ring(toy.x), -1, i) > call);
      const auto publish = place(events, EventKind::publish, toy.ring(toy.y), -1, i);
      CHECK(publish > call);
      if (reader == Async::none) continue;
      const auto fence = place(events, EventKind::proxy_fence, toy.ring(toy.y), -1, i);
      CHECK(fence > call);
      CHECK(publish > fence);
    }
    if (reader == Async::none)
      CHECK(std::none_of(events.begin(), events.end(),
                         [](const Event& event) { return event.kind == EventKind::proxy_fence; }));
  }
}

TEST_CASE("a copy that fills two rings from a role of several threads is one branch") {
  Graph g = empty_graph();
  const int load = add(g, "load_pair", 0, Scope::iteration, Async::copy), other = add(g, "gather", 0, Scope::iteration);
  const int work = add(g, "work", 1, Scope::iteration);
  g.nodes[static_cast<std::size_t>(other)].variable_latency = true;  // four warps, in the role of the copies
  const int a = add_value(g, "a", Scope::iteration), b = add_value(g, "b", Scope::iteration),
            c = add_value(g, "c", Scope::iteration);
  flow(g, load, work, a);
  flow(g, load, work, b);
  flow(g, other, work, c);
  const auto schedule = sched::schedule(g);
  const std::string text = codegen::emit(g, schedule, "toy").text;
  CHECK(occurrences(text, "{") == occurrences(text, "}"));
  CHECK(occurrences(text, "dev::elect_one()") == occurrences(text, "load_pair(loader"));
}

TEST_CASE(
    "where no tile has more iterations than the text peels, there is no loop, and nothing is waited for that cannot "
    "have been used before") {
  Toy toy;
  toy.graph.walk = graph::Walk::one_tile;
  const auto text = [&](int most) {
    toy.graph.most_iterations = most;
    return codegen::emit(toy.graph, toy.schedule, "toy").text;
  };
  const std::string any = text(0), once = text(1);
  CHECK(any == text(1000000));
  CHECK(occurrences(any, "for (") > 0);
  CHECK(occurrences(once, "for (") == 0);
  CHECK(occurrences(once, "wait_empty") == 0);
  for (const char* call : {"load_x(", "work(", "pass("}) CHECK(occurrences(once, call) == 1);
  CHECK(occurrences(once, "{") == occurrences(once, "}"));
}

TEST_CASE("a value that stays in one role is refused by name") {
  Graph g = empty_graph();
  const int fill = add(g, "fill", 0, Scope::iteration), read = add(g, "read", 0, Scope::iteration);
  flow(g, fill, read, add_value(g, "own", Scope::iteration));
  sched::Options split;
  split.joint = false;  // the joint search gives the reader a role of its own
  CHECK(sched::schedule(g).roles.size() == 2);
  const auto schedule = sched::schedule(g, split);
  try {
    codegen::emit(g, schedule, "toy");
    FAIL("was accepted");
  } catch (const Error& e) {
    CHECK(e.stage == Stage::codegen);
    CHECK(e.code == Code::unsupported);
    for (const char* name : {"'fill'", "'read'", "'own'"}) CHECK(e.message.find(name) != std::string::npos);
  }
}
