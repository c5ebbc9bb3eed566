// The dependence graph of a matrix product on products of warpgroups, with its costs; see gemm.hpp.
//
//   load_a, load_b -> mma.c            for each consumer c
//   mma.c (i) -> mma.c (i+1)           sums into one set of registers; the next may be issued at once
//   mma.c (i) ==> mma.c (i+2)          one group is under way while the next is issued: where the slots of i are handed
//   back;
//                                      (i+1) where a rung allows two slots
//   mma.c ==> store.c                  tile end, from registers; or through shared memory, stage_rows.c -> put_box.c or
//   put_rows.c
// Of 8-bit operands mma.c leaves sums over one iteration, promote.c adds them to those of the tile:
//   mma.c ==> promote.c -> store.c
//   promote.c (i) -> mma.c (i+1)       one register copy of the iteration's sums
#include <algorithm>

#include "ops/gemm/builder.hpp"
#include "ops/gemm/sm100.hpp"

namespace tj::ops {
namespace {

using graph::Async;
using graph::Graph;
using graph::Node;
using graph::Scope;
using support::cat;

using gemm::kRowsPerConsumer;

constexpr double kTypicalDepth = 4096;  // K that tiles are rated at

// What a consumer's bodies need beside its sums, addresses, counters and the part of d that its store works on: 64 x
// 128 with addend, bias and gelu, 64 words of sums, leaves 3 words without a register when it is compiled into 128
// (nvcc 13.0, launch bound of 512 threads), and none in 150.
constexpr int kContextRegisters = 72;
// What its loop alone needs of these.
constexpr int kLoopRegisters = 40;

class Builder : GemmBuilder {
 public:
  Builder(const GemmKernel& kernel, const arch::Arch& arch) : GemmBuilder(kernel, gemm_store(kernel), arch, 1) {
    const double rows = kRowsPerConsumer;
    issue_ = cycles(arch.fact("matrix_group_cycles"));
    // Groups follow each other without a gap: the unit is busy for the flops alone.
    matrix_ = cycles(2.0 * rows * tile_.block_n * tile_.block_k / gemm_flops_per_cycle(tile_.element_bytes, arch));
    latency_ = issue_ + matrix_ + cycles(arch.fact("matrix_drain_cycles"));
  }

  Graph build() {
    unit_text(tile_.consumers() * kRowsPerConsumer, tile_.block_n);
    const bool threads = gemm_rung(kernel_).thread_copies;
    const int a = threads
                      ? read("read_a", "a", tile_.block_m)
                      : load("load_a", "a", tile_.block_m, tile_.consumers() * kRowsPerConsumer, {tile_.cluster_n, 1});
    const int b = threads ? read("read_b", "b", tile_.block_n)
                          : load("load_b", "b", tile_.block_n, tile_.block_n,
                                 {tile_.cluster_m, tile_.cluster_m > 1 ? tile_.cluster_n : 1});
    for (int c = 0; c < tile_.consumers(); ++c) consumer(c, a, b);
    constrain();
    return std::move(graph_);
  }

 private:
  /// Blocks of a cluster that bring a part each, and how far their ranks are apart.
  struct Sharers {
    int count, stride;
  };
  /// A copy of `rows` rows into a ring of its own with room for `slot_rows`; the ring has the node's place in the list
  /// of values.
  int load(const char* name, const char* value, int rows, int slot_rows, const Sharers& sharers) {
    const std::int64_t row_bytes = std::int64_t{tile_.block_k} * tile_.element_bytes, bytes = rows * row_bytes;
    graph_.values.push_back({value, slot_rows * row_bytes, 1024, Scope::iteration, 2, kMaxSlots});
    if (rows < slot_rows) graph_.values.back().copied_bytes = bytes;
    graph_.values.back().shared_by = sharers.count;
    graph_.values.back().shared_stride = sharers.stride;
    Node n;
    n.name = n.body = name;
    n.context = "Loader";
    n.async = Async::copy;
    const double kb = static_cast<double>(bytes) / 1024;
    // Other SMs copy at the same time.
    const double loaded =
        kb * arch_.fact("loaded_copy_cycles_per_kb") * (sharers.count > 1 ? arch_.fact("multicast_copy_factor") : 1);
    n.reservations = {of("TMA", cycles(loaded))};
    n.cycles = 1;
    n.latency = std::max(cycles(loaded),
                         cycles(kb * arch_.fact("copy_cycles_per_kb")) + cycles(arch_.fact("copy_latency_cycles")));
    n.variable_latency = n.streaming = true;
    n.warps = 1;
    return add(std::move(n));
  }

  void consumer(int c, int load_a, int load_b) {
    const int begin = add(of_consumer("begin", c, Scope::tile_begin));
    Node n = of_consumer("mma", c, Scope::iteration);
    n.async = Async::matrix;
    n.reservations = {of("TC", matrix_)};
    n.cycles = n.warp_cycles = issue_;
    n.latency = latency_;
    const int sums = kRowsPerConsumer * tile_.block_n / (arch_.warps_per_group * arch_.warp_size);
    n.registers = sums + kContextRegisters;
    if (tile_.promotes()) n.registers = std::max(n.registers, sums * (1 + tile_.partial_sums()) + kLoopRegisters);
    const int mma = add(std::move(n));
    const int store = end_of_tile(of_consumer("store", c, Scope::tile_end), std::min(kRowsPerConsumer, tile_.block_m));
    edge(begin, mma, 0, 0, false);
    edge(load_a, mma, latency_of(load_a), 0, false, 0);
    edge(load_b, mma, latency_of(load_b), 0, false, 1);
    if (tile_.promotes()) return promoted(c, mma, store);
    edge(mma, mma, matrix_, 1, false);
    edge(mma, mma, latency_, groups_under_way(), true);
    edge(mma, store, latency_, 0, true);
  }
  void promoted(int c, int mma, int store) {
    Node n = of_consumer("promote", c, Scope::iteration);
    n.cycles = n.latency = n.warp_cycles = cycles(gemm_promote_cycles(tile_, arch_));
    n.reservations = {of("ALU", n.cycles)};
    const int promote = add(n);
    edge(mma, promote, latency_, 0, true);
    edge(promote, mma, n.latency, 1, false);
    edge(promote, promote, n.latency, 1, false);
    edge(promote, store, n.latency, 0, false);
  }

  /// With two slots, the next copy goes where the group before has read: to look for its end only after the next group
  /// is issued, which waits for that group's operands, would hold it up.
  int groups_under_way() const {
    const int slots = gemm_rung(kernel_).max_slots;
    return slots == 1 || slots == 2 ? 1 : 2;
  }

  int issue_ = 0, matrix_ = 0, latency_ = 0;
};

}  // namespace

Graph gemm_graph(const GemmKernel& kernel, const arch::Arch& arch) {
  if (gemm_in_tensor_memory(arch)) return gemm_tensor_graph(kernel, arch);
  return gemm_by_warps(arch) ? gemm_warp_candidates(kernel, arch, 1).front().graph : Builder(kernel, arch).build();
}

std::vector<Candidate> gemm_candidates(const GemmKernel& kernel, const arch::Arch& arch) {
  const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(kernel.tile)];
  gemm_require(kernel, arch);
  if (gemm_by_warps(arch)) return gemm_warp_candidates(kernel, arch, kTypicalDepth / tile.block_k);
  Candidate candidate{gemm_graph(kernel, arch), kTypicalDepth / tile.block_k, 0,
                      false};  // turns would only hold back who could go on
  candidate.useful_flops = candidate.graph.flops_per_iteration * candidate.typical_iterations;
  const GemmRung& rung = gemm_rung(kernel);
  candidate.max_slots = rung.max_slots;
  candidate.max_stages = rung.max_stages;
  candidate.one_role = rung.one_role;
  candidate.copies_apart = gemm_in_tensor_memory(arch) && !rung.one_role;  // one's rows leave while the other's do
  if (!gemm_in_tensor_memory(arch))
    candidate.definitions = matrix_widths({tile.block_n});
  else if (gemm_tensor_stores_beside(tile, arch) && candidate.copies_apart)
    candidate.graph.overhead_cycles =
        std::max(0.0, candidate.graph.overhead_cycles - candidate.typical_iterations * gemm_tensor_cycles(tile, arch));
  return {candidate};
}

Candidate gemm_candidate(const GemmKernel& kernel, const arch::Arch& arch) {
  return gemm_candidates(kernel, arch).front();
}

}  // namespace tj::ops
