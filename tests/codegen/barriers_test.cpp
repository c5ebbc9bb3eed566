// Protects the barriers of blocks that have none in shared memory. For every trip count one stands between any write of
// a slot and its reads, and between those reads and the next write of the slot. None stands in vain, a step has the
// fewest that do, and they are the schedule's.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "codegen/barriers.hpp"
#include "codegen/emit.hpp"
#include "common/random.hpp"
#include "graph/json_reader.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

using namespace tj;
using codegen::Event;
using codegen::EventKind;
using graph::Scope;

namespace {

graph::Node node(const char* name, Scope scope, int cycles, int latency) {
  graph::Node n;
  n.name = n.body = name;
  n.context = "Worker";
  n.scope = scope;
  n.cycles = n.warp_cycles = cycles;
  n.latency = latency;
  n.reservations = {{0, 0, std::min(cycles, 50), 1}};
  return n;
}

/// a and b go through registers into slots, read by a chain whose middle hands something on within each warp. Besides,
/// a table once a tile, and a value that is staged at its end.
struct Loop {
  graph::Graph graph;
  sched::Schedule schedule;
  explicit Loop(int load_latency = 600, int min_slots = 1, bool persistent = false, int max_slots = 0) {
    graph.name = "loop";
    graph.walk = persistent ? graph::Walk::persistent : graph::Walk::one_tile;
    graph.machine.name = "toy";
    graph.machine.units = {{"ALU", 1}};
    graph.machine.memory_bytes["SMEM"] = 65536;
    graph.machine.shared_barriers = graph.machine.overlapped_launch = false;
    graph.namespace_name = "user::toy";
    graph.params_type = "user::toy::Params";
    graph.nodes = {node("table", Scope::tile_begin, 10, 10), node("load_a", Scope::iteration, 60, load_latency),
                   node("put_a", Scope::iteration, 40, 40),  node("load_b", Scope::iteration, 60, load_latency),
                   node("put_b", Scope::iteration, 40, 40),  node("mix", Scope::iteration, 100, 100),
                   node("hand", Scope::iteration, 30, 30),   node("take", Scope::iteration, 90, 90),
                   node("stage", Scope::tile_end, 10, 10),   node("out", Scope::tile_end, 10, 10)};
    graph.values = {{"t", 1024, 16, Scope::tile_begin, 1, 1},
                    {"a", 1024, 16, Scope::iteration, min_slots, 4},
                    {"b", 1024, 16, Scope::iteration, min_slots, 4},
                    {"w", 1024, 16, Scope::iteration, 1, 2},
                    {"s", 1024, 16, Scope::tile_end, 1, 1}};
    graph.values[3].within_warp = true;
    const auto edge = [&](int src, int dst, int distance, int value = -1) {
      graph.edges.push_back(
          {src, dst,
           distance > 0 && src > dst && value < 0 && dst != 5 ? 1 : graph.nodes[static_cast<std::size_t>(src)].latency,
           distance, false, value, 0, value < 0});
    };
    edge(0, 5, 0, 0);
    edge(1, 2, 0), edge(2, 1, 1), edge(3, 4, 0), edge(4, 3, 1);
    edge(2, 5, 0, 1), edge(4, 7, 0, 2), edge(5, 6, 0), edge(6, 7, 0, 3), edge(7, 5, 1), edge(7, 8, 0), edge(8, 9, 0, 4);
    sched::Options options;
    options.max_slots = max_slots;
    schedule = sched::schedule(graph, options);
  }
};

struct Access {
  int node, iteration;
};
/// One tile after another: calls and syncs in order.
std::vector<Event> flat(const codegen::Timeline& timeline) {
  std::vector<Event> events = timeline.tile_begin;
  for (const auto& step : timeline.steps) events.insert(events.end(), step.begin(), step.end());
  events.insert(events.end(), timeline.tile_end.begin(), timeline.tile_end.end());
  return events;
}

/// "": every two accesses to one slot of which one writes are parted; else which two are not. `without`: a sync that is
/// left out.
std::string unparted(const Loop& loop, const std::vector<Event>& events, int without = -1) {
  std::map<std::pair<int, int>, int> filled;  // value, slot: fillings so far (of all tiles)
  struct Last {
    int write = -1;
    std::vector<int> reads;
  };
  std::map<std::pair<int, int>, Last> last;
  std::map<int, int> writes, reads;
  int block = -1, warp = -1;
  for (int at = 0; at < static_cast<int>(events.size()); ++at) {
    const Event& event = events[static_cast<std::size_t>(at)];
    if (codegen::is_sync(event.kind)) {
      if (at == without) continue;
      warp = at;
      if (event.kind == EventKind::block_sync) block = at;
      continue;
    }
    for (std::size_t v = 0; v < loop.graph.values.size(); ++v) {
      const int since = loop.graph.values[v].within_warp ? warp : block;
      const auto ring = std::find_if(loop.schedule.rings.begin(), loop.schedule.rings.end(),
                                     [&](const sched::Ring& r) { return r.value == static_cast<int>(v); });
      const auto is = [&](bool writes_it) {
        return std::any_of(loop.graph.edges.begin(), loop.graph.edges.end(), [&](const graph::Edge& e) {
          return e.value == static_cast<int>(v) && (writes_it ? e.src : e.dst) == event.node;
        });
      };
      const int value = static_cast<int>(v);
      if (is(true)) {
        Last& slot = last[{value, writes[value]++ % ring->slots}];
        for (const int read : slot.reads)
          if (read > since) return loop.graph.values[v].name + " is filled while it is read";
        slot = {at, {}};
      }
      if (is(false)) {  // once a tile: the filling that there is
        const bool each = loop.graph.values[v].scope == Scope::iteration;
        Last& slot = last[{value, each ? reads[value]++ % ring->slots : 0}];
        if (slot.write < 0 || slot.write > since) return loop.graph.values[v].name + " is read too early";
        slot.reads.push_back(at);
      }
    }
  }
  return {};
}

int count(const std::vector<Event>& events, EventKind kind) {
  return static_cast<int>(
      std::count_if(events.begin(), events.end(), [&](const Event& event) { return event.kind == kind; }));
}

}  // namespace

TEST_CASE("the fewest places on a cycle, by every set of places") {
  const std::uint64_t seed = samples::fresh_seed();
  CAPTURE(seed);
  std::uint64_t drawn = 0;
  const auto below = [&](int n) {
    return static_cast<int>(samples::random_bits(seed, drawn++) % static_cast<std::uint64_t>(n));
  };
  for (int trial = 0; trial < 400; ++trial) {
    const int places = 1 + below(9);
    std::vector<codegen::Arc> arcs;
    for (int a = below(7); a > 0; --a) arcs.push_back({below(places), 1 + below(places + 2)});
    const auto parts = [&](unsigned set) {
      return std::all_of(arcs.begin(), arcs.end(), [&](const codegen::Arc& arc) {
        for (int i = 1; i <= arc.length; ++i)
          if ((set >> ((arc.start + i) % places) & 1u) != 0) return true;
        return false;
      });
    };
    int fewest = places + 1;
    for (unsigned set = 0; set < 1u << places; ++set)
      if (parts(set)) fewest = std::min(fewest, std::popcount(set));
    unsigned chosen = 0;
    const std::vector<bool> found = codegen::fewest_places(arcs, places);
    for (int p = 0; p < places; ++p) chosen |= found[static_cast<std::size_t>(p)] ? 1u << p : 0u;
    CHECK(parts(chosen));
    CHECK(std::popcount(chosen) == fewest);
  }
}

TEST_CASE("every trip count, depth and latency: accesses are parted, and by nothing in vain") {
  for (const int latency : {60, 300, 600, 1500})
    for (const int slots : {1, 2, 3})
      for (const bool persistent : {false, true}) {
        const Loop loop(latency, slots, persistent);
        CAPTURE(latency);
        CAPTURE(slots);
        CAPTURE(persistent);
        REQUIRE(loop.schedule.roles.size() == 1);
        CHECK(sched::verify(loop.graph, loop.schedule).empty());
        for (int n = 0; n <= 9; ++n) {
          CAPTURE(n);
          std::vector<Event> events = flat(codegen::simulate(loop.graph, loop.schedule, 0, n));
          CHECK(unparted(loop, events) == "");
          for (int at = 0; at < static_cast<int>(events.size()); ++at) {
            // The tile's begin and end are the same for every trip count.
            if (!codegen::is_sync(events[static_cast<std::size_t>(at)].kind) || persistent || n < 2) continue;
            CAPTURE(at);
            CHECK(unparted(loop, events, at) != "");
          }
          if (persistent) {
            const std::vector<Event> again = events;
            for (int tile = 0; tile < 2; ++tile) events.insert(events.end(), again.begin(), again.end());
            CHECK(unparted(loop, events) == "");
          }
        }
        CHECK_NOTHROW(codegen::find_pattern(loop.graph, loop.schedule, 0));
      }
}

TEST_CASE("deeper rings need fewer barriers; what stays within a warp needs none of the block's") {
  const auto steady = [](const Loop& loop) { return codegen::find_pattern(loop.graph, loop.schedule, 0).steady; };
  const Loop one(600, 1, false, 1), two(600, 2);
  CHECK(count(steady(two), EventKind::block_sync) == 1);
  CHECK(count(steady(one), EventKind::block_sync) == 2);
  CHECK(count(steady(one), EventKind::warp_sync) >= 1);
  Loop outside = one;
  outside.graph.values[3].within_warp = false;
  CHECK(count(steady(outside), EventKind::warp_sync) == 0);
  CHECK(unparted(outside, flat(codegen::simulate(outside.graph, outside.schedule, 0, 5))) == "");
}

TEST_CASE("the text has no barrier in shared memory, and a site for each of the block's") {
  const Loop loop;
  const codegen::Unit unit = codegen::emit(loop.graph, loop.schedule, "toy");
  for (const char* none : {"mbarrier", "wait_full", "release", "publish", "ring_init", "kFull", "warp_index"})
    CHECK_FALSE(testing::has(unit.text, none));
  for (const codegen::Site& site : unit.sites) CHECK_MESSAGE(testing::has(site.what, " sync before "), site.what);
  CHECK(testing::has(unit.text, "dev::block_sync<1>();"));
  std::int64_t bytes = 0;
  for (const sched::Ring& ring : loop.schedule.rings) bytes += 1024 * ring.slots;
  CHECK(unit.shape.smem_bytes == bytes);  // slots alone
}

TEST_CASE("such a machine has one role, whose nodes are done when they return; graphs say so in JSON") {
  Loop loop;
  const auto refused = [&](const char* what) {
    const Error error = testing::error_of([&] { codegen::emit(loop.graph, loop.schedule, "toy"); });
    CHECK(error.stage == Stage::codegen);
    CHECK_MESSAGE(testing::has(error.message, what), error.message);
  };
  loop.graph.nodes[1].async = graph::Async::threads;
  refused("'loop' on toy, whose blocks have no barriers in shared memory: node 'load_a' is asynchronous");
  loop = Loop();
  loop.graph.nodes[5].warps = 2;
  refused("node 'mix' is written for 2 warps; allowed are the 4 of the role");
  loop = Loop();
  std::swap(loop.schedule.roles[0].nodes[1], loop.schedule.roles[0].nodes[4]);
  std::reverse(loop.schedule.roles[0].nodes.begin(), loop.schedule.roles[0].nodes.end());
  refused("verify the schedule");
  loop = Loop();
  loop.graph.includes = {"toy.cuh"};
  const graph::Graph read = graph::read_json(graph::to_json(loop.graph));
  CHECK_FALSE(read.machine.shared_barriers);
  CHECK(read.values[3].within_warp);
  CHECK(graph::to_text(read).find("no barriers in shared memory") != std::string::npos);
  sched::Options options;
  options.joint = false;
  CHECK(testing::has(testing::error_of([&] { sched::schedule(loop.graph, options); }).message, "joint is off"));
}

TEST_CASE("fast variants of several contexts run once all of them may") {
  Loop loop(60);  // all of one stage
  for (const char* name : {"load_a", "put_a"})
    loop.graph.nodes[static_cast<std::size_t>(loop.graph.node_index(name))].context = "Loader";
  loop.graph.nodes[1].range = loop.graph.nodes[5].range = {"Fast", "fast_begin", {}};
  const std::string text = codegen::emit(loop.graph, loop.schedule, "toy").text;
  CHECK(testing::has(text, "int first_fast = fast_begin(loader0, tile);\n"));
  CHECK(testing::has(text, "if (const int also = fast_begin(worker0, tile)"));
  CHECK(testing::has(text, " also > first_fast) first_fast = also;"));
}
