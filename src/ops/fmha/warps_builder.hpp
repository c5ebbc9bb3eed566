// The graph of attention where a warp's or a wave's instruction multiplies: one for both families, which differ in who
// copies.
//
//   keys -> qk -> row_max -> pv <- values     whatever hands on a block of them: a copy into a ring, or a put
//   pv (i) -> qk (i+1)                        one register copy of the scores, which become weights where pv needs them
//   begin, take_q or load_q                   tile begin, once, where queries stay in registers
//   store                                     tile end
//
// Decides the role that computes, its costs and its registers. Copies, and how far ahead of their use they go out, are
// the families' (sm80.cpp, amd.cpp). Invariant: one role does it all.
#pragma once

#include <algorithm>

#include "ops/fmha/builder.hpp"

namespace tj::ops {

/// Rows of queries that one matrix instruction of a warp or a wave takes.
inline constexpr int kFmhaMatrixRows = 16;

struct FmhaWarpTile {
  int block_n = 64;               ///< keys an iteration
  int warps = 4, row_blocks = 2;  ///< the role's warps, and how many times sixteen rows each of them has
  int blocks_per_sm = 1;
  bool queries_in_registers = true;  ///< for the whole tile; else they are loaded from shared memory in every iteration
  bool values_over_queries = false;  ///< values lie in the place of queries, once these are in registers
  int rows() const { return warps * row_blocks * kFmhaMatrixRows; }
};

class FmhaWarpBuilder : protected FmhaBuilder {
 protected:
  /// conversions: the fact that says how many weights are rounded a cycle.
  FmhaWarpBuilder(const FmhaKernel& config, const FmhaWarpTile& tile, Multiplier::Way way, const char* conversions,
                  const arch::Arch& arch)
      : FmhaBuilder(config, arch, tile.rows(), tile.block_n, tile.blocks_per_sm),
        tile_(tile),
        multiplier_(way, arch),
        conversions_(conversions) {
    graph_.walk = graph::Walk::one_tile;
    constant("kWarps", tile_.warps);
    constant("kRowBlocks", tile_.row_blocks);
  }

  double scores() const { return static_cast<double>(rows_) * keys_; }
  double copied_keys() const { return static_cast<double>(block_bytes()); }
  double copied_values() const { return static_cast<double>(value_block_bytes()); }
  /// Every warp loads all keys, and of queries in shared memory its own rows.
  Work product(bool left_from_shared = false) const {
    const double queries = left_from_shared ? static_cast<double>(row_bytes()) * rows_ : 0;
    return multiplier_.work(2.0 * scores() * depth(), copied_keys() * tile_.warps + queries);
  }
  /// What a feature makes of each score, and its maximum; of the correction, which is skipped unless a maximum moved
  /// far, a quarter.
  Work maximum() const {
    Work work;
    work.alu = scores() / arch_.fact("minmax_per_cycle") +
               (0.25 * rows_ * outputs() + scores() * beside_.adds) / arch_.fact("f32_per_cycle");
    work.exp = scores() * beside_.exp / arch_.fact("exp2_per_cycle");
    return work;
  }
  /// Exponentials, so many operations and half a conversion for each score, beside the product. The usual two are a
  /// multiply-add and an addition.
  Work weighted_product(double operations = 2) const {
    Work work = multiplier_.work(2.0 * scores() * outputs(), copied_values() * tile_.warps);
    work.exp = scores() / arch_.fact("exp2_per_cycle");
    work.alu += scores() * (operations / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact(conversions_));
    return work;
  }

  /// Words of a thread: sixteen rows times so many columns, for each of its row blocks.
  int words(int columns) const { return tile_.row_blocks * kFmhaMatrixRows * columns / arch_.warp_size; }

  /// Bodies under the names that a kernel has them by; null: it has none of that.
  struct Bodies {
    const char *queries = nullptr, *keys = nullptr, *qk = "qk", *row_max = "row_max", *pv = "pv", *store = "store";
  };
  struct Chain {
    int begin = -1, queries = -1, keys = -1, qk = -1, row_max = -1, pv = -1, store = -1;
  };
  /// The nodes of the role that computes, and what it does before its loop. keys: the work of the body that prepares
  /// them.
  Chain chain(const Bodies& bodies, const Work& qk, const Work& pv, int context_registers, const Work& keys = {}) {
    Chain c;
    c.begin = compute("begin", Scope::tile_begin);
    if (bodies.queries != nullptr) c.queries = compute(bodies.queries, Scope::tile_begin);
    if (bodies.keys != nullptr) c.keys = compute(bodies.keys, Scope::iteration, keys);
    c.qk = compute(bodies.qk, Scope::iteration, qk);
    c.row_max = compute(bodies.row_max, Scope::iteration, maximum());
    c.pv = compute(bodies.pv, Scope::iteration, pv);
    c.store = compute(bodies.store, Scope::tile_end);
    masks(c.row_max);
    // Queries in registers are an operand, of two elements a word.
    const int queries = c.queries < 0 ? 0 : static_cast<int>(words(depth()) * multiplier_.operand_copies()) / 2;
    node(c.qk).registers = words(keys_);
    node(c.pv).registers = words(outputs()) + queries + context_registers + fmha_feature_registers(config_);
    edge(c.begin, c.qk, 0, 0, false);
    if (c.queries >= 0) edge(c.queries, c.qk, 0, 0, false);
    return c;
  }
  /// The way round from scores to scores.
  void rounds(const Chain& c) {
    then(c.qk, c.row_max);
    then(c.qk, c.pv);
    then(c.row_max, c.pv);
    then(c.pv, c.row_max, 1);
    then(c.pv, c.qk, 1);
    then(c.pv, c.pv, 1);
    then(c.pv, c.store);
  }

  const FmhaWarpTile tile_;
  const Multiplier multiplier_;

 private:
  int compute(const char* body, Scope scope, const Work& work = {}) {
    Node n = numbered("Consumer", body, 0, scope);
    n.warps = tile_.warps;
    if (scope == Scope::iteration) hold(n, work);
    return add(std::move(n));
  }

  const char* conversions_;
  const FmhaScoreWork beside_ = fmha_score_work(config_);
};

}  // namespace tj::ops
