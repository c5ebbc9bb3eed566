// Protects what AMD's kernels are predicted by, which no result shows: units that attention's nodes reserve, the
// interval that these allow, registers of what is on its way, cycles of a product's iteration, and which tiles follow
// from them. All but the tiles is computed here from the arch's facts and a tile's sizes alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/amd_kernel.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/warps.hpp"
#include "sched/modulo/mii.hpp"
#include "sched/modulo/problem.hpp"

using namespace tj;
using graph::Graph;
using graph::Node;

namespace {

constexpr const char* kArchs[] = {"gfx1100", "gfx1201", "gfx90a", "gfx942"};
using Held = std::map<std::string, std::int64_t>;  ///< cycles of units

std::int64_t up(double value) { return static_cast<std::int64_t>(std::ceil(value)); }

const Node& node_of(const Graph& graph, const std::string& name) {
  const auto found =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.body == name; });
  REQUIRE_MESSAGE(found != graph.nodes.end(), name);
  return *found;
}

Held held_by(const Graph& graph, const std::string& name) {
  Held held;
  for (const graph::Reservation& use : node_of(graph, name).reservations)
    held[graph.machine.units[static_cast<std::size_t>(use.unit)].name] += std::int64_t{use.cycles} * use.count;
  return held;
}

/// The units that attention's nodes are to hold, in a tile with so many rows and keys.
std::map<std::string, Held> wanted(const arch::Arch& arch, double rows, double keys, double width, double warps) {
  const auto fact = [&](const char* name) { return arch.fact(name); };
  const double scores = rows * keys, operand_bytes = keys * width * 2, shared = fact("shared_bytes_per_cycle");
  const double product = 2 * scores * width / fact("matrix_flops_per_cycle"),
               loads = operand_bytes * warps * fact("operand_copies") / shared;
  const double lanes = arch.has_fact("matrix_lane_share") ? product * fact("matrix_lane_share") : 0;
  std::map<std::string, Held> all;
  all["qk"] = {{"TC", up(product)}, {"LSU", up(loads)}};
  if (lanes > 0) all["qk"]["ALU"] = up(lanes);
  all["row_max"] = {{"ALU", up(scores / fact("minmax_per_cycle") + rows * width / 4 / fact("f32_per_cycle"))}};
  all["pv"] = {{"TC", up(product)},
               {"LSU", up(loads)},
               {"EXP", up(scores / fact("exp2_per_cycle"))},
               {"ALU", up(lanes + scores * (2 / fact("f32_per_cycle") + 0.5 / fact("convert_per_cycle")))}};
  all["put_k"] = {{"LSU", up(operand_bytes / shared)}};
  all["put_v"] = {{"LSU", up(2 * operand_bytes / shared)}, {"ALU", up(operand_bytes / 4 / fact("f32_per_cycle"))}};
  all["load_k"] = all["load_v"] = {};  // threads wait for what they load, no unit
  return all;
}

void check_attention(const arch::Arch& arch, const ops::Candidate& candidate) {
  const Graph& graph = candidate.graph;
  const auto of = [&](const char* name) { return test::constant_of(graph, name); };
  const int warps = of("kWarps"), keys = of("kBlockN"), width = of("kHeadDim"), rows = warps * of("kRowBlocks") * 16;
  CAPTURE(arch.name);
  CAPTURE(graph.name);
  Held total;
  for (const auto& [node, held] : wanted(arch, rows, keys, width, warps)) {
    const std::string& name = node;  // clang 14 captures no binding
    CAPTURE(name);
    CHECK(held_by(graph, name) == held);
    for (const auto& [unit, cycles] : held) total[unit] += cycles;
  }
  // Blocks side by side share an SM's units.
  const auto busiest =
      std::max_element(total.begin(), total.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::vector<int> one_role(graph.nodes.size(), 0);
  const sched::Problem problem =
      sched::make_problem(graph, one_role, sched::SlotCaps(graph.values.size(), 0), false, {});
  CHECK(sched::resource_bound(problem).ii == busiest->second * graph.blocks_per_sm);
  // A block of keys, or of values, spread over the threads, in words.
  const int threads = warps * arch.warp_size;
  for (const char* name : {"load_k", "load_v"}) CHECK(node_of(graph, name).registers == keys * width * 2 / 4 / threads);
  CHECK(node_of(graph, "qk").registers == rows * keys / threads);
  CHECK(node_of(graph, "pv").registers >=
        rows * width / threads + static_cast<int>(rows * width * arch.fact("operand_copies")) / 2 / threads);
}

/// Cycles that an iteration of K costs, of a product of one tile: the busier of matrix unit and path to shared memory,
/// or what copies take.
double wanted_iteration(const arch::Arch& arch, const ops::GemmTile& tile) {
  const ops::GemmWarps warps = ops::gemm_warps(tile);
  const double m = tile.block_m, n = tile.block_n, k = tile.block_k, shared = arch.fact("shared_bytes_per_cycle"),
               count = warps.m * warps.n;
  const std::int64_t matrix = up(2 * m * n * k / arch.fact("matrix_flops_per_cycle")),
                     loads = up((m / warps.m + n / warps.n) * k * 2 * count / shared),
                     copies = up((m + n) * k * 2 / shared);
  const double late = ops::gemm_warp_slots(tile, arch, ops::gemm_blocks_per_sm(tile, arch)) > 2
                          ? 1
                          : 1.1;  // a copy goes out one iteration ahead: gemm/warps.cpp says where that was measured
  const double busy =
      std::ceil(late * static_cast<double>(std::max(matrix, loads + copies)) + arch.fact("matrix_group_cycles"));
  return std::max(busy, (m + n) * k * 2 / 1024 * arch.fact("thread_copy_cycles_per_kb"));
}

/// Predicted cycles of the tile as a whole; empty where the arch does not serve it.
std::optional<double> predicted(const arch::Arch& arch, const ops::GemmSizes& sizes, const ops::GemmTile& tile) {
  for (const ops::RankedGemm& each : ops::rank_gemm(sizes, {}, arch))
    if (each.choice.parts == 1 && ops::gemm_tiles()[static_cast<std::size_t>(each.choice.tile)] == tile)
      return each.cycles;
  return std::nullopt;
}

std::string taken(const arch::Arch& arch, std::int64_t m, std::int64_t n, std::int64_t k) {
  return ops::gemm_choice_name(ops::choose_gemm({m, n, k, 1}, {}, arch));
}

}  // namespace

TEST_CASE(
    "attention reserves units for what its nodes do, which bounds its interval, and registers for what is on its way") {
  int checked = 0;
  for (const char* name : kArchs)
    for (const int head_dim : {64, 128})
      for (const bool causal : {false, true})
        for (const ops::Candidate& candidate :
             ops::fmha_candidates(FmhaConfig{DType::f16, head_dim, causal, false}, *arch::find(name))) {
          check_attention(*arch::find(name), candidate);
          ++checked;
        }
  CHECK(checked >= 32);
}

TEST_CASE("attention's tiles are those whose threads have more registers than its nodes hold at once") {
  for (const char* name : kArchs) {
    const FmhaConfig config{DType::f16, 64, false, false};
    const auto among = [&](const arch::Arch& arch, const std::string& graph) {
      const std::vector<ops::Candidate> list = ops::fmha_candidates(config, arch);
      return std::any_of(list.begin(), list.end(),
                         [&](const ops::Candidate& each) { return each.graph.name == graph; });
    };
    for (const ops::Candidate& candidate : ops::fmha_candidates(config, *arch::find(name))) {
      CAPTURE(name);
      CAPTURE(candidate.graph.name);
      int held = 0, threads = 0;
      for (const Node& node : candidate.graph.nodes) held += node.registers;
      for (const Node& node : candidate.graph.nodes)
        threads = std::max(threads, node.warps * arch::find(name)->warp_size);
      for (const int spare : {0, 1}) {
        arch::Arch of_thread = *arch::find(name), of_block = of_thread;
        of_thread.max_registers_per_thread = held + spare;
        of_block.registers_per_sm = std::int64_t{threads} * (held + spare);
        CHECK(among(of_thread, candidate.graph.name) == (spare == 1));
        CHECK(among(of_block, candidate.graph.name) == (spare == 1));
      }
    }
  }
}

TEST_CASE("an iteration of a product costs the busier of matrix unit and shared memory, whatever the tile") {
  constexpr std::int64_t kShort = 4096, kLong = 8192;
  for (const char* name : kArchs) {
    const arch::Arch& arch = *arch::find(name);
    int served = 0;
    for (const ops::GemmTile& tile : ops::gemm_tiles()) {
      const auto one = predicted(arch, {tile.block_m, tile.block_n, kShort, 1}, tile),
                 other = predicted(arch, {tile.block_m, tile.block_n, kLong, 1}, tile);
      if (!one || !other) continue;
      ++served;
      CAPTURE(name);
      CAPTURE(ops::gemm_tile_name(tile));
      CHECK((*other - *one) * tile.block_k / static_cast<double>(kLong - kShort) ==
            doctest::Approx(wanted_iteration(arch, tile)).epsilon(1e-9));
    }
    CHECK(served >= 5);
  }
}

TEST_CASE("large products take the tiles that this prediction is known by") {
  const std::map<std::string, std::string> of_4096 = {
      {"gfx1100", "128x64x64"}, {"gfx1201", "128x256x64"}, {"gfx90a", "128x64x64"}, {"gfx942", "128x256x64"}};
  for (const auto& each : of_4096)
    CHECK_MESSAGE(taken(*arch::find(each.first), 4096, 4096, 4096) == each.second, each.first);
}

TEST_CASE(
    "a product of few rows takes a tile that leaves no compute unit without work: each draws its share of memory's "
    "rate, no more") {
  constexpr std::int64_t kSide = 8192;
  for (const char* name : {"gfx1100", "gfx1201", "gfx90a"})
    for (const std::int64_t m : {1, 8, 16}) {
      const arch::Arch& arch = *arch::find(name);
      const ops::GemmChoice choice = ops::choose_gemm({m, kSide, kSide, 1}, {}, arch);
      const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(choice.tile)];
      const std::int64_t blocks = (kSide + tile.block_n - 1) / tile.block_n * choice.parts,
                         waves = (blocks + arch.sm_count - 1) / arch.sm_count;
      CAPTURE(name);
      CAPTURE(ops::gemm_choice_name(choice));
      CHECK(blocks >= arch.sm_count);
      CHECK(static_cast<double>(blocks) >=
            0.8 * static_cast<double>(waves * arch.sm_count));  // nor many of them in the last wave
    }
  // Half as many blocks take twice as long to bring it: memory bounds the problem in both tiles, whose blocks differ in
  // number alone.
  const arch::Arch& arch = *arch::find("gfx1201");
  const auto half = predicted(arch, {16, kSide, kSide, 1}, {128, 256, 32}),
             whole = predicted(arch, {16, kSide, kSide, 1}, {128, 128, 32});
  REQUIRE(half);
  REQUIRE(whole);
  CHECK(kSide / 256 == arch.sm_count / 2);
  CHECK(*half / *whole == doctest::Approx(2).epsilon(0.02));
}
