// The dependence graph of chunk_o with its costs; see chunk_o.hpp. An iteration is one item: a chunk and some value
// heads of a key head.
//
//   load_qk -> qk.c, qh.c         load_h.c -> qh.c      load_v.c -> pv.c      for each value head c
//   fetch.c -> weigh.c <== qk.c   gates are on their way while the products run
//   weigh.c -> fade.c <== qh.c    without gates there is no fade.c: pv.c adds to what qh.c leaves
//   weigh.c, fade.c -> pv.c ==> stage_rows.c ---> put_chunk.c, through shared memory
// From one item to the next only registers are shared: each is free before it is filled again.
#include "ops/chunk_o/builder.hpp"
#include "ops/chunk_o/family.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using graph::Graph;

using chunk_o::kWidth;

// Registers that a consumer's bodies need beside scores, weights and output: places, gates, addresses, counters.
constexpr int kContextRegisters = 40;

const arch::Needs& kNeeds = support::lasting<arch::Needs>(
    {{"TC", "EXP", "ALU", "TMA"},
     {"matrix_flops_per_cycle", "matrix_group_cycles", "matrix_drain_cycles", "exp2_per_cycle", "f32_per_cycle",
      "convert_per_cycle", "shared_unit_cycles", "copy_latency_cycles", "copy_cycles_per_kb", "memory_bytes_per_cycle"},
     {"sm90"}});

/// The fewest slots that rings may have. Nothing but bytes under way hides the latency of memory: as many as shared
/// memory holds. h of several heads has one slot each, as its 32 KB are what does not fit twice.
struct Slots {
  int qk, h, v;
};
Slots slots_of(int heads) {
  if (heads == 1) return {2, 2, 2};
  return heads == 2 ? Slots{2, 1, 2} : Slots{1, 1, 1};
}

class Builder : ChunkOBuilder {
 public:
  Builder(const ChunkOKernel& kernel, int heads, const arch::Arch& arch) : ChunkOBuilder(kernel, heads, arch) {}

  Graph build() {
    values();
    const int load_qk = load("load_qk", "TokenLoader", 0, 0);
    for (int c = 0; c < heads_; ++c)
      consumer(c, load_qk, load("load_h", "StateLoader", c, h_ + c), load("load_v", "ValueLoader", c, v_ + c));
    return std::move(graph_);
  }

 private:
  void values() {
    const Slots slots = slots_of(heads_);
    copied("qk", 2 * kTokenBytes, slots.qk);
    h_ = copied_of_heads("h", kStateBytes, slots.h);
    v_ = copied_of_heads("v", kTokenBytes, slots.v);
    o_ = of_heads("o", kTokenBytes, 1, 2);
  }

  /// A product of the chunk's rows.
  int matrix(const char* body, int c, int width, int depth, int registers) {
    Node n = numbered("Consumer", body, c);
    multiply(n, groups_, groups_.product(2.0 * chunk_o::kChunk * width * depth, depth));
    n.registers = registers;
    return add(std::move(n));
  }
  int arithmetic(const char* body, int c, double run_cycles, int registers = 0) {
    Node n = numbered("Consumer", body, c);
    busy(n, cycles(run_cycles));
    n.reservations = {of("ALU", n.cycles)};
    n.registers = registers;
    return add(std::move(n));
  }
  int fetch(int c) {
    Node n = numbered("Consumer", "fetch", c);
    n.cycles = n.warp_cycles = cycles(arch_.fact("shared_unit_cycles"));
    n.latency = n.cycles + cycles(copier_.latency_cycles());
    n.registers = kContextRegisters;
    return add(std::move(n));
  }
  int weigh(int c) {
    constexpr double kScores = double{chunk_o::kChunk} * chunk_o::kChunk;
    const double exponentials = kernel_.gated ? kScores / arch_.fact("exp2_per_cycle") : 0;
    // A difference, two factors and a choice for each score; without gates the choice.
    const double other =
        kScores * ((kernel_.gated ? 4.0 : 1.0) / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact("convert_per_cycle"));
    const int weighed =
        arithmetic("weigh", c, exponentials + other + arch_.fact("shared_unit_cycles"), chunk_o::kChunk / 4);
    if (kernel_.gated) node(weighed).reservations.push_back(of("EXP", cycles(exponentials)));
    return weighed;
  }
  void consumer(int c, int load_qk, int load_h, int load_v) {
    constexpr double kOutputs = double{chunk_o::kChunk} * kWidth;
    const double f32 = arch_.fact("f32_per_cycle"), convert = arch_.fact("convert_per_cycle");
    const int threads = arch_.warps_per_group * arch_.warp_size;
    const int fetched = fetch(c);
    const int qk = matrix("qk", c, chunk_o::kChunk, kWidth, chunk_o::kChunk * chunk_o::kChunk / threads);
    const int qh = matrix("qh", c, kWidth, kWidth, chunk_o::kChunk * kWidth / threads);
    const int weighed = weigh(c);
    const int faded = kernel_.gated ? arithmetic("fade", c, kOutputs / f32) : -1;
    const int pv = matrix("pv", c, kWidth, chunk_o::kChunk, 0);
    const int stage =
        arithmetic("stage_rows", c,
                   kOutputs * (1.0 / f32 + 0.5 / convert) + static_cast<double>(kTokenBytes) / kSharedBytesPerCycle);
    const int out = put(c);
    then(load_qk, qk, 0, 0);
    then(load_qk, qh, 0, 0);
    then(load_h, qh, 0, h_ + c);
    then(load_v, pv, 0, v_ + c);
    then(fetched, weighed);
    wait(qk, weighed);
    then(weighed, pv);
    if (kernel_.gated) {
      then(weighed, faded);
      wait(qh, faded);
      then(faded, pv);
    } else {
      edge(qh, pv, node(qh).cycles, 0, false);
    }
    wait(pv, stage);
    then(qh, stage);  // its registers hold the result
    edge(fetched, stage, node(fetched).cycles, 0, false);
    then(stage, out, 0, o_ + c);
    between_items(fetched, qk, qh, weighed, pv, stage);
  }
  /// Registers that an item fills when the one before needs them no more.
  void between_items(int fetched, int qk, int qh, int weighed, int pv, int stage) {
    then(stage, fetched, 1);
    then(weighed, qk, 1);
    then(stage, qh, 1);
    wait(pv, weighed, 1);
  }

  const Multiplier groups_{Multiplier::Way::warpgroup, arch_};
  int h_ = 0, v_ = 0, o_ = 0;  ///< the first of their values
};

constexpr int kMostHeads = 3;  // each has a consumer and rings of its own, which fill shared memory with one slot each

Graph graph_of(const ChunkOKernel& kernel, int heads, const arch::Arch& arch) {
  return Builder(kernel, heads, arch).build();
}

}  // namespace

const ChunkOFamily& chunk_o_sm90() {
  static constexpr ChunkOFamily family{"sm90", [](const arch::Arch&) -> const arch::Needs& { return kNeeds; },
                                       kMostHeads, graph_of, [] { return matrix_widths({chunk_o::kChunk, kWidth}); }};
  return family;
}

}  // namespace tj::ops
