// Protects a schedule's text: each line of it, as people and other programs read it.
#include <doctest/doctest.h>

#include <string>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace {

using namespace tj;

graph::Node node(const char* name, graph::Scope scope) {
  graph::Node made;
  made.name = name;
  made.scope = scope;
  return made;
}

graph::Graph three_roles() {
  graph::Graph graph;
  graph.name = "turns";
  graph.machine.name = "m";
  graph.machine.units = {{"ALU", 1}, {"TC", 1}};
  graph.nodes = {node("load", graph::Scope::iteration),  node("clear", graph::Scope::tile_begin),
                 node("mma", graph::Scope::iteration),   node("add", graph::Scope::iteration),
                 node("other", graph::Scope::iteration), node("store", graph::Scope::tile_end)};
  graph::Value one, two;
  one.name = "x";
  one.slot_bytes = 1024;
  two.name = "y";
  two.slot_bytes = 16;
  graph.values = {one, two};
  return graph;
}

sched::Schedule schedule_of_three() {
  sched::Schedule schedule;
  schedule.ii = 10;
  schedule.length = 35;
  schedule.res_mii = 9;
  schedule.rec_mii = 4;
  schedule.proven_ii = true;
  schedule.certificate = "TC is busy";
  schedule.search_nodes = 7;
  schedule.solve_ms = 0.25;
  schedule.cycle = {3, 0, 12, 20, 30, 0};
  schedule.role = {0, 1, 1, 1, 2, 1};
  schedule.roles.resize(3);
  schedule.roles[0].name = "copy";
  schedule.roles[0].warps = 1;
  schedule.roles[0].nodes = {0};
  schedule.roles[1].name = "first";
  schedule.roles[1].warps = 4;
  schedule.roles[1].registers = 128;
  schedule.roles[1].nodes = {1, 2, 3, 5};
  schedule.roles[2].name = "second";
  schedule.roles[2].warps = 4;
  schedule.roles[2].nodes = {4};
  schedule.rings = {{0, 2, 0, {1, 2}}, {1, 1, 1, {2}}};
  schedule.order_barriers = {{1, {1, 2}, {{2, 3}, {4}}}};
  return schedule;
}

}  // namespace

TEST_CASE("bounds, roles with their nodes, rings and turns") {
  CHECK(sched::to_text(three_roles(), schedule_of_three()) == R"(graph turns on m
II 10 (proven), length 35 (not proven), ResMII 9, RecMII 4
certificate: TC is busy
search: 7 nodes, 0.250 ms
role copy: 1 warp
  load             cycle      3  stage 0
role first: 4 warps, 128 registers a thread
  clear            once, before the loop
  mma              cycle     12  stage 1
  add              cycle     20  stage 2
  store            once, after the loop
role second: 4 warps
  other            cycle     30  stage 3
tile: n iterations take n * 10 + 3 cycles (proven) from n = 2 on, 2, 3, 23 where n is 0, 1, 2; a tile alone n * 10 + 3
tile certificate: clear -> first's loop (order) -> mma (order) -> add (order) -> first's loop's end (loop) -> store (order) -> first's end (order) -> first's begin (order, next tile) -> clear (order)
ring x: 2 slots of 1024 bytes, copy -> first second
ring y: 1 slot of 16 bytes, first -> second
turns on TC: first (mma add), then second (other)
)");
}

TEST_CASE("the title names pairs and blocks side by side") {
  graph::Graph graph = three_roles();
  graph.pairs = true;
  graph.blocks_per_sm = 2;
  CHECK(sched::title(graph) == "turns on m, pairs of blocks, 2 blocks an SM");
}
