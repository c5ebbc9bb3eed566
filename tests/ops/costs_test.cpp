// Protects what nothing else would notice: costs, reservations, registers and sizes in every graph, and which tile a
// product gets. Results stay right without them, kernels get slower. The numbers stand in data/costs.txt and
// data/choices.txt, a line for each arch and op; a sum changes with every part of it.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "ops/forms.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/op.hpp"
#include "support/full.hpp"
#include "support/pinned.hpp"

using namespace tj;

namespace {

struct Sums {
  std::int64_t candidates = 0, nodes = 0, cycles = 0, latency = 0, warp_cycles = 0, registers = 0, warps = 0,
               reserved = 0, starts = 0, edges = 0, delays = 0, distances = 0, slots = 0, bytes = 0, flags = 0,
               limits = 0;
  double flops = 0, iterations = 0, overhead = 0;

  void add(const ops::Candidate& candidate) {
    const graph::Graph& graph = candidate.graph;
    ++candidates;
    for (const graph::Node& node : graph.nodes) {
      ++nodes;
      cycles += node.cycles;
      latency += node.latency;
      warp_cycles += node.warp_cycles;
      registers += node.registers;
      warps += node.warps;
      flags += node.variable_latency + 2 * node.streaming + 4 * node.drains + 8 * bool(node.range) +
               16 * static_cast<int>(node.async) + 128 * static_cast<int>(node.scope);
      if (node.range) limits += node.range.max_begin;
      for (const graph::Reservation& use : node.reservations) {
        reserved += std::int64_t{use.cycles} * use.count * (use.unit + 1);
        starts += use.start;
      }
    }
    for (const graph::Edge& edge : graph.edges) {
      ++edges;
      delays += edge.delay + edge.spill_cycles;
      distances += edge.distance;
      flags += edge.blocking + 2 * edge.same_role + 4 * edge.updates + edge.value;
    }
    for (const graph::Value& value : graph.values) {
      bytes += value.slot_bytes + value.copied_bytes + value.alignment;
      slots += value.min_slots * 100 + value.max_slots;
      flags += static_cast<int>(value.scope) + 4 * static_cast<int>(value.space) + 8 * value.within_warp +
               16 * value.shared_by + 64 * value.shared_stride;
    }
    for (const auto& [member, text] : graph.config)
      for (const char c : text) flags += c;
    bytes += graph.least_smem_bytes;
    limits += graph.blocks_per_sm + 8 * graph.cluster + 64 * graph.walks() + 128 * graph.pairs +
              (graph.most_iterations < 1 << 20 ? graph.most_iterations : 0);
    limits += candidate.max_stages + candidate.max_slots + candidate.turns + 2 * candidate.one_role +
              4 * candidate.copies_apart + static_cast<std::int64_t>(candidate.node_budget);
    flops += graph.flops_per_iteration + candidate.useful_flops;
    iterations += candidate.typical_iterations;
    overhead += graph.overhead_cycles;
  }
  std::string text() const {
    std::ostringstream out;
    out.precision(10);
    out << "candidates " << candidates << " nodes " << nodes << " cycles " << cycles << " latency " << latency
        << " warp_cycles " << warp_cycles << " registers " << registers << " warps " << warps << " reserved "
        << reserved << " starts " << starts << " edges " << edges << " delays " << delays << " distances " << distances
        << " slots " << slots << " bytes " << bytes << " flags " << flags << " limits " << limits << " flops " << flops
        << " iterations " << iterations << " overhead " << overhead;
    return out.str();
  }
};

std::vector<const arch::Arch*> pinned_archs() {
  std::vector<const arch::Arch*> list = arch::all();
  std::erase_if(list, [](const arch::Arch* arch) { return arch->vendor != "nvidia"; });
  if (testing::left_out())  // of each family that has several archs, one
    std::erase_if(
        list, [](const arch::Arch* a) { return a->name != "sm_80" && a->name != "sm_90a" && a->name != "sm_100a"; });
  return list;
}

void check_lines(const std::string& file, const std::vector<std::string>& lines) {
  testing::left_out() ? testing::check_pinned_some(file, lines) : testing::check_pinned(file, lines);
}

constexpr std::array<std::int64_t, 3> kSizes[] = {
    {1, 1, 1},          {16, 4096, 4096},  {64, 7168, 2048},   {128, 24576, 1536}, {128, 128, 16384},
    {256, 256, 8192},   {512, 512, 512},   {1000, 1000, 1000}, {1024, 1024, 1024}, {2048, 2048, 2048},
    {4096, 4096, 4096}, {4096, 4096, 512}, {4104, 4104, 4104}, {8192, 8192, 8192}, {100000, 70, 70},
    {17, 5000, 300},    {640, 1920, 5120}, {1, 16384, 16384}};

}  // namespace

TEST_CASE("costs, reservations, registers and sizes of every graph are those that are pinned") {
  std::vector<std::string> lines;
  for (const arch::Arch* arch : pinned_archs())
    for (const ops::Op* op : ops::all()) {
      if (!op->serves(*arch)) continue;
      Sums sums;
      for (const ops::Request& request : testing::forms_of(*op, *arch)) try {
          for (const ops::Candidate& candidate : op->candidates(request, *arch)) sums.add(candidate);
        } catch (const Error& error) {
          CHECK_MESSAGE(error.code == Code::unsupported, error.message);
        }
      lines.push_back(arch->name + " " + std::string(op->name()) + " " + sums.text());
    }
  check_lines("tests/ops/data/costs.txt", lines);
}

TEST_CASE(
    "the tile and the parts of K that a product gets, and the predicted cycles of all that it might, are those that "
    "are pinned") {
  std::vector<std::string> lines;
  for (const arch::Arch* arch : pinned_archs())
    for (const auto& [name, dtype, left, right] :
         {std::tuple{"f16", DType::f16, false, false}, std::tuple{"f16_mn", DType::f16, true, true},
          std::tuple{"e4m3", DType::e4m3, false, false}}) {
      ops::GemmKernel kernel;
      kernel.dtype = dtype;
      kernel.out = dtype == DType::e4m3 ? DType::bf16 : dtype;
      kernel.left_mn = left;
      kernel.right_mn = right;
      std::ostringstream line;
      line.precision(9);
      line << arch->name << ' ' << name;
      try {
        for (const auto& [m, n, k] : kSizes) {
          const ops::GemmSizes sizes{m, n, k, 1};
          double cycles = 0;
          std::size_t place = 0;
          for (const ops::RankedGemm& ranked : ops::rank_gemm(sizes, kernel, *arch))
            cycles += ranked.cycles * static_cast<double>(++place);
          line << ' ' << m << 'x' << n << 'x' << k << '='
               << ops::gemm_choice_name(ops::choose_gemm(sizes, kernel, *arch)) << '/' << cycles;
        }
        ops::GemmKernel batched = kernel;
        line << " batch=" << ops::gemm_choice_name(ops::choose_gemm({64, 64, 4096, 7}, batched, *arch));
      } catch (const Error& error) {
        CHECK_MESSAGE(error.code == Code::unsupported, error.message);
        continue;
      }
      lines.push_back(line.str());
    }
  check_lines("tests/ops/data/choices.txt", lines);
}
