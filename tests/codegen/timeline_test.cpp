// Protects what a role does for every trip count. No value is read before it arrived, no slot is kept or handed back
// twice, and turns balance between roles. The pattern that the text is made of is the simulation for every trip count.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "arch/arch.hpp"
#include "codegen/rolled.hpp"
#include "ops/fmha/sm90.hpp"
#include "ops/gemm/gemm.hpp"
#include "sched/schedule.hpp"

using namespace tj;
using codegen::Event;
using codegen::EventKind;
using codegen::Timeline;

namespace {

struct Scheduled {
  graph::Graph graph;
  sched::Schedule schedule;
};

std::vector<Scheduled> cases() {
  std::vector<Scheduled> list;
  const arch::Arch& arch = *arch::find("sm_90a");
  for (const ops::FmhaGroupTile tile :
       {ops::FmhaGroupTile{2, 128}, ops::FmhaGroupTile{3, 128}, ops::FmhaGroupTile{2, 176}}) {
    const FmhaConfig config{DType::f16, tile.consumers == 3 || tile.block_n == 176 ? 64 : 128, true, false};
    for (const int max_stages : {0, 1, 2}) {
      sched::Options options;
      options.max_stages = max_stages;
      auto graph = ops::fmha_group_graph(config, tile, arch);
      auto schedule = sched::schedule(graph, options);
      list.push_back({std::move(graph), std::move(schedule)});
    }
  }
  for (const int tile : {0, 4})
    for (const int max_stages : {0, 1}) {
      ops::GemmKernel kernel;
      kernel.tile = tile;
      sched::Options options;
      options.max_stages = max_stages;
      options.order_barriers = max_stages == 0;
      auto graph = ops::gemm_candidate(kernel, arch).graph;
      auto schedule = sched::schedule(graph, options);
      list.push_back({std::move(graph), std::move(schedule)});
    }
  return list;
}

std::vector<Event> flat(const Timeline& timeline) {
  std::vector<Event> events = timeline.tile_begin;
  for (const auto& step : timeline.steps) events.insert(events.end(), step.begin(), step.end());
  events.insert(events.end(), timeline.tile_end.begin(), timeline.tile_end.end());
  return events;
}

int count(const std::vector<Event>& events, EventKind kind, int ring = -1) {
  int found = 0;
  for (const Event& event : events) found += event.kind == kind && (ring < 0 || event.ring == ring);
  return found;
}

// Replays a role: what a call needs must have been observed before it.
void check_order(const Scheduled& s, const std::vector<Event>& events) {
  std::set<std::pair<int, int>> arrived, done, called;  // (ring or node, iteration)
  for (const Event& event : events) {
    if (event.kind == EventKind::wait_full) arrived.insert({event.ring, event.iteration});
    if (event.kind == EventKind::done) done.insert({event.node, event.iteration});
    if (event.kind == EventKind::release) CHECK(arrived.count({event.ring, event.iteration}) == 1);
    if (event.kind != EventKind::call || event.iteration < 0) continue;
    called.insert({event.node, event.iteration});
    for (const auto& edge : s.graph.edges) {
      if (edge.dst != event.node) continue;
      const auto& source = s.graph.nodes[static_cast<std::size_t>(edge.src)];
      if (edge.value >= 0) {
        const bool tile_scope = source.scope == graph::Scope::tile_begin;
        for (std::size_t r = 0; r < s.schedule.rings.size(); ++r)
          if (s.schedule.rings[r].value == edge.value)
            CHECK(arrived.count({static_cast<int>(r), tile_scope ? -1 : event.iteration}) == 1);
      }
      if (edge.blocking && source.async == graph::Async::matrix && event.iteration - edge.distance >= 0)
        CHECK(done.count({edge.src, event.iteration - edge.distance}) == 1);
    }
  }
}

std::vector<Event> shifted(std::vector<Event> events, int origin) {
  for (Event& event : events)
    if (event.kind != EventKind::matrix_wait && event.kind != EventKind::order_wait &&
        event.kind != EventKind::order_arrive)
      event.iteration += origin;
  return events;
}

/// The graph with its nodes in another order: the node that was order[i] is node i.
graph::Graph permuted(const graph::Graph& graph, const std::vector<std::size_t>& order) {
  graph::Graph other = graph;
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    other.nodes[i] = graph.nodes[order[i]];
    place[order[i]] = static_cast<int>(i);
  }
  for (graph::Edge& edge : other.edges) {
    edge.src = place[static_cast<std::size_t>(edge.src)];
    edge.dst = place[static_cast<std::size_t>(edge.dst)];
  }
  return other;
}

// The text's structure, run for a trip count.
std::vector<Event> expand(const codegen::Pattern& pattern, int n) {
  std::vector<Event> events = pattern.tile_begin;
  const auto append = [&](const std::vector<Event>& more) { events.insert(events.end(), more.begin(), more.end()); };
  if (n >= std::max(1, pattern.peel)) {
    for (const auto& step : pattern.prologue) append(step);
    for (int s = pattern.peel; s < n; ++s) append(shifted(pattern.steady, s));
    for (const auto& step : pattern.drain) append(shifted(step, n));
    append(shifted(pattern.drain_end, n));
  } else if (n > 0) {
    const Timeline& timeline = pattern.shorter[static_cast<std::size_t>(n)];
    for (const auto& step : timeline.steps) append(step);
    for (const Event& event : timeline.tile_end)
      if (event.iteration >= 0 || event.kind == EventKind::matrix_wait) events.push_back(event);
  } else {
    append(pattern.without);
  }
  append(pattern.tile_end);
  return events;
}

// One text for all steps, run for a trip count.
std::vector<Event> expand(const codegen::Pattern& pattern, const codegen::Rolled& rolled, int n) {
  std::vector<Event> events = pattern.tile_begin;
  const auto append = [&](const std::vector<codegen::Rolled::Guarded>& list, int at) {
    for (const auto& [from, event] : list)
      if (at >= from) events.push_back(shifted({event}, at).front());
  };
  for (int s = 0; s < n; ++s) append(rolled.body, s);
  append(rolled.end, n);
  if (n == 0 && !events.empty() && events.back().kind == EventKind::matrix_wait)
    events.pop_back();  // with nothing under way it returns at once
  events.insert(events.end(), pattern.tile_end.begin(), pattern.tile_end.end());
  return events;
}

/// A ring that is filled once a tile has no iteration, wherever in a loop it is handed back.
bool same(const Scheduled& s, const std::vector<Event>& a, const std::vector<Event>& b) {
  const auto once = [&](int ring) {
    return ring >= 0 &&
           s.graph.values[static_cast<std::size_t>(s.schedule.rings[static_cast<std::size_t>(ring)].value)].scope !=
               graph::Scope::iteration;
  };
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool numbered = a[i].kind != EventKind::matrix_wait && a[i].kind != EventKind::order_wait &&
                          a[i].kind != EventKind::order_arrive && !once(a[i].ring);
    if (a[i].kind != b[i].kind || a[i].node != b[i].node || a[i].ring != b[i].ring || a[i].pending != b[i].pending ||
        a[i].order != b[i].order)
      return false;
    if (numbered && a[i].iteration != b[i].iteration) return false;
  }
  return true;
}

/// Does a node of the role read or fill the value?
bool touches(const Scheduled& s, int role, int value) {
  for (const auto& edge : s.graph.edges)
    if (edge.value == value && (s.schedule.role[static_cast<std::size_t>(edge.src)] == role ||
                                s.schedule.role[static_cast<std::size_t>(edge.dst)] == role))
      return true;
  return false;
}

/// Events that order calls and slots. Waits for groups are numbers of groups, and turns name the last call there. A
/// turn stands before the waits of the first call, which may be taken in either order, and names no call.
std::vector<Event> ordered(std::vector<Event> events) {
  const auto is_turn = [](const Event& event) { return event.kind == EventKind::order_wait; };
  const auto call =
      std::find_if(events.begin(), events.end(), [](const Event& event) { return event.kind == EventKind::call; });
  std::for_each(events.begin(), std::stable_partition(events.begin(), call, is_turn),
                [](Event& event) { event.node = -1; });
  std::erase_if(events, [](const Event& event) {
    return event.kind == EventKind::matrix_wait || event.kind == EventKind::matrix_commit;
  });
  for (Event& event : events)
    if (event.kind == EventKind::order_arrive) event.node = -1;
  return events;
}

}  // namespace

TEST_CASE("for every trip count, each role waits before it reads and hands back every slot once") {
  for (const Scheduled& s : cases()) {
    CAPTURE(sched::to_text(s.graph, s.schedule));
    for (int n = 0; n <= 7; ++n) {
      CAPTURE(n);
      std::map<int, int> turns;  // order barrier waits, by barrier, of the first role seen
      for (std::size_t r = 0; r < s.schedule.roles.size(); ++r) {
        const auto events = flat(codegen::simulate(s.graph, s.schedule, static_cast<int>(r), n));
        check_order(s, events);
        for (std::size_t ring = 0; ring < s.schedule.rings.size(); ++ring) {
          const int fillings =
              s.graph.values[static_cast<std::size_t>(s.schedule.rings[ring].value)].scope == graph::Scope::iteration
                  ? n
                  : 1;
          const int index = static_cast<int>(ring);
          const bool consumes =
              count(events, EventKind::wait_full, index) > 0 || count(events, EventKind::release, index) > 0;
          const bool produces = count(events, EventKind::wait_empty, index) > 0;
          if (consumes) CHECK(count(events, EventKind::wait_full, index) == fillings);
          if (consumes) CHECK(count(events, EventKind::release, index) == fillings);
          if (produces) CHECK(count(events, EventKind::wait_empty, index) == fillings);
          if (produces)
            CHECK(count(events, EventKind::expect_full, index) + count(events, EventKind::publish, index) == fillings);
          if (fillings > 0)
            CHECK((consumes || produces) == touches(s, static_cast<int>(r), s.schedule.rings[ring].value));
        }
        CHECK(count(events, EventKind::order_wait) == count(events, EventKind::order_arrive));
        for (std::size_t b = 0; b < s.schedule.order_barriers.size(); ++b) {
          int waits = 0;
          bool member = false;
          for (const int role : s.schedule.order_barriers[b].roles) member = member || role == static_cast<int>(r);
          for (const Event& event : events)
            waits += event.kind == EventKind::order_wait && event.order == static_cast<int>(b);
          if (member && !turns.count(static_cast<int>(b))) turns[static_cast<int>(b)] = waits;
          if (member) CHECK(waits == turns[static_cast<int>(b)]);
        }
      }
    }
  }
}

TEST_CASE("queries are handed back once the last scores are there, before the last weights' product") {
  int looked_at = 0;
  for (const Scheduled& s : cases()) {
    const int last = s.graph.node_index("pv.0"), role = last < 0 ? -1 : s.schedule.role[static_cast<std::size_t>(last)];
    if (last < 0 || codegen::role_stage(s.graph, s.schedule, last) == 0) continue;
    for (const int n : {1, 2, 3, 6}) {
      CAPTURE(n);
      const auto events = flat(codegen::simulate(s.graph, s.schedule, role, n));
      const auto place = [&](EventKind kind, auto&& is) {
        const auto found = std::find_if(events.begin(), events.end(),
                                        [&](const Event& event) { return event.kind == kind && is(event); });
        return found - events.begin();
      };
      const auto of_queries = [&](const Event& event) {
        return s.schedule.rings[static_cast<std::size_t>(event.ring)].value == 0;
      };
      const auto last_of = [&](const char* name) {
        return [node = s.graph.node_index(name), n](const Event& event) {
          return event.node == node && event.iteration == n - 1;
        };
      };
      const auto handed_back = place(EventKind::release, of_queries);
      CHECK(place(EventKind::done, last_of("qk.0")) < handed_back);
      CHECK(handed_back < place(EventKind::done, last_of("pv.0")));
      ++looked_at;
    }
  }
  CHECK(looked_at > 0);
}

TEST_CASE("the pattern expands to the simulation for every trip count") {
  for (const Scheduled& s : cases()) {
    CAPTURE(sched::to_text(s.graph, s.schedule));
    for (std::size_t r = 0; r < s.schedule.roles.size(); ++r) {
      const auto pattern = codegen::find_pattern(s.graph, s.schedule, static_cast<int>(r));
      for (int n = 0; n <= 9; ++n) {
        CAPTURE(n);
        CHECK(same(s, expand(pattern, n), flat(codegen::simulate(s.graph, s.schedule, static_cast<int>(r), n))));
      }
    }
  }
}

TEST_CASE("where the first steps only lack waits, one body with guards is the simulation for every trip count") {
  int rolled_roles = 0;
  for (const Scheduled& s : cases()) {
    CAPTURE(sched::to_text(s.graph, s.schedule));
    for (std::size_t r = 0; r < s.schedule.roles.size(); ++r) {
      const auto pattern = codegen::find_pattern(s.graph, s.schedule, static_cast<int>(r));
      const auto rolled = codegen::roll(pattern);
      if (!rolled) continue;
      ++rolled_roles;
      for (int n = 0; n <= 9; ++n) {
        CAPTURE(n);
        CHECK(
            same(s, expand(pattern, *rolled, n), flat(codegen::simulate(s.graph, s.schedule, static_cast<int>(r), n))));
      }
    }
  }
  CHECK(rolled_roles >= 5);  // the consumers of products: 2 a schedule, or one that holds both
}

TEST_CASE("first steps that only lack products of earlier iterations are the repeating step with conditions") {
  int roles = 0;
  for (const Scheduled& s : cases()) {
    CAPTURE(sched::to_text(s.graph, s.schedule));
    for (std::size_t r = 0; r < s.schedule.roles.size(); ++r) {
      const auto pattern = codegen::find_pattern(s.graph, s.schedule, static_cast<int>(r));
      if (!codegen::begins_as_it_repeats(pattern)) continue;
      ++roles;
      for (int step = 0; step < pattern.peel; ++step) {
        std::vector<Event> run;
        for (const Event& event : pattern.steady)
          if (!codegen::of_earlier(event) || step >= -event.iteration) run.push_back(event);
        const auto at = static_cast<std::size_t>(step);
        CHECK(ordered(run) == ordered(codegen::relative(pattern.prologue[at], step)));
      }
      codegen::Pattern other = pattern;
      std::erase_if(other.prologue[0], [](const Event& event) { return event.kind == EventKind::release; });
      CHECK_FALSE(codegen::begins_as_it_repeats(other));
      other.prologue[0] = pattern.prologue[0];
      std::swap(other.prologue[0].front(), other.prologue[0].back());
      CHECK_FALSE(codegen::begins_as_it_repeats(other));
      other.prologue[0] = pattern.prologue[0];
      if (std::erase_if(other.prologue[0], [](const Event& event) { return event.kind == EventKind::order_wait; }) > 0)
        CHECK_FALSE(codegen::begins_as_it_repeats(other));
    }
  }
  CHECK(roles >= 2);  // the consumers of attention
}

TEST_CASE("steps that lack a call, or a wait for a ring, are not made one body") {
  codegen::Pattern pattern;
  pattern.peel = 1;
  const Event call{.kind = EventKind::call, .node = 0, .iteration = 0},
      fence{.kind = EventKind::matrix_fence, .node = 0, .iteration = 0};
  const Event wait{.kind = EventKind::matrix_wait, .pending = 1},
      release{.kind = EventKind::release, .ring = 0, .iteration = -1};
  pattern.steady = {wait, release, fence, call};
  pattern.prologue = {{fence, call}};
  pattern.shorter.resize(1);
  REQUIRE(codegen::roll(pattern));
  CHECK(codegen::roll(pattern)->body.front().first == 1);
  pattern.prologue = {{call}};
  CHECK_FALSE(codegen::roll(pattern));
  pattern.prologue = {{call, fence}};
  CHECK_FALSE(codegen::roll(pattern));
  pattern.prologue = {{fence, call}};
  pattern.drain.emplace_back();
  CHECK_FALSE(codegen::roll(pattern));
}

TEST_CASE(
    "the slot of a sum is asked for before the loop, wherever in the list of nodes the product stands that fills it") {
  const arch::Arch& arch = *arch::find("sm_100a");
  ops::GemmKernel kernel;
  kernel.tile = ops::choose_gemm(ops::gemm_sizes(GemmConfig{}), kernel, arch).tile;
  const graph::Graph graph = ops::gemm_candidate(kernel, arch).graph;
  const auto sum = std::find_if(graph.edges.begin(), graph.edges.end(), [&](const graph::Edge& edge) {
    return edge.value >= 0 && graph.values[static_cast<std::size_t>(edge.value)].scope != graph::Scope::iteration &&
           graph.nodes[static_cast<std::size_t>(edge.src)].scope == graph::Scope::iteration;
  });
  REQUIRE(sum != graph.edges.end());
  std::vector<std::size_t> order(graph.nodes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t turn = 0; turn < order.size(); ++turn) {
    std::rotate(order.begin(), order.begin() + 1, order.end());
    Scheduled s{permuted(graph, order), {}};
    sched::Options options;
    options.copies_apart = true;
    s.schedule = sched::schedule(s.graph, options);
    const int product = s.graph.node_index(graph.nodes[static_cast<std::size_t>(sum->src)].name);
    CAPTURE(product);
    const Timeline timeline =
        codegen::simulate(s.graph, s.schedule, s.schedule.role[static_cast<std::size_t>(product)], 4);
    int asked = 0;
    for (const Event& event : timeline.tile_begin) {
      if (event.kind != EventKind::wait_empty || event.node != product) continue;
      ++asked;
      CHECK(s.schedule.rings[static_cast<std::size_t>(event.ring)].value == sum->value);
    }
    CHECK(asked == 1);
    check_order(s, flat(timeline));
  }
}
