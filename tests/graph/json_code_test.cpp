// Protects the part of the format that code needs: bodies, contexts, scopes, values, the unit's own names. An op's
// graph survives being written and read, down to the text of its kernel.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "graph/code.hpp"
#include "graph/json_code.hpp"
#include "graph/json_fields.hpp"
#include "graph/json_reader.hpp"
#include "ops/op.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

namespace {

using namespace tj;
using testing::has;

std::string file_text(const char* name) {
  std::ifstream file(TJ_REPO_DIR "/tests/graph/data/" + std::string(name), std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
std::string coded() { return file_text("coded.json"); }

void refuses(std::string_view piece, std::string_view other, const std::string& part, const char* name = "coded.json") {
  std::string text = file_text(name);
  const std::size_t at = text.find(piece);
  REQUIRE_MESSAGE(at != std::string::npos, piece);
  CAPTURE(part);
  const Error error = testing::error_of([&] { graph::read_json(text.replace(at, piece.size(), other), "mine"); });
  CHECK(error.stage == Stage::graph);
  CHECK(error.code == Code::invalid_argument);
  CHECK_MESSAGE(has(error.message, part), error.message);
}

/// The unit without the lines that name graph and machine.
std::string unit_text(const graph::Graph& graph, bool one_role = false) {
  sched::Options options;
  options.mixed_roles = one_role;
  if (one_role) options.max_roles = 1;
  const std::string text = codegen::emit(graph, sched::schedule(graph, options), "sm90").text;
  return text.substr(text.find('\n'));
}

}  // namespace

TEST_CASE("every field that code needs is read") {
  const graph::Graph graph = graph::read_json(coded());
  CHECK(graph.namespace_name == "user::twice");
  CHECK(graph.includes == std::vector<std::string>{"twice.cuh"});
  CHECK(graph.params_type == "user::twice::Params");
  REQUIRE(graph.config.size() == 3);
  CHECK(graph.config[0] == std::pair<std::string, std::string>("static constexpr int kRows", "64"));
  CHECK(graph.config[1] == std::pair<std::string, std::string>("static constexpr bool kMasked", "false"));
  CHECK(graph.config[2] == std::pair<std::string, std::string>("using Element", "tj::dev::F16"));
  CHECK(graph.machine.register_roles);
  CHECK(graph.machine.max_registers_per_thread == 240);
  const graph::Node &load = graph.nodes[0], &zero = graph.nodes[1], &mma = graph.nodes[2], &act = graph.nodes[3],
                    &keep = graph.nodes[4];
  CHECK(load.body == "load");
  CHECK(load.async == graph::Async::copy);  // variable latency
  CHECK(load.warps == 1);
  CHECK(load.cycles == 1);
  CHECK(load.reservations[0].cycles == 40);
  CHECK(zero.scope == graph::Scope::tile_begin);
  CHECK(zero.body == "zero");
  CHECK(zero.warps == 4);
  CHECK(mma.context == "Worker");
  CHECK(mma.async == graph::Async::matrix);
  CHECK(mma.warp_cycles == 60);
  CHECK(mma.cycles == 60);
  CHECK(mma.latency == 290);
  CHECK(act.range == graph::Range{"Fast", "fast_begin", "", 2});
  CHECK(keep.scope == graph::Scope::tile_end);
  REQUIRE(graph.values.size() == 1);
  CHECK(graph.values[0].slot_bytes == 8192);
  CHECK(graph.values[0].min_slots == 2);
  CHECK(graph.edges[0].value == 0);
  CHECK_FALSE(graph.edges[0].same_role);
  CHECK(graph.edges[1].same_role);  // no value: registers, which stay in their role
  CHECK(graph::to_json(graph::read_json(graph::to_json(graph))) == graph::to_json(graph));
  CHECK(sched::verify(graph, sched::schedule(graph)).empty());
}

TEST_CASE("what copies bring into a slot is read, written, emitted, and at most the slot") {
  std::string text = coded();
  const std::string slot = "\"slot_bytes\": 8192";
  REQUIRE(text.find(slot) != std::string::npos);
  text.replace(text.find(slot), slot.size(), slot + ", \"copied_bytes\": 2048");
  const graph::Graph graph = graph::read_json(text);
  CHECK(graph.values[0].copied_bytes == 2048);
  CHECK(graph::read_json(graph::to_json(graph)).values[0].copied_bytes == 2048);
  CHECK(has(unit_text(graph), "kSlotBytes = 8192, kCopiedBytes = 2048"));
  CHECK(has(unit_text(graph::read_json(coded())), "kSlotBytes = 8192, kCopiedBytes = 8192"));
  refuses(slot, slot + ", \"copied_bytes\": 8193", "values[0].copied_bytes is 8193");
}

TEST_CASE("a value that nobody names has as many slots as its machine has room for, and at least one") {
  const auto slots = [](std::int64_t held, std::int64_t room) {
    graph::Graph graph;
    graph.nodes.resize(2);
    graph.nodes[0].memory_bytes["SMEM"] = held;
    if (room > 0) graph.machine.memory_bytes["SMEM"] = room;
    graph.edges.resize(1);
    graph.edges[0].src = 0;
    graph.edges[0].dst = 1;
    const graph::ImpliedValues implied = graph::implied_values(graph);
    REQUIRE(implied.values.size() == 1);
    CHECK(implied.of_edge == std::vector<int>{0});
    CHECK(implied.values[0].slot_bytes == held);
    return implied.values[0].max_slots;
  };
  CHECK(slots(100, 1000) == 10);
  CHECK(slots(100, 1099) == 10);
  CHECK(slots(100, 99) == 1);
  CHECK(slots(1, 1 << 20) == graph::kMaxSlots);
  CHECK(slots(1, 0) == graph::kMaxSlots);
}

TEST_CASE("clusters and what their blocks share are read, written, listed, emitted") {
  const graph::Graph graph = graph::read_json(file_text("clustered.json"));
  CHECK(graph.cluster == 4);
  CHECK(graph.machine.max_cluster == 8);
  CHECK(graph.values[0].shared_by == 2);
  CHECK(graph.values[0].shared_stride == 1);
  CHECK(graph.values[1].shared_stride == 2);
  CHECK(graph.values[2].shared_by == 1);
  CHECK(graph::to_json(graph::read_json(graph::to_json(graph))) == graph::to_json(graph));
  CHECK(graph::read_json(graph::to_json(graph)).values[1].shared_stride == 2);
  CHECK(has(graph::to_text(graph), ", clusters of 4 blocks"));
  CHECK(has(graph::to_text(graph), "shared by 2 blocks 2 apart"));
  CHECK(!has(graph::to_text(graph), ", within a warp"));
  graph::Graph of_warps = graph;
  of_warps.values.front().within_warp = true;
  CHECK(has(graph::to_text(of_warps), ", within a warp"));
  const codegen::Unit unit = codegen::emit(graph, sched::schedule(graph), "sm90");
  CHECK(unit.shape.cluster == 4);
  CHECK(has(unit.text,
            "kSharers = 2, kSharerStride = 2;\n    static constexpr unsigned kFullArrivals = 1, kEmptyArrivals = 2;"));
  CHECK(has(unit.text, "kSharers = 1;\n    static constexpr unsigned kFullArrivals = 1, kEmptyArrivals = 1;"));
  CHECK(has(unit.text, "dev::share<RingRows>()"));
  CHECK(has(unit.text, "dev::share<RingColumns>()"));
  CHECK_FALSE(has(unit.text, "dev::share<RingOwn>()"));
  CHECK_FALSE(has(unit.text, "block_sync"));
  CHECK(has(unit.text, "dev::cluster_sync<2>();"));
  CHECK(has(unit.text, ", RingRows>(shared, base);\n      dev::wait_drained<"));
  CHECK_FALSE(has(unit.text, ", RingOwn>(shared, base);\n"));
  CHECK(codegen::emit(graph::read_json(coded()), sched::schedule(graph::read_json(coded())), "sm90").shape.cluster ==
        1);
}

TEST_CASE("what a block's only tile shares once is not waited for at the end: nobody hands it back") {
  graph::Graph graph = graph::read_json(file_text("clustered.json"));
  graph.values[0].scope = graph::Scope::tile_begin;
  graph.values[0].min_slots = graph.values[0].max_slots = 1;
  for (const graph::Edge& edge : graph.edges)
    if (edge.value == 0) graph.nodes[static_cast<std::size_t>(edge.src)].scope = graph::Scope::tile_begin;
  CHECK(has(codegen::emit(graph, sched::schedule(graph), "sm90").text, "RingRows>(shared, tiles);"));
  graph.walk = graph::Walk::one_tile;
  const std::string text = codegen::emit(graph, sched::schedule(graph), "sm90").text;
  CHECK(has(text, "RingRows>"));
  std::size_t drains = 0;
  for (std::size_t at = text.find("dev::wait_drained<"); at != std::string::npos;
       at = text.find("dev::wait_drained<", at + 1))
    drains += text.substr(at, 60).find("RingRows") != std::string::npos;
  CHECK(drains == 0);
}

TEST_CASE("clusters that no machine has, and sharers that do not come out even, are refused by name") {
  const char* file = "clustered.json";
  refuses("\"cluster\": 4", "\"cluster\": 9", "cluster is 9; it must be a whole number from 1 to 8", file);
  refuses("\"cluster\": 4", "\"cluster\": 0", "cluster is 0", file);
  refuses(", \"max_cluster\": 8", "", "cluster is 4; it must be a whole number from 1 to 1", file);
  refuses("\"max_cluster\": 8", "\"max_cluster\": 17", "machine.max_cluster is 17", file);
  refuses("\"shared_by\": 2", "\"shared_by\": 5", "values[0].shared_by is 5; it must be a whole number from 1 to 4",
          file);
  refuses("\"shared_by\": 2", "\"shared_by\": 3",
          "value 'rows' is shared by 3 blocks whose ranks are 1 apart; allowed is 1, or a distance whose product with "
          "3 divides 4",
          file);
  refuses("\"shared_stride\": 2", "\"shared_stride\": 4",
          "value 'columns' is shared by 2 blocks whose ranks are 4 apart", file);
  refuses("\"shared_by\": 2, \"shared_stride\": 2", "\"shared_stride\": 2",
          "value 'columns' is shared by 1 blocks whose ranks are 2 apart", file);
  refuses("\"latency\": 600, \"variable_latency\": true", "\"latency\": 600",
          "node 'load_rows', which fills it, is no copy", file);
  refuses("\"shared_by\": 2}", "\"shared_by\": 2, \"shared_with\": 1}", "values[0] has the key 'shared_with'", file);
  graph::Graph graph = graph::read_json(file_text(file));
  graph.machine.max_cluster = 2;
  CHECK(has(testing::error_of([&] { check(graph); }).message,
            "runs in clusters of 4 blocks; allowed on machine 'custom' are 1 to 2"));
  graph.cluster = 0;
  CHECK(has(testing::error_of([&] { check(graph); }).message, "runs in clusters of 0 blocks"));
}

TEST_CASE("a written and read graph of an op gives the same kernel") {
  const arch::Arch* sm90 = arch::find("sm_90a");
  REQUIRE(sm90 != nullptr);
  for (const ops::Op* op : ops::all()) {
    const ops::Request request = op->requests({}).front();
    CAPTURE(request.name);
    for (const ops::Candidate& candidate : op->candidates(request, *sm90)) {
      check_code(candidate.graph);
      const std::string text = graph::to_json(candidate.graph);
      const graph::Graph again = graph::read_json(text, candidate.graph.name);
      CHECK(graph::to_json(again) == text);
      CHECK(unit_text(again, candidate.one_role) == unit_text(candidate.graph, candidate.one_role));
    }
  }
}

TEST_CASE("what an op's graph says of its launch and its name is written and read") {
  bool one_tile_a_block = false, holds_memory = false;
  for (const auto& [op, name] : {std::pair("fmha", "sm_90a"), {"gemm", "sm_90a"}, {"fmha", "sm_120a+smem=64K"}}) {
    const arch::Arch& target = arch::parse_arch(name);
    const ops::Request request = ops::find(op)->requests_for({}, target).front();
    const graph::Graph graph = ops::find(op)->candidates(request, target).front().graph;
    CAPTURE(graph.name);
    const graph::Graph again = graph::read_json(graph::to_json(graph), "not this");
    CHECK(again.name == graph.name);
    CHECK(again.walk == graph.walk);
    CHECK(again.least_smem_bytes == graph.least_smem_bytes);
    CHECK(again.flops_per_iteration == graph.flops_per_iteration);
    CHECK(again.overhead_cycles == graph.overhead_cycles);
    CHECK(graph.flops_per_iteration > 0);
    one_tile_a_block |= !graph.walks();
    holds_memory |= graph.least_smem_bytes > 0;
  }
  CHECK(one_tile_a_block);
  CHECK(holds_memory);
  graph::Graph few = graph::read_json(coded());
  few.most_iterations = 1;
  CHECK(graph::read_json(graph::to_json(few)).most_iterations == 1);
  CHECK(unit_text(graph::read_json(graph::to_json(few))) == unit_text(few));
  CHECK(unit_text(few) != unit_text(graph::read_json(coded())));
}

TEST_CASE("nodes of one role that merge wait for each other's turn, and the last one sets counters back") {
  graph::Graph graph = graph::read_json(coded());
  graph.walk = graph::Walk::split;
  graph.piece_bytes = 256;
  graph.nodes.back().merges = true;
  graph::Node second = graph.nodes.back();
  second.name = "keep.1";
  graph.nodes.push_back(second);
  graph::Edge edge = graph.edges.back();
  edge.src = edge.dst;
  edge.dst = static_cast<int>(graph.nodes.size()) - 1;
  graph.edges.push_back(edge);
  const std::string text = unit_text(graph);
  const auto count = [&](std::string_view part) {
    int times = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
    return times;
  };
  CHECK(count("SplitWalk>(walk, drawn, piece, 1);") == 1);
  CHECK(count("SplitWalk>(walk, drawn, piece, 2);") == 1);
  CHECK(count("dev::piece_left<") == 2);
  CHECK(count("dev::pieces_read<") == 1);
  CHECK(text.rfind("dev::piece_left<") < text.find("dev::pieces_read<"));
  graph.walk = graph::Walk::persistent;
  CHECK(unit_text(graph).find("piece") == std::string::npos);
  graph.nodes.front().merges = true;
  CHECK_THROWS_WITH(graph::check(graph), doctest::Contains("merges sums; allowed are nodes of the tile's end"));
}

TEST_CASE("a launch that cannot be is refused by place") {
  const std::string other = "\"machine\": ";
  refuses(other, "\"walk\": true, " + other, "walk is true; allowed are one_tile, persistent, dynamic, split, sliced");
  refuses(other, "\"walk\": \"split\", \"piece_bytes\": 256, " + other,
          "has the walk 'split' and no node that merges; give it both");
  refuses(other, "\"piece_bytes\": -1, " + other, "piece_bytes is -1; it must be a whole number from 0");
  refuses(other, "\"piece_bytes\": 100, " + other,
          "has 100 bytes a piece; allowed are multiples of 256 up to 16777216");
  refuses(other, "\"piece_bytes\": 16777472, " + other,
          "piece_bytes is 16777472; it must be a whole number from 0 to 16777216");
  refuses(other, "\"slices\": 17, " + other, "slices is 17; it must be a whole number from 0 to 16");
  refuses(other, "\"slices\": 2, " + other, "has 2 slices and the walk 'persistent'; allowed is 0");
  refuses(other, "\"most_iterations\": -1, " + other, "most_iterations is -1; it must be a whole number from 0");
  refuses(other, "\"least_smem_bytes\": 1.5, " + other, "least_smem_bytes is 1.5; it must be a whole number from 0");
  refuses(other, "\"flops_per_iteration\": -1, " + other, "flops_per_iteration is -1; it must be a number from 0");
  refuses(other, "\"overhead_cycles\": \"9\", " + other, "overhead_cycles is \"9\"; it must be a number from 0");
  refuses(other, "\"name\": \"\", " + other, "name is ''; a name has 1 to 128 bytes");
}

TEST_CASE("a kernel that stores out of shared memory survives being written and read, and verifies") {
  const arch::Arch& hopper = *arch::find("sm_90a");
  for (const char* aligned : {"true", "false"}) {
    CAPTURE(aligned);
    const ops::Request request =
        ops::find("gemm")->requests({{"dtype", {"f16"}}, {"tile", {"128x128x64"}}, {"d-aligned", {aligned}}}).front();
    const graph::Graph graph = ops::find("gemm")->candidates(request, hopper).front().graph;
    const graph::Graph again = graph::read_json(graph::to_json(graph), graph.name);
    CHECK(unit_text(graph) == unit_text(again));
    const auto problems = sched::verify(graph, sched::schedule(graph));
    CHECK_MESSAGE(problems.empty(), problems.front());
  }
}

TEST_CASE("what leaves shared memory does so in the scope in which that is filled, and not at the tile's begin") {
  const arch::Arch& hopper = *arch::find("sm_90a");
  const ops::Request request = ops::find("gemm")->requests({{"dtype", {"f16"}}, {"tile", {"128x128x64"}}}).front();
  graph::Graph graph = ops::find("gemm")->candidates(request, hopper).front().graph;
  const int put = graph.node_index("put_box.0");
  REQUIRE(put >= 0);
  const auto message = [&](graph::Graph changed) {
    return testing::error_of([&] {
             graph::check(changed);
             graph::check_code(changed);
           })
        .message;
  };
  graph::Graph changed = graph;
  changed.nodes[static_cast<std::size_t>(put)].scope = graph::Scope::iteration;
  CHECK_MESSAGE(has(message(changed), "goes back to an earlier scope"), message(changed));
  changed.nodes[static_cast<std::size_t>(put)].scope = graph::Scope::tile_begin;
  CHECK_MESSAGE(has(message(changed), "at the tile's begin"), message(changed));
  changed = graph;
  changed.edges.push_back({graph.node_index("load_a"), put, 0, 0, false, 0, 0, false});
  CHECK_MESSAGE(has(message(changed), "filled in every iteration"), message(changed));
}

TEST_CASE("a machine that the caller brings has a name") {
  graph::Machine real;
  real.name = "sm_real";
  real.units = {{"TC", 2}};
  real.register_roles = true;
  const std::string text = R"({"machine": "sm_real", "instructions": [{"name": "a", "cycles": 1, "fu": "TC"}]})";
  const graph::Graph graph = graph::read_json(text, "mine", {real});
  CHECK(graph.machine.name == "sm_real");
  CHECK(graph.machine.register_roles);
  CHECK(has(graph::to_json(graph, {real}), "\"machine\": \"sm_real\""));
  const Error error = testing::error_of([&] { graph::read_json(text, "mine"); });
  CHECK_MESSAGE(has(error.message, "machine is 'sm_real'; allowed are hopper, blackwell, or an object"), error.message);
}

TEST_CASE("what code could not hold is refused by place") {
  refuses("\"async\": \"matrix\"", "\"async\": \"wgmma\"",
          "instructions[2].async is \"wgmma\"; allowed are none, copy, matrix");
  refuses("\"scope\": \"tile_end\"", "\"scope\": 2",
          "instructions[4].scope is 2; allowed are tile_begin, iteration, tile_end");
  refuses("\"copy\": 0", "\"copy\": -1", "instructions[2].copy is -1");
  refuses("\"warps\": 4", "\"warps\": 0", "instructions[2].warps is 0");
  refuses("\"context\": \"Loader\"", "\"registers\": 0", "node 'load' has context ''");
  refuses("\"body\": \"zero\"", "\"body\": \"zero()\"", "node 'zero.0' has body 'zero()'");
  refuses("\"value\": \"tile\"", "\"value\": \"tail\"", "edges[0].value is 'tail', which no entry of values is called");
  refuses("\"scope\": \"iteration\"", "\"scope\": \"tile_begin\"",
          "value 'tile' and node 'load', which fills it, differ in scope");
  refuses("\"max_slots\": 4", "\"max_slots\": 1", "values[0].max_slots is 1; it must be a whole number from 2");
  refuses("\"alignment\": 1024", "\"alignment\": 48", "value 'tile' has alignment 48");
  refuses("\"delay\": 290", "\"delay\": -1",
          "edge 'mma.0' -> 'act.0' is blocking and has delay -1; in code it must be at least 0");
  refuses("\"delay\": 600", "\"delay\": -1", "edge 'load' -> 'mma.0' carries a value and has delay -1");
  refuses("user::twice\"", "user:twice\"", "its namespace is 'user:twice'");
  refuses("\"twice.cuh\"", "\"../twice.cuh\"", "includes '../twice.cuh'");
  refuses("[\"twice.cuh\"]", "[]", "has no includes");
  refuses("\"params_type\": \"user::twice::Params\",", "", "code.params_type is missing");
  refuses("\"kRows\": 64", "\"kRows\": 6.5", "code.config.kRows is 6.5");
  refuses("\"kRows\": 64", "\"k Rows\": 64", "config has the member 'k Rows'");
  refuses("\"tj::dev::F16\"", "\"float; int x\"", "config member 'Element' is 'float; int x'");
  refuses("\"tj::dev::F16\"", "[]", "code.config.Element is an array of 0");
  refuses("\"issue_cycles\": 60", "\"issue_cycles\": -60", "instructions[2].issue_cycles is -60");
  refuses("\"register_step\": 8", "\"register_step\": 0", "machine.register_step is 0");
}

TEST_CASE("names that would end a comment or not be a type are refused") {
  graph::Graph graph = graph::read_json(coded());
  graph.nodes[1].name = "zero\\";
  CHECK(has(testing::error_of([&] { check_code(graph); }).message, "node 'zero\\' has a name that code cannot show"));
  graph.nodes[1].name = "zero";
  graph.values[0].name = "a tile";
  CHECK(has(testing::error_of([&] { check_code(graph); }).message, "value 'a tile' has a name that code cannot show"));
}

TEST_CASE("a value needs a list of values") {
  const std::string text =
      R"({"machine": "hopper", "instructions": [{"name": "a", "cycles": 1}, {"name": "b", "cycles": 1}], "edges": [{"src": "a", "dst": "b", "delay": 1, "value": "v"}]})";
  CHECK(has(testing::error_of([&] { graph::read_json(text); }).message,
            "edges[0].value is 'v', but the document has no values"));
}

TEST_CASE("the writer refuses a config member that it has no field for") {
  graph::Graph graph = graph::read_json(coded());
  graph.config.emplace_back("static constexpr float kScale", "1.5f");
  const Error error = testing::error_of([&] { graph::to_json(graph); });
  CHECK(error.code == Code::unsupported);
  CHECK_MESSAGE(has(error.message, "kScale"), error.message);
}
