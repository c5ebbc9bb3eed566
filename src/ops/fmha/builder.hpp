// What the dependence graphs of attention have in common, whatever instruction multiplies: text of the unit, values,
// copies by the engine.
//
// Decides names and sizes. Does not decide nodes of a consumer nor costs (sm90.cpp, sm80.cpp).
#pragma once

#include <utility>

#include "ops/common/element.hpp"
#include "ops/common/graph_builder.hpp"
#include "ops/fmha/family.hpp"
#include "ops/fmha/fields.hpp"
#include "ops/fmha/fmha.hpp"
#include "support/fail.hpp"

namespace tj::ops {

/// Rows of queries that one matrix instruction of a warp or a wave takes.
inline constexpr int kFmhaMatrixRows = 16;
/// Queries of a block where products are a warp's or a wave's.
inline int fmha_rows_of_warps(const FmhaTile& tile) { return tile.warps * tile.row_blocks * kFmhaMatrixRows; }

inline constexpr int kFmhaElementBytes = 2;  ///< the constructor below refuses types of another size

class FmhaBuilder : protected GraphBuilder {
 protected:
  FmhaBuilder(const FmhaConfig& config, const FmhaTile& tile, const arch::Arch& arch, int rows_per_block)
      : GraphBuilder("fmha", arch.family, arch, tile.blocks_per_sm),
        config_(config),
        tile_(tile),
        rows_(rows_per_block) {
    require_two_bytes("fmha", config_.dtype);
    add_constants<kFmhaFields>("fmha", config_, graph_, {"dtype", "head-dim"});
    constant("kBlockN", tile_.block_n);
    constant("kRowsPerBlock", rows_);
    add_constants<kFmhaFields>("fmha", config_, graph_, {"causal", "general-scale"});
  }

  void set_name(const std::string& shape) {
    graph_.name = support::cat("fmha_", to_string(config_.dtype), "_d", config_.head_dim,
                               config_.causal ? "_causal" : "", "_", shape);
  }

  std::int64_t row_bytes() const { return std::int64_t{config_.head_dim} * kFmhaElementBytes; }
  /// Queries once a tile, a block of keys and one of values an iteration: values 0, 1 and 2.
  void values(int min_slots) {
    value("q", rows_ * row_bytes(), Scope::tile_begin, 1, 1);
    value("k", tile_.block_n * row_bytes(), Scope::iteration, min_slots, 4);
    value("v", tile_.block_n * row_bytes(), Scope::iteration, min_slots, 4);
  }

  Node of_loader(const char* name, Scope scope, int warps) const {
    Node n = single("Loader", name, warps, scope);
    n.cycles = 1;
    n.variable_latency = n.streaming = true;
    return n;
  }
  /// A block of keys or of values by the copy engine: how long the engine works on it, and until it is there.
  struct Copy {
    int run = 0, latency = 0;
  };
  Copy engine_copy() const {
    const int run = cycles(static_cast<double>(tile_.block_n * row_bytes()) / 1024 * arch_.fact("copy_cycles_per_kb"));
    return {run, run + cycles(arch_.fact("copy_latency_cycles"))};
  }
  /// The nodes that copy queries, keys and values with the engine; a warp asks for each.
  struct Loads {
    int q = 0, k = 0, v = 0;
  };
  Loads engine_loads(const Copy& copy) {
    const auto load = [&](const char* name, Scope scope) {
      Node n = of_loader(name, scope, 1);
      n.async = graph::Async::copy;
      n.reservations = {of("TMA", copy.run)};
      n.latency = copy.latency;
      return add(std::move(n));
    };
    return {load("load_q", Scope::tile_begin), load("load_k", Scope::iteration), load("load_v", Scope::iteration)};
  }
  /// Without the diagonal only the last, partial block of keys needs masking; with it, what a tile's rows span.
  int max_fast_begin() const { return config_.causal ? (rows_ + tile_.block_n - 1) / tile_.block_n + 1 : 1; }

  FmhaConfig config_;
  FmhaTile tile_;
  int rows_ = 0;  ///< queries of a block
};

}  // namespace tj::ops
