// The dependence graph of chunk_o on the matrix unit that works in tensor memory, with its costs; see chunk_o.hpp. An
// iteration is one item: a chunk and one or two value heads of a key head.
//
//   load_qk -> qk, qh        load_h.c -> qh        load_v.c -> pv        for each value head c; what computes serves
//   all of them qk ==> weigh -> pv                             one product for all heads, as they share q and k;
//   weights pass through tensor memory qh, pv ==> stage_rows ---> put_chunk.c         e^g (q h^T) + p v, through shared
//   memory fetch -> weigh, fetch_rows -> stage_rows       where the item is, and its gates: on their way while the
//   products run
// A chunk has 64 rows. Products of 64 rows are taken to hold the unit as long as those of 128, but the loop waits for
// memory more than twice as long. Each of four warps has 16 rows of such a product. With 128 rows, half of them without
// a token, two warps would have all of the work. 16 rows are half of the lanes that a warp reaches, so sums and weights
// of a second head are in the other half of the same columns. Decides which heads an item may have. Invariant: from one
// item to the next only registers are shared, each free before it is filled again.
#include <algorithm>

#include "ops/chunk_o/builder.hpp"
#include "ops/chunk_o/family.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using graph::Graph;

using chunk_o::kWidth;

constexpr int kRowsHeld = graph::kTensorLanes;  // for so many a product of kChunk rows holds the unit
constexpr int kMostHeads = 2;                   // halves of a warp's lanes
constexpr int kParts = 2;                       // in which a row of o is finished
// Registers of bodies that do arithmetic, beside what they compute with: places, gates, addresses, counters.
constexpr int kContextRegisters = 40;

const arch::Needs& kNeeds = support::lasting<arch::Needs>(
    {{"TC", "EXP", "ALU", "TMA", "TMEM"},
     {"matrix_flops_per_cycle", "matrix_issue_cycles", "matrix_drain_cycles", "exp2_per_cycle", "f32_per_cycle",
      "convert_per_cycle", "copy_latency_cycles", "copy_cycles_per_kb", "memory_bytes_per_cycle",
      "tensor_memory_bytes_per_cycle", "exchange_cycles"},
     {"sm100"}});

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
  /// Scores and weights may have two slots: then a product goes ahead of the roles that look at the one before. Two
  /// slots of the other values do not fit beside them.
  void values() {
    constexpr auto of_columns = [](int columns) { return std::int64_t{columns} * graph::kTensorColumnBytes; };
    copied("qk", 2 * kTokenBytes, 2);
    h_ = copied_of_heads("h", kStateBytes, heads_ == 1 ? 2 : 1);  // two of several heads do not fit beside the others
    v_ = copied_of_heads("v", kTokenBytes, 2);
    o_ = of_heads("o", kTokenBytes, 1, 2);
    scores_ = value("scores", of_columns(chunk_o::kChunk), Scope::iteration, 1, 2);
    weights_ = value("weights", of_columns(chunk_o::kChunk / 2), Scope::iteration, 1, 2);
    states_ = value("states", of_columns(kWidth), Scope::iteration, 1, 1);
    sums_ = value("sums", of_columns(kWidth), Scope::iteration, 1, 1);
    for (auto each = static_cast<std::size_t>(scores_); each < graph_.values.size(); ++each)
      graph_.values[each].space = graph::Space::tensor;
  }

  /// A product of kChunk rows for each of so many heads.
  int product(const char* body, int count, int width, int depth) {
    Node n = single("Product", body, 1);
    multiply(n, unit_, unit_.product(2.0 * count * kRowsHeld * width * depth, count * depth));
    return add(std::move(n));
  }
  // The weigher and the finisher count as copies of one thing, which the scheduler keeps apart
  // (Candidate::copies_apart). One role for both would wait for an item's values before it looked at the next item's
  // scores.
  static constexpr int kWeigher = 0, kFinisher = 1;
  Node of_warps(const char* body, const char* context, int copy) const {
    Node n = single(context, body, arch_.warps_per_group);
    n.copy = copy;
    return n;
  }
  int fetch(const char* body, const char* context, int copy) {
    Node n = of_warps(body, context, copy);
    n.cycles = n.warp_cycles = cycles(arch_.fact("exchange_cycles"));
    n.latency = n.cycles + cycles(copier_.latency_cycles());
    n.registers = kContextRegisters;
    return add(std::move(n));
  }
  /// A node that moves so many words of tensor memory, then computes for so long.
  Node arithmetic(const char* body, const char* context, int copy, double words, double run_cycles) const {
    Node n = of_warps(body, context, copy);
    const int moved = cycles(4 * words / arch_.fact("tensor_memory_bytes_per_cycle"));
    busy(n, moved + cycles(run_cycles));
    n.reservations = {of("TMEM", moved), of("ALU", n.cycles - moved, moved)};
    return n;
  }
  int weigh() {
    constexpr double kScores = double{chunk_o::kChunk} * chunk_o::kChunk;
    const double exponentials = kernel_.gated ? heads_ * kScores / arch_.fact("exp2_per_cycle") : 0;
    // A difference, two factors and a choice for each score; without gates the choice.
    const double other =
        heads_ * kScores *
        ((kernel_.gated ? 4.0 : 1.0) / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact("convert_per_cycle"));
    Node n = arithmetic("weigh", "Weigher", kWeigher, (1 + 0.5 * heads_) * kScores,
                        exponentials + other + arch_.fact("exchange_cycles"));
    n.registers = chunk_o::kChunk / 2 + chunk_o::kChunk / 4;
    if (kernel_.gated) n.reservations.push_back(of("EXP", cycles(exponentials)));
    return add(std::move(n));
  }
  int stage() {
    const double outputs = double{chunk_o::kChunk} * kWidth * heads_;
    const double run = outputs * (2.0 / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact("convert_per_cycle"));
    Node n = arithmetic(
        "stage_rows", "Finisher", kFinisher, 2 * outputs,
        run + heads_ * static_cast<double>(kTokenBytes) / kSharedBytesPerCycle + arch_.fact("exchange_cycles"));
    n.registers = (2 * kWidth / 2 + kWidth / 4) / kParts;
    return add(std::move(n));
  }

  void nodes() {
    load_qk_ = load("load_qk", "TokenLoader", 0, 0);
    for (int c = 0; c < heads_; ++c) {
      load_h_.push_back(load("load_h", "StateLoader", c, h_ + c));
      load_v_.push_back(load("load_v", "ValueLoader", c, v_ + c));
    }
    qk_ = product("qk", 1, chunk_o::kChunk, kWidth);
    qh_ = product("qh", heads_, kWidth, kWidth);
    if (kernel_.gated) fetch_ = fetch("fetch", "Weigher", kWeigher);
    weigh_ = weigh();
    pv_ = product("pv", heads_, kWidth, chunk_o::kChunk);
    fetch_rows_ = fetch("fetch_rows", "Finisher", kFinisher);
    stage_ = stage();
    for (int c = 0; c < heads_; ++c) put_.push_back(put(c));
  }

  /// Adds edges in the order of the bodies' arguments. Tensor memory is a product's last argument, so that one fence
  /// serves its waits.
  void edges() {
    then(load_qk_, qk_, 0, 0);
    then(load_qk_, qh_, 0, 0);
    for (int c = 0; c < heads_; ++c) handed(load_h_, c, qh_, h_);
    wait(qk_, weigh_, 0, scores_);
    for (int c = 0; c < heads_; ++c) handed(load_v_, c, pv_, v_);
    then(weigh_, pv_, 0, weights_);
    wait(qh_, stage_, 0, states_);
    wait(pv_, stage_, 0, sums_);
    for (int c = 0; c < heads_; ++c) then(stage_, put_[static_cast<std::size_t>(c)], 0, o_ + c);
    if (kernel_.gated) registers(fetch_, weigh_);
    registers(fetch_rows_, stage_);
  }
  void handed(const std::vector<int>& loads, int c, int reader, int values) {
    const int load = loads[static_cast<std::size_t>(c)];
    then(load, reader, 0, values + c);
  }
  /// Registers that `fetched` fills for `reader`, until that is done with them.
  void registers(int fetched, int reader) {
    then(fetched, reader);
    then(reader, fetched, 1);
  }

  const Multiplier unit_{Multiplier::Way::tensor_memory, arch_};
  int h_ = 0, v_ = 0, o_ = 0, scores_ = 0, weights_ = 0, states_ = 0, sums_ = 0;  ///< values; of each head's the first
  int load_qk_ = 0, qk_ = 0, qh_ = 0, fetch_ = 0, weigh_ = 0, pv_ = 0, fetch_rows_ = 0, stage_ = 0;
  std::vector<int> load_h_, load_v_, put_;  ///< of each head
};

Graph graph_of(const ChunkOKernel& kernel, int heads, const arch::Arch& arch) {
  return Builder(kernel, heads, arch).build();
}

}  // namespace

const ChunkOFamily& chunk_o_sm100() {
  static constexpr ChunkOFamily family{"sm100", [](const arch::Arch&) -> const arch::Needs& { return kNeeds; },
                                       kMostHeads, graph_of};
  return family;
}

}  // namespace tj::ops
