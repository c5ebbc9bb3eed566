// Protects bulk stores in the loop, for every depth of their rings and every trip count. No role waits for ever, and no
// slot is filled again before a wait has shown that its store has read it. Roles whose members read rings of their own
// share one text.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
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
using graph::Scope;

namespace {

struct Shape {
  int copies = 1, slots = 1, store_latency = 300;
  bool apart = true, one_role = false;
  bool shared_input = false;  ///< all copies read one ring
  int load_cycles = 40;
  std::string text() const {
    return "copies " + std::to_string(copies) + " slots " + std::to_string(slots) + " latency " +
           std::to_string(store_latency) + (one_role ? " one role" : "") + (shared_input ? " shared" : "");
  }
};

/// load.c brings x, work.c makes y of it, put.c brings y out: for each copy c.
struct Loop {
  graph::Graph graph;
  sched::Schedule schedule;
  explicit Loop(const Shape& shape) {
    graph.name = "loop";
    graph.machine.name = "toy";
    graph.machine.units = {{"IN", 1}, {"ALU", 4}, {"OUT", 1}};
    graph.machine.memory_bytes["SMEM"] = 65536;
    graph.namespace_name = "tj::ops::toy";
    graph.params_type = "tj::ops::toy::Params";
    for (const char* value : {"x", "y"})
      for (int c = 0; c < (shape.shared_input && value[0] == 'x' ? 1 : shape.copies); ++c)
        graph.values.push_back({value + std::to_string(c), 1024, 1024, Scope::iteration,
                                value[0] == 'y' ? shape.slots : 1, value[0] == 'y' ? shape.slots : 4});
    const int y = static_cast<int>(graph.values.size()) - shape.copies;
    for (int c = 0; c < shape.copies; ++c) {
      const int load =
          shape.shared_input && c > 0 ? 0 : add("load", "Loader", c, Async::copy, 0, shape.load_cycles, 500);
      const int work = add("work", "Worker", c, Async::none, 1, 100, 100);
      const int put = add("put", "Writer", c, Async::store, 2, 40, shape.store_latency);
      graph.edges.push_back({load, work, 500, 0, false, shape.shared_input ? 0 : c});
      graph.edges.push_back({work, put, 100, 0, false, y + c});
    }
    sched::Options options;
    options.copies_apart = shape.apart && !shape.one_role;
    options.mixed_roles = shape.one_role;
    options.max_roles = shape.one_role ? 1 : 0;
    schedule = sched::schedule(graph, options);
  }

 private:
  int add(const char* name, const char* context, int c, Async async, int unit, int held, int latency) {
    graph::Node n;
    n.name = std::string(name) + "." + std::to_string(c);
    n.body = name;
    n.context = context;
    n.copy = c;
    n.async = async;
    n.cycles = async == Async::none ? latency : 1;
    n.warp_cycles = async == Async::none ? latency : 0;
    n.latency = latency;
    n.warps = graph::issued_by_one(async) ? 1 : 4;
    n.variable_latency = n.streaming = async == Async::copy;
    n.reservations = {{unit, 0, held, 1}};
    graph.nodes.push_back(n);
    return static_cast<int>(graph.nodes.size()) - 1;
  }
};

std::vector<Event> flat(const codegen::Timeline& timeline) {
  std::vector<Event> events = timeline.tile_begin;
  for (const auto& step : timeline.steps) events.insert(events.end(), step.begin(), step.end());
  events.insert(events.end(), timeline.tile_end.begin(), timeline.tile_end.end());
  return events;
}

/// All roles side by side over several tiles, each strictly in order: "" when all come to their end.
class Roles {
 public:
  Roles(const Loop& loop, int trip_count) : loop_(loop) {
    for (std::size_t r = 0; r < loop.schedule.roles.size(); ++r) {
      std::vector<Event> all;
      for (int tile = 0; tile < 3; ++tile)
        for (Event event : flat(codegen::simulate(loop.graph, loop.schedule, static_cast<int>(r), trip_count))) {
          if (event.iteration >= 0) event.iteration += tile * trip_count;
          all.push_back(event);
        }
      events_.push_back(std::move(all));
    }
    at_.assign(events_.size(), 0);
    stores_.resize(events_.size());
  }

  std::string run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t r = 0; r < events_.size(); ++r)
        for (; at_[r] < events_[r].size() && may(events_[r][at_[r]]); ++at_[r], moves = true)
          if (std::string wrong = take(r, events_[r][at_[r]]); !wrong.empty()) return wrong;
    }
    for (std::size_t r = 0; r < events_.size(); ++r)
      if (at_[r] < events_[r].size()) return "role " + loop_.schedule.roles[r].name + " waits for ever";
    return reading_.empty() ? "" : "a store is under way at the end";
  }

 private:
  int slots(int ring) const { return loop_.schedule.rings[static_cast<std::size_t>(ring)].slots; }
  int readers(int ring) const {
    return static_cast<int>(loop_.schedule.rings[static_cast<std::size_t>(ring)].consumer_roles.size());
  }
  bool may(const Event& event) const {
    const auto count = [](const std::map<int, int>& of, int ring) {
      const auto found = of.find(ring);
      return found == of.end() ? 0 : found->second;
    };
    if (event.kind == EventKind::wait_full) return count(filled_, event.ring) > event.iteration;
    if (event.kind == EventKind::wait_empty)
      return count(freed_, event.ring) >= (event.iteration - slots(event.ring) + 1) * readers(event.ring);
    return true;
  }
  /// The ring of a value.
  int ring_of(int value) const {
    for (std::size_t r = 0; r < loop_.schedule.rings.size(); ++r)
      if (loop_.schedule.rings[r].value == value) return static_cast<int>(r);
    return -1;
  }
  std::string take(std::size_t role, const Event& event) {
    if (event.kind == EventKind::release) {
      ++freed_[event.ring];
      if (reading_.count({event.ring, event.iteration}) != 0) return "hands back a slot that a store may still read";
    }
    if (event.kind == EventKind::store_wait)
      for (; static_cast<int>(stores_[role].size()) > event.pending; stores_[role].erase(stores_[role].begin()))
        reading_.erase(stores_[role].front());
    if (event.kind != EventKind::call) return {};
    for (const auto& edge : loop_.graph.edges) {
      const int ring = ring_of(edge.value);
      if (edge.src == event.node) {
        if (reading_.count({ring, event.iteration - slots(ring)}) != 0)
          return "fills a slot that a store may still read";
        if (filled_[ring] <= event.iteration) ++filled_[ring];
      }
      if (edge.dst != event.node || loop_.graph.nodes[static_cast<std::size_t>(event.node)].async != Async::store)
        continue;
      reading_.insert({ring, event.iteration});
      stores_[role].emplace_back(ring, event.iteration);
    }
    return {};
  }

  const Loop& loop_;
  std::vector<std::vector<Event>> events_;
  std::vector<std::size_t> at_;
  std::map<int, int> filled_, freed_;
  std::set<std::pair<int, int>> reading_;                 ///< ring and iteration, until a wait covers them
  std::vector<std::vector<std::pair<int, int>>> stores_;  ///< per role, in commit order
};

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("stores in the loop hand back their slots, whatever depth, trip count and roles") {
  for (const int copies : {1, 2, 3})
    for (const int slots : {1, 2, 3})
      for (const int latency : {20, 300, 900})
        for (const bool one_role : {false, true}) {
          const Shape shape{copies, slots, latency, true, one_role, copies == 2};
          CAPTURE(shape.text());
          const Loop loop(shape);
          const auto problems = sched::verify(loop.graph, loop.schedule);
          CHECK_MESSAGE(problems.empty(), problems.front());
          for (int n = 0; n <= 9; ++n) {
            CAPTURE(n);
            CHECK(Roles(loop, n).run() == "");
          }
          for (std::size_t r = 0; r < loop.schedule.roles.size(); ++r)
            CHECK_NOTHROW(codegen::find_pattern(loop.graph, loop.schedule, static_cast<int>(r)));
          CHECK_NOTHROW(codegen::emit(loop.graph, loop.schedule, "toy"));
        }
}

TEST_CASE("a bulk store that fills a value is refused by name") {
  Loop loop(Shape{});
  loop.graph.nodes[static_cast<std::size_t>(loop.graph.node_index("work.0"))].async = Async::store;
  try {
    codegen::emit(loop.graph, loop.schedule, "toy");
    FAIL("was accepted");
  } catch (const Error& e) {
    CHECK(e.stage == Stage::codegen);
    for (const char* name : {"'work.0'", "'y0'"}) CHECK(e.message.find(name) != std::string::npos);
  }
}

TEST_CASE("stores have a role of their own beside loads") {
  const Loop loop(Shape{2, 1, 300, true, false, false});
  std::set<std::string> names;
  for (const auto& role : loop.schedule.roles) names.insert(role.name);
  CHECK(names == std::set<std::string>{"load", "store", "compute0", "compute1"});
}

TEST_CASE("copies that must be apart and roles that mix anything are not asked for together") {
  sched::Options options;
  options.copies_apart = options.mixed_roles = true;
  try {
    sched::schedule(Loop(Shape{}).graph, options);
    FAIL("was accepted");
  } catch (const Error& e) {
    CHECK(e.message.find("copies_apart is set with mixed_roles") != std::string::npos);
  }
}

TEST_CASE("with one slot a store is waited for before the next, with more one behind") {
  for (const int slots : {1, 2}) {
    const Loop loop(Shape{1, slots, 20});
    const int put = loop.graph.node_index("put.0");
    const auto events =
        flat(codegen::simulate(loop.graph, loop.schedule, loop.schedule.role[static_cast<std::size_t>(put)], 5));
    const auto waits = std::count_if(events.begin(), events.end(),
                                     [](const Event& e) { return e.kind == EventKind::store_wait && e.pending == 0; });
    CHECK(waits == (slots == 1 ? 5 : 1));
  }
}

TEST_CASE("copies that read rings of their own are one text; a verifier's eye on the slots of a store") {
  Loop loop(Shape{2, 1, 300});
  const std::string text = codegen::emit(loop.graph, loop.schedule, "toy").text;
  CHECK(occurrences(text, "work(") == 1);
  CHECK(text.find("wait_full<") != std::string::npos);
  CHECK(text.find("dev::slot_address<RingX0>(dev::slots_of<RingX0>(shared, static_cast<unsigned>(member))") !=
        std::string::npos);
  CHECK(text.find("RingX1>(dev::") == std::string::npos);
  const Loop joined(Shape{2, 1, 300, false, false, false, 300});  // so slow that one role does all
  CHECK(joined.schedule.roles.size() == 3);
  CHECK(occurrences(codegen::emit(joined.graph, joined.schedule, "toy").text, "work(") == 2);
  Loop late(Shape{1, 2, 20});
  REQUIRE(sched::verify(late.graph, late.schedule).empty());
  late.schedule.cycle[static_cast<std::size_t>(late.graph.node_index("put.0"))] += 2 * late.schedule.ii;
  CHECK_FALSE(sched::verify(late.graph, late.schedule).empty());
}
