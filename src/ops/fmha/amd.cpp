// The dependence graph of attention forward on matrix instructions of a wave, where what is copied passes through
// registers; see fmha.hpp.
//
//   begin, load_q                          tile begin, once: queries stay in registers
//   load_k -> put_k -> qk -> row_max -> pv <- put_v <- load_v
//   put_k (i) -> load_k (i+1)              the registers of what is on its way are free again; of values likewise
//   pv (i) -> qk (i+1)                     one register copy of the scores, which become weights where pv needs them
//   store                                  tile end
// One role does it all. Loads begin a whole interval before they are put: blocks side by side may all wait at once.
// Invariant: nothing here knows which arch of the family it is but by what it has: lanes, rates, copies of operands,
// memory.
#include <algorithm>

#include "ops/fmha/builder.hpp"
#include "ops/fmha/params.cuh"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using graph::Graph;
using support::cat;

constexpr int kPieceBytes = 16;  // what a thread loads at once

// What the bodies need beside queries, scores, output and what is on its way: addresses, fragments, a reference and
// sums; and for each row block beyond the first. Found by what compiles without a spill
// (tests/ops/fmha/amd_compile_test.cpp).
constexpr int kContextRegisters = 64, kRowBlockRegisters = 24;

/// A weight is 2^(x + bias), x the distance of its score from the query's reference in powers of two, which grows to
/// `slack` before the reference moves.
struct Powers {
  int slack, bias;
};
// Where subnormal elements are kept, an f16 weight may be as small as 2^-24: 16 powers below 2^-8, the least of a
// largest one.
constexpr Powers kUsual{8, 0};
// Where they count as 0, an f16 weight below 2^-14 vanishes from the output, while the sum of the weights has it. The
// largest is to be 2^15, half of what f16 holds: one power is left for what rounding does to x. So slack + bias = 15.
// With a slack of 1, weights are kept down to 2^-28 of the reference's (19 nats). A query's sum is at least the
// reference's weight, so n keys lose at most n 2^-28 of it: 65536 of them change an output by at most 2.5e-4 of the
// largest value, half of what rounding it to f16 may.
constexpr Powers kWithoutSubnormals{1, 14};

Powers powers_of(const FmhaConfig& config, const arch::Arch& arch) {
  return config.dtype == DType::f16 && arch.has_fact("matrix_flushes_subnormals") ? kWithoutSubnormals : kUsual;
}

/// Bytes between rows in shared memory, so that the operands which lanes load from neighbouring rows do not meet in a
/// bank.
int row_padding(const arch::Arch& arch) {
  const int operand_bytes =
      static_cast<int>(kFmhaMatrixRows * kFmhaMatrixRows * kFmhaElementBytes * arch.fact("operand_copies")) /
      arch.warp_size;
  return std::min(operand_bytes, kPieceBytes);
}

class Builder : private FmhaBuilder {
 public:
  Builder(const FmhaConfig& config, const FmhaTile& tile, const arch::Arch& arch)
      : FmhaBuilder(config, tile, arch, fmha_rows_of_warps(tile)),
        copies_(arch.fact("operand_copies")),
        padding_(row_padding(arch)) {}

  Graph build() {
    set_name(cat(rows_, "x", tile_.block_n, "_", tile_.warps, "waves"));
    graph_.persistent = false;
    constant("kWarps", tile_.warps);
    constant("kRowBlocks", tile_.row_blocks);
    constant("kRowPadding", padding_);
    constant("kSlack", powers_of(config_, arch_).slack);
    constant("kWeightBias", powers_of(config_, arch_).bias);
    value("k", tile_.block_n * (row_bytes() + padding_), Scope::iteration, 1, 2, kPieceBytes);
    value("v", config_.head_dim * (std::int64_t{tile_.block_n} * kFmhaElementBytes + padding_), Scope::iteration, 1, 2,
          kPieceBytes);
    nodes();
    graph_.flops_per_iteration = 4.0 * rows_ * tile_.block_n * config_.head_dim;
    graph_.overhead_cycles = 2.0 * arch_.fact("thread_copy_latency_cycles") + arch_.fact("tile_turn_cycles");
    return std::move(graph_);
  }

 private:
  static constexpr int kKeys = 0, kValues = 1;  ///< values of the graph

  double block_bytes() const { return static_cast<double>(row_bytes()) * tile_.block_n; }
  double scores() const { return static_cast<double>(rows_) * tile_.block_n; }

  /// Every wave loads all keys or values, each element as often as an operand holds it.
  Work product() const {
    Work work;
    work.matrix = 2.0 * scores() * config_.head_dim / arch_.fact("matrix_flops_per_cycle");
    work.shared = shared_cycles(block_bytes() * tile_.warps * copies_);
    if (arch_.has_fact("matrix_lane_share")) work.alu = work.matrix * arch_.fact("matrix_lane_share");
    return work;
  }
  /// A maximum for each score; of the correction, which is skipped unless a maximum moved far, a quarter.
  Work maximum() const {
    Work work;
    work.alu =
        scores() / arch_.fact("minmax_per_cycle") + 0.25 * rows_ * config_.head_dim / arch_.fact("f32_per_cycle");
    return work;
  }
  /// Exponentials, a multiply-add, an addition and half a conversion for each score, beside the product.
  Work weighted_product() const {
    Work work = product();
    work.exp = scores() / arch_.fact("exp2_per_cycle");
    work.alu += scores() * (2 / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact("convert_per_cycle"));
    return work;
  }
  /// Rows as they are; or as columns, which takes narrow stores and an operation for each word.
  Work put(bool as_columns) const {
    Work work;
    work.shared = shared_cycles(block_bytes()) * (as_columns ? 2 : 1);
    if (as_columns) work.alu = block_bytes() / 4 / arch_.fact("f32_per_cycle");
    return work;
  }

  /// How long a load is on its way, at least: as long as its registers are its own, all of an interval but the time of
  /// its put.
  double load_cycles(double put_cycles) const {
    const double latency =
        arch_.fact("thread_copy_latency_cycles") + block_bytes() / 1024 * arch_.fact("thread_copy_cycles_per_kb");
    const Work parts[] = {product(), maximum(), weighted_product(), put(false), put(true)};
    double chain = 2 * issue_cycles(), matrix = 0, shared = 0, alu = 0;
    for (const Work& part : parts)
      chain += cycles(part.longest()), matrix += cycles(part.matrix), shared += cycles(part.shared),
          alu += cycles(part.alu);
    const double interval = std::max(chain, tile_.blocks_per_sm * std::max({matrix, shared, alu}));
    return std::max(latency, interval - put_cycles);
  }
  double issue_cycles() const { return cycles(shared_cycles(block_bytes())); }

  int words_of_block() const { return static_cast<int>(block_bytes()) / 4 / (tile_.warps * arch_.warp_size); }
  /// Sums of a thread: sixteen rows times so many columns, for each of its row blocks.
  int sums(int columns) const { return tile_.row_blocks * kFmhaMatrixRows * columns / arch_.warp_size; }

  int compute(const char* body, Scope scope, const Work& work) {
    Node n = numbered("Consumer", body, 0, scope);
    n.warps = tile_.warps;
    if (scope == Scope::iteration) hold(n, work);
    return add(std::move(n));
  }
  /// From memory to registers, which it holds until they are put: the warps go on at once.
  int load(const char* name, bool as_columns) {
    Node n = single("Loader", name, tile_.warps);
    n.cycles = n.warp_cycles = cycles(issue_cycles());
    n.latency = cycles(load_cycles(cycles(put(as_columns).longest())));
    n.registers = words_of_block();
    n.has_fast_variant = true;  // the tile's first block of keys may have rows past the last
    n.max_fast_begin = 1;
    return add(std::move(n));
  }
  int put(const char* name, bool as_columns) {
    Node n = single("Loader", name, tile_.warps);
    hold(n, put(as_columns));
    return add(std::move(n));
  }
  void nodes() {
    const int load_k = load("load_k", false), put_k = put("put_k", false), load_v = load("load_v", true),
              put_v = put("put_v", true);
    const int begin = compute("begin", Scope::tile_begin, {}), load_q = compute("load_q", Scope::tile_begin, {});
    const int qk = compute("qk", Scope::iteration, product()),
              row_max = compute("row_max", Scope::iteration, maximum()),
              pv = compute("pv", Scope::iteration, weighted_product());
    const int store = compute("store", Scope::tile_end, {});
    node(row_max).has_fast_variant = true;
    node(row_max).max_fast_begin = max_fast_begin();
    node(qk).registers = sums(tile_.block_n);
    // Queries are an operand, of two elements a word.
    node(pv).registers = sums(config_.head_dim) + static_cast<int>(sums(config_.head_dim) * copies_) / 2 +
                         kContextRegisters + (tile_.row_blocks - 1) * kRowBlockRegisters;

    edge(begin, qk, 0, 0, false);
    edge(load_q, qk, 0, 0, false);
    for (const auto& [from, to] : {std::pair{load_k, put_k}, std::pair{load_v, put_v}}) {
      then(from, to, 0);
      then(to, from, 1);
    }
    then(put_k, qk, 0, kKeys);
    then(put_v, pv, 0, kValues);
    then(qk, row_max, 0);
    then(qk, pv, 0);
    then(row_max, pv, 0);
    then(pv, row_max, 1);
    then(pv, qk, 1);
    then(pv, pv, 1);
    then(pv, store, 0);
  }

  double copies_;  ///< lanes that hold each element of an operand
  int padding_;
};

const arch::Needs& needs() {
  static constinit support::Lasting<const arch::Needs> needs;
  return needs.get([] {
    return arch::Needs{{"TC", "EXP", "ALU", "LSU"},
                       {"matrix_flops_per_cycle", "operand_copies", "exp2_per_cycle", "f32_per_cycle",
                        "minmax_per_cycle", "convert_per_cycle", "shared_bytes_per_cycle", "thread_copy_latency_cycles",
                        "thread_copy_cycles_per_kb", "tile_turn_cycles"},
                       {"amd"}};
  });
}

Graph graph_of(const FmhaConfig& config, const FmhaTile& tile, const arch::Arch& arch) {
  return Builder(config, tile, arch).build();
}

/// Loads are under way all the time, so all registers are held at once: a tile whose blocks have no more could only be
/// served with its loads one after the other, which no other tile is slower than, and the search would prove that for
/// each interval in turn.
bool registers_suffice(const FmhaConfig& config, const FmhaTile& tile, const arch::Arch& arch) {
  const Graph graph = graph_of(config, tile, arch);
  int held = 0;
  for (const graph::Node& n : graph.nodes) held += n.registers;
  return held < std::min<std::int64_t>(graph.machine.max_registers_per_thread,
                                       graph.machine.registers / (tile.warps * arch.warp_size));
}

std::vector<FmhaTile> tiles(const FmhaConfig& config, const arch::Arch& arch) {
  constexpr int kWarps = 4;
  std::vector<FmhaTile> list;
  for (const int block_n : {64, 32})
    for (const int row_blocks : {1, 2})
      for (const int blocks : {1, 2, 3}) {
        // A thread makes columns of at least two rows of values.
        const int pieces = block_n * config.head_dim * kFmhaElementBytes / kPieceBytes / (kWarps * arch.warp_size);
        const FmhaTile tile{1, block_n, false, kWarps, row_blocks, blocks, true};
        if (pieces >= 2 && registers_suffice(config, tile, arch)) list.push_back(tile);
      }
  return list;
}

}  // namespace

const FmhaFamily& fmha_amd() {
  static constexpr FmhaFamily family{"amd", needs, tiles, fmha_rows_of_warps, graph_of};
  return family;
}

}  // namespace tj::ops
