// Protects rings inside one role: copies by one of its threads and stores by all of its warps, read by the same role.
// For every trip count each slot is filled, read and handed back once, in an order in which the role never waits for
// itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <tilejit/error.hpp>

#include "codegen/emit.hpp"
#include "codegen/timeline.hpp"
#include "sched/schedule.hpp"

using namespace tj;
using codegen::Event;
using codegen::EventKind;
using graph::Async;
using graph::Scope;

namespace {

int add(graph::Graph& g, const char* name, Scope scope, Async async, int latency, const char* context = "Worker") {
  graph::Node n;
  n.name = n.body = name;
  n.context = context;
  n.scope = scope;
  n.async = async;
  n.cycles = async == Async::none ? latency : 1;
  n.warp_cycles = async == Async::copy ? 0 : n.cycles;
  n.latency = latency;
  n.warps = graph::issued_by_one(async) ? 1 : 4;
  n.reservations = {{async == Async::copy ? 0 : async == Async::matrix ? 1 : 2, 0, std::min(latency, 200), 1}};
  g.nodes.push_back(n);
  return static_cast<int>(g.nodes.size()) - 1;
}

/// a by copy, b by copy or ordinary stores; a product over both; a result that the same role stages, and stores in
/// bulk.
struct Loop {
  graph::Graph graph;
  int load_a, load_b, mma, stage, store;
  sched::Schedule schedule;
  /// The product reads b of so many iterations before.
  Loop(bool copies, int slots, int max_stages, int distance = 0) {
    graph.name = "loop";
    graph.machine.name = "toy";
    graph.machine.units = {{"TMA", 1}, {"TC", 1}, {"ALU", 1}};
    graph.machine.memory_bytes["SMEM"] = 65536;
    graph.namespace_name = "tj::ops::toy";
    graph.params_type = "tj::ops::toy::Params";
    load_a = add(graph, "load_a", Scope::iteration, Async::copy, 700, "Loader");
    load_b = copies ? add(graph, "load_b", Scope::iteration, Async::copy, 700, "Loader")
                    : add(graph, "read_b", Scope::iteration, Async::none, 300);
    mma = add(graph, "mma", Scope::iteration, Async::matrix, 260);
    stage = add(graph, "stage", Scope::tile_end, Async::none, 50);
    store = add(graph, "store", Scope::tile_end, Async::store, 50, "Loader");
    graph.values = {{"a", 1024, 1024, Scope::iteration, 1, 6},
                    {"b", 1024, 1024, Scope::iteration, 1, 6},
                    {"d", 1024, 1024, Scope::tile_end, 1, 1}};
    graph.edges = {{load_a, mma, 700, 0, false, 0},
                   {load_b, mma, graph.nodes[static_cast<std::size_t>(load_b)].latency, distance, false, 1},
                   {mma, mma, 200, 1},
                   {mma, mma, 260, 2, true},
                   {mma, stage, 260, 0, true},
                   {stage, store, 50, 0, false, 2}};
    graph.edges[4].same_role = true;
    sched::Options options;
    options.max_roles = 1;
    options.mixed_roles = true;
    options.max_slots = slots;
    options.max_stages = max_stages;
    schedule = sched::schedule(graph, options);
  }
  int distance_of(int ring) const {
    for (const auto& edge : graph.edges)
      if (edge.value == schedule.rings[static_cast<std::size_t>(ring)].value) return edge.distance;
    return 0;
  }
};

std::vector<Event> flat(const codegen::Timeline& timeline) {
  std::vector<Event> events = timeline.tile_begin;
  for (const auto& step : timeline.steps) events.insert(events.end(), step.begin(), step.end());
  events.insert(events.end(), timeline.tile_end.begin(), timeline.tile_end.end());
  return events;
}

/// Runs several tiles of a role that is alone: earlier work of the role must already serve each wait. Returns what is
/// wrong.
std::string replay(const Loop& loop, int trip_count) {
  std::map<int, int> filled, freed, waited_full, waited_empty;  // per ring, fillings so far
  for (int tile = 0; tile < 3; ++tile) {
    std::set<int> outstanding;  // groups of the matrix unit: iterations
    for (const Event& event : flat(codegen::simulate(loop.graph, loop.schedule, 0, trip_count))) {
      if (trip_count == 0 && event.iteration < 0 && event.ring >= 0 && loop.distance_of(event.ring) > 0)
        continue;  // of what the last iteration left, under a condition
      const auto slots = [&](int ring) { return loop.schedule.rings[static_cast<std::size_t>(ring)].slots; };
      switch (event.kind) {
        case EventKind::wait_empty:
          if (waited_empty[event.ring]++ - slots(event.ring) >= freed[event.ring])
            return "waits for a slot that it has not handed back";
          break;
        case EventKind::wait_full:
          if (waited_full[event.ring]++ >= filled[event.ring]) return "waits for a value that it has not asked for";
          break;
        case EventKind::release:
          if (event.iteration >= 0 && outstanding.count(event.iteration + loop.distance_of(event.ring)) != 0)
            return "hands back what is being read";
          if (++freed[event.ring] > waited_full[event.ring]) return "hands back what it has not waited for";
          break;
        case EventKind::matrix_commit:
          outstanding.insert(event.iteration);
          break;
        case EventKind::done:
          outstanding.erase(event.iteration);
          break;
        case EventKind::call:
          for (std::size_t r = 0; r < loop.schedule.rings.size(); ++r)
            for (const auto& edge : loop.graph.edges)
              if (edge.src == event.node && edge.value == loop.schedule.rings[r].value) {
                if (++filled[static_cast<int>(r)] != waited_empty[static_cast<int>(r)])
                  return "fills a slot without waiting for it";
                break;
              }
          break;
        default:
          break;
      }
    }
    if (!outstanding.empty()) return "ends a tile with groups under way";
  }
  for (const auto& [ring, count] : filled)
    if (freed[ring] != count) return "keeps slots at the end";
  return {};
}

void check_ends(const Loop& loop) {
  REQUIRE(loop.schedule.roles.size() == 1);
  CHECK(sched::verify(loop.graph, loop.schedule).empty());
  for (int n = 0; n <= 12; ++n) {
    CAPTURE(n);
    CHECK(replay(loop, n) == "");
  }
  CHECK_NOTHROW(codegen::find_pattern(loop.graph, loop.schedule, 0));
}

}  // namespace

TEST_CASE("no trip count, number of slots or kind of copy makes the role wait for itself") {
  for (const bool copies : {true, false})
    for (int slots = 1; slots <= 4; ++slots)
      for (const int max_stages : {0, 1}) {
        const Loop loop(copies, slots, max_stages);
        CAPTURE(copies);
        CAPTURE(slots);
        CAPTURE(max_stages);
        check_ends(loop);
      }
}

TEST_CASE("a role that reads its own filling an iteration later looks at that read before it fills the slot again") {
  for (const bool copies : {true, false})
    for (int slots = 2; slots <= 5; ++slots)
      for (const int max_stages : {0, 2}) {
        const Loop loop(copies, slots, max_stages, 1);
        CAPTURE(copies);
        CAPTURE(slots);
        CAPTURE(max_stages);
        check_ends(loop);
      }
}

TEST_CASE("two slots overlap: the next copy is under way while the product runs") {
  const Loop loop(true, 2, 0);
  const auto events = flat(codegen::simulate(loop.graph, loop.schedule, 0, 6));
  const auto at = [&](EventKind kind, int node, int iteration) {
    return std::find_if(events.begin(), events.end(),
                        [&](const Event& e) { return e.kind == kind && e.node == node && e.iteration == iteration; }) -
           events.begin();
  };
  for (int i = 0; i < 4; ++i) {
    CHECK(at(EventKind::call, loop.load_a, i + 1) < at(EventKind::call, loop.mma, i));
    CHECK(at(EventKind::done, loop.mma, i) < at(EventKind::call, loop.load_a, i + 2));
  }
}

TEST_CASE("the text: one thread copies and the warp meets again; stores are fenced and published") {
  const std::string copies = codegen::emit(Loop(true, 2, 0).graph, Loop(true, 2, 0).schedule, "toy").text;
  CHECK(copies.find("dev::elect_one()") != std::string::npos);
  CHECK(copies.find("dev::reconverge();") != std::string::npos);
  CHECK(copies.find("registers_") == std::string::npos);  // a single role has all from the start
  const std::string stores = codegen::emit(Loop(false, 1, 1).graph, Loop(false, 1, 1).schedule, "toy").text;
  CHECK(stores.find("dev::publish<") != std::string::npos);
  CHECK(stores.find("dev::proxy_fence<") != std::string::npos);
}

TEST_CASE("an order in which the role would wait for itself is refused by name") {
  Loop loop(true, 2, 0);
  for (auto& ring : loop.schedule.rings)
    if (ring.value < 2) ring.slots = 1;
  try {
    codegen::emit(loop.graph, loop.schedule, "toy");
    FAIL("was accepted");
  } catch (const Error& e) {
    CHECK(e.stage == Stage::codegen);
    for (const char* part : {"wait for itself", "'load_", "'mma'", "over value '"})
      CHECK(e.message.find(part) != std::string::npos);
  }
  loop = Loop(true, 2, 0);
  std::swap(loop.schedule.cycle[static_cast<std::size_t>(loop.load_a)],
            loop.schedule.cycle[static_cast<std::size_t>(loop.mma)]);
  std::reverse(loop.schedule.roles[0].nodes.begin(), loop.schedule.roles[0].nodes.end());
  CHECK_THROWS_AS(codegen::emit(loop.graph, loop.schedule, "toy"), Error);
}
