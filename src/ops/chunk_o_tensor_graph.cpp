// The dependence graph of chunk_o on the matrix unit that works in tensor memory, with its costs; see chunk_o.hpp. An iteration is one item: a
// chunk and one or two value heads of a key head.
//
//   load_qk -> qk, qh             load_h.c -> qh          load_v.c -> pv          for each value head c
//   qk ==> weigh.c -> pv          one product serves all heads: they share q and k. Weights go to tensor memory, where pv reads them
//   qh, pv ==> stage_rows.c ---> put_chunk.c              e^g (q h^T) + p v, through shared memory
//   fetch.c -> weigh.c, fetch_rows.c -> stage_rows.c      where the item is, and its gates: on their way while the products run
// A chunk has 64 rows. Products of 64 rows hold the unit as long as those of 128 would, but memory holds the loop more than three times as long, and
// of them each of four warps has 16 rows: with rows of no token below, two warps would have all of the work. 16 rows are half of the lanes
// that a warp reaches, so sums and weights of a second head are in the other half of the same columns.
// Decides which heads an item may have. Invariant: all columns are a head's or a pair's own; what is in them is free before it is filled again.
#include <algorithm>

#include "ops/chunk_o_builder.hpp"
#include "ops/chunk_o_tensor.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using graph::Async;
using graph::Graph;
using graph::Node;
using support::cat;

using chunk_o::kChunk;
using chunk_o::kWidth;

constexpr int kMatrixDepth = 16;                 // of K, of one instruction
constexpr int kRowsHeld = graph::kTensorLanes;   // for so many a product of kChunk rows holds the unit
constexpr int kMostHeads = 2;                    // halves of a warp's lanes
constexpr int kParts = 2;                        // in which a row of o is finished
// What bodies that do arithmetic need beside what they compute with: places, gates, addresses, counters.
constexpr int kContextRegisters = 40;

const arch::Needs kNeeds = {{"TC", "EXP", "ALU", "TMA", "TMEM"},
                            {"matrix_flops_per_cycle", "matrix_issue_cycles", "matrix_drain_cycles", "exp2_per_cycle", "f32_per_cycle", "convert_per_cycle", "copy_latency_cycles",
                             "copy_cycles_per_kb", "memory_bytes_per_cycle", "tensor_memory_bytes_per_cycle", "exchange_cycles"},
                            {"sm100"}};

class Builder : ChunkOBuilder {
 public:
  Builder(const ChunkOKernel& kernel, int heads, const arch::Arch& arch) : ChunkOBuilder(kernel, heads, arch) {}

  Graph build() {
    values();
    nodes();
    edges();
    return std::move(graph_);
  }

 private:
  /// Scores and weights may have two slots, then a product goes ahead of those who look at the one before; of the others two do not fit beside them.
  void values() {
    constexpr auto of_columns = [](int columns) { return std::int64_t{columns} * graph::kTensorColumnBytes; };
    value("qk", 2 * kTokenBytes, 2, kMaxSlots);
    h_ = of_heads("h", kStateBytes, heads_ == 1 ? 2 : 1, kMaxSlots);  // two of several heads do not fit beside the others
    v_ = of_heads("v", kTokenBytes, 2, kMaxSlots);
    o_ = of_heads("o", kTokenBytes, 1, 2);
    scores_ = value("scores", of_columns(kChunk), 1, 2);
    weights_ = of_heads("weights", of_columns(kChunk / 2), 1, 2);
    states_ = value("states", of_columns(kWidth), 1, 1);
    sums_ = value("sums", of_columns(kWidth), 1, 1);
    for (auto each = static_cast<std::size_t>(scores_); each < graph_.values.size(); ++each) graph_.values[each].space = graph::Space::tensor;
  }

  /// Of kChunk rows for each of so many heads.
  int product(const char* body, int count, int width, int depth) {
    Node n;
    n.name = n.body = body;
    n.context = "Product";
    n.async = Async::unit;
    const int issued = cycles(arch_.fact("matrix_issue_cycles") * count * depth / kMatrixDepth);
    const int held = std::max(issued, cycles(2.0 * count * kRowsHeld * width * depth / arch_.fact("matrix_flops_per_cycle")));
    n.reservations = {{unit("TC"), 0, held, 1}};
    n.cycles = n.warp_cycles = issued;
    n.latency = held + cycles(arch_.fact("matrix_drain_cycles"));
    n.warps = 1;
    return add(std::move(n));
  }
  // Who weighs and who finishes count as copies of one thing, which the scheduler keeps apart (Candidate::copies_apart): a role that did both would wait
  // for the values of an item before it looked at the scores of the next.
  int fetch(const char* body, const char* context, int c) {
    Node n = of_threads(body, context, c);
    n.cycles = n.warp_cycles = cycles(arch_.fact("exchange_cycles"));
    n.latency = n.cycles + cycles(arch_.fact("copy_latency_cycles"));
    n.registers = kContextRegisters;
    return add(std::move(n));
  }
  /// So many words of tensor memory are moved, then computed with for so long.
  int arithmetic(const char* body, const char* context, int c, double words, double run_cycles) {
    Node n = of_threads(body, context, c);
    const int moved = cycles(4 * words / arch_.fact("tensor_memory_bytes_per_cycle"));
    n.cycles = n.latency = n.warp_cycles = moved + cycles(run_cycles);
    n.reservations = {{unit("TMEM"), 0, moved, 1}, {unit("ALU"), moved, n.cycles - moved, 1}};
    return add(std::move(n));
  }
  int weigh(int c) {
    constexpr double kScores = double{kChunk} * kChunk;
    const double exponentials = kernel_.gated ? kScores / arch_.fact("exp2_per_cycle") : 0;
    // A difference, two factors and a choice for each score; without gates the choice.
    const double other = kScores * ((kernel_.gated ? 4.0 : 1.0) / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact("convert_per_cycle"));
    const int index = arithmetic("weigh", "Weigher", c, 1.5 * kScores, exponentials + other + arch_.fact("exchange_cycles"));
    Node& n = graph_.nodes[static_cast<std::size_t>(index)];
    n.registers = kChunk / 2 + kChunk / 4;
    if (kernel_.gated) n.reservations.push_back({unit("EXP"), 0, cycles(exponentials), 1});
    return index;
  }
  int stage(int c) {
    constexpr double kOutputs = double{kChunk} * kWidth;
    const double run = kOutputs * ((kernel_.gated ? 2.0 : 1.0) / arch_.fact("f32_per_cycle") + 1.0 / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact("convert_per_cycle"));
    const int index = arithmetic("stage_rows", "Finisher", c, 2 * kOutputs, run + static_cast<double>(kTokenBytes) / kSharedBytesPerCycle + arch_.fact("exchange_cycles"));
    graph_.nodes[static_cast<std::size_t>(index)].registers = 2 * kWidth / 2 / kParts + kWidth / 4 / kParts;
    return index;
  }

  void nodes() {
    load_qk_ = load("load_qk", "TokenLoader", 0, 0);
    for (int c = 0; c < heads_; ++c) {
      load_h_.push_back(load("load_h", "StateLoader", c, h_ + c));
      load_v_.push_back(load("load_v", "ValueLoader", c, v_ + c));
    }
    qk_ = product("qk", 1, kChunk, kWidth);
    qh_ = product("qh", heads_, kWidth, kWidth);
    for (int c = 0; c < heads_; ++c) {
      if (kernel_.gated) fetch_.push_back(fetch("fetch", "Weigher", c));
      weigh_.push_back(weigh(c));
    }
    pv_ = product("pv", heads_, kWidth, kChunk);
    for (int c = 0; c < heads_; ++c) {
      fetch_rows_.push_back(fetch("fetch_rows", "Finisher", heads_ + c));
      stage_.push_back(stage(heads_ + c));
      put_.push_back(put(c));
    }
  }

  /// In the order of the bodies' arguments.
  void edges() {
    edge(load_qk_, qk_, node(load_qk_).latency, 0, false, 0);
    edge(load_qk_, qh_, node(load_qk_).latency, 0, false, 0);
    const auto heads = [&](auto&& each) {
      for (int c = 0; c < heads_; ++c) each(c, static_cast<std::size_t>(c));
    };
    heads([&](int c, std::size_t at) { edge(load_h_[at], qh_, node(load_h_[at]).latency, 0, false, h_ + c); });
    heads([&](int, std::size_t at) { edge(qk_, weigh_[at], node(qk_).latency, 0, true, scores_); });
    heads([&](int c, std::size_t at) { edge(weigh_[at], pv_, node(weigh_[at]).latency, 0, false, weights_ + c); });
    heads([&](int c, std::size_t at) { edge(load_v_[at], pv_, node(load_v_[at]).latency, 0, false, v_ + c); });
    heads([&](int c, std::size_t at) {
      edge(qh_, stage_[at], node(qh_).latency, 0, true, states_);
      edge(pv_, stage_[at], node(pv_).latency, 0, true, sums_);
      edge(stage_[at], put_[at], node(stage_[at]).latency, 0, false, o_ + c);
      if (kernel_.gated) registers(fetch_[at], weigh_[at]);
      registers(fetch_rows_[at], stage_[at]);
    });
  }
  /// What the one leaves for the other, until that is done with it.
  void registers(int fetched, int reader) {
    edge(fetched, reader, node(fetched).latency, 0, false);
    edge(reader, fetched, node(reader).latency, 1, false);
  }

  int h_ = 0, v_ = 0, o_ = 0, scores_ = 0, weights_ = 0, states_ = 0, sums_ = 0;  ///< values; of each head's the first
  int load_qk_ = 0, qk_ = 0, qh_ = 0, pv_ = 0;
  std::vector<int> load_h_, load_v_, fetch_, weigh_, fetch_rows_, stage_, put_;  ///< of each head
};

}  // namespace

bool chunk_o_in_tensor_memory(const arch::Arch& arch) { return std::find(kNeeds.families.begin(), kNeeds.families.end(), arch.family) != kNeeds.families.end(); }

const arch::Needs& chunk_o_tensor_needs() { return kNeeds; }

bool chunk_o_tensor_serves(int heads) { return heads <= kMostHeads; }

Graph chunk_o_tensor_graph(const ChunkOKernel& kernel, int heads, const arch::Arch& arch) { return Builder(kernel, heads, arch).build(); }

}  // namespace tj::ops
