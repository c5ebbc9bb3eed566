// The part that all dependence graphs of attention share, whatever instruction multiplies: text of the unit, values,
// copies by the engine.
//
// Decides names and sizes. Does not decide nodes of a consumer nor costs (sm90.cpp, sm80.cpp).
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "ops/common/element.hpp"
#include "ops/common/graph_builder.hpp"
#include "ops/common/ranges_field.hpp"
#include "ops/fmha/family.hpp"
#include "ops/fmha/fields.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/mask.hpp"
#include "ops/fmha/mods.hpp"
#include "support/fail.hpp"

namespace tj::ops {

inline constexpr int kFmhaElementBytes = 2;  ///< the constructor below refuses types of another size

/// The part of L2 that the keys and values of a launch's last heads may take. Source: FlashAttention-3's order of
/// causal tiles, 32 MB on GPUs with 50 MB.
inline constexpr double kSectionShare = 0.64;

inline bool has_short_scores(const arch::Arch& arch) {
  const FmhaFamily* const family = find_fmha_family(arch);
  return family != nullptr && family->short_scores;
}
/// Does a score take one multiply-add for its slope?
inline bool shares_parts(const FmhaKernel& config, const arch::Arch& arch) {
  return has_short_scores(arch) && !config.general_scale && !makes_scores(config);
}

/// What the features of a kernel add to each score (kernel_templates/ops/fmha/score.cuh): special functions, and
/// multiply-adds and the like. tanh has an argument, a sum, six steps of a reciprocal, a last one and a sign. In the
/// short form, those of small arguments have a square and four steps, and the largest is looked for, which counts as
/// two. A slope takes a bias and its addition; a distance of either sign is one more.
struct FmhaScoreWork {
  double exp = 0, adds = 0;
};
inline FmhaScoreWork fmha_score_work(const FmhaKernel& config, const arch::Arch& arch) {
  FmhaScoreWork work;
  if (config.softcap && has_short_scores(arch)) work.adds += 7;
  if (config.softcap && !has_short_scores(arch)) work.exp += 1, work.adds += 10;
  if (config.alibi) work.adds += shares_parts(config, arch) ? 1 : config.causal ? 2 : 3;
  work.adds += mods_operations(config);
  return work;
}
/// Registers that the features take throughout: constants of tanh, a slope and a row's distance, a window's bounds,
/// and what texts are told. In short forms, tanh has its constants in instructions, and a slope that is folded has
/// room.
inline int fmha_feature_registers(const FmhaKernel& config, const arch::Arch& arch) {
  const bool brief = has_short_scores(arch);
  return (config.softcap && !brief ? 4 : 0) + (config.alibi && !shares_parts(config, arch) ? 4 : 0) +
         (config.windowed ? 2 : 0) + mods_registers(config);
}

class FmhaBuilder : protected GraphBuilder {
 protected:
  FmhaBuilder(const FmhaKernel& config, const arch::Arch& arch, int rows_per_block, int block_n, int blocks_per_sm = 1)
      : GraphBuilder("fmha", arch.family, arch, blocks_per_sm), config_(config), rows_(rows_per_block), keys_(block_n) {
    require_two_bytes("fmha", config_.dtype);
    const std::initializer_list<std::string_view> first = {"dtype", "head-dim"};
    add_constants<kFmhaFields>("fmha", config_, graph_, first);
    known("kBlockN", launch_.block_n, keys_);
    known("kRowsPerBlock", launch_.rows_per_block, rows_);
    add_other_constants<kFmhaFields>("fmha", config_, graph_, first);
    if (config_.page_size != 0) constant("kPageRows", fmha_box_rows(config_.page_size, keys_));
    add_mods(graph_, config_);
    graph_.flops_per_iteration = 2.0 * rows_ * keys_ * (config_.head_dim + fmha_value_dim(config_));
  }
  Candidate made(bool turns = false) {
    launch_.bulk_copies = std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                                      [](const Node& n) { return n.async == graph::Async::copy; });
    set_walk("fmha", config_.walk, arch_, graph_);
    launch_.walks = graph_.walks();
    set_ranges(config_.ranges, graph_);
    if (graph_.walk == graph::Walk::dynamic && mask_.tiles_differ())
      launch_.section_kb = static_cast<int>(kSectionShare * arch_.fact("cache_bytes") / 1024);
    return fmha_candidate(std::move(graph_), config_, launch_, turns);
  }

  void set_name(const std::string& shape) {
    graph_.name = support::cat("fmha", tags_of_fields<kFmhaFields>(config_, {"general-scale", "rung", "tile"}),
                               mods_tag(config_), "_", shape);
  }

  /// A row in shared memory: of queries or keys; of values or of the output.
  std::int64_t row_bytes() const { return std::int64_t{kFmhaElementBytes} * fmha::stored_columns(config_.head_dim); }
  std::int64_t value_row_bytes() const {
    return std::int64_t{kFmhaElementBytes} * fmha::stored_columns(fmha_value_dim(config_));
  }
  std::int64_t block_bytes() const { return keys_ * row_bytes(); }  ///< of keys
  std::int64_t value_block_bytes() const { return keys_ * value_row_bytes(); }
  /// Columns that products take.
  int depth() const { return fmha::multiplied_depth(config_.head_dim); }
  int outputs() const { return fmha::multiplied_width(fmha_value_dim(config_)); }
  /// Queries once a tile, a block of keys and one of values an iteration: values 0, 1 and 2.
  void values(int min_slots) {
    value("q", rows_ * row_bytes(), Scope::tile_begin, 1, 1);
    value("k", block_bytes(), Scope::iteration, min_slots, 4);
    value("v", value_block_bytes(), Scope::iteration, min_slots, 4);
  }

  /// A block of keys or of values by the copy engine: how long the engine works on it, and until it is there.
  struct Copy {
    int run = 0, latency = 0;
  };
  Copy engine_copy(std::int64_t bytes) const {
    const int run = cycles(engine_.run_cycles(static_cast<double>(bytes)));
    return {run, run + cycles(engine_.latency_cycles())};
  }
  /// The nodes that copy queries, keys and values with the engine; a warp asks for each.
  struct Loads {
    int q = 0, k = 0, v = 0;
  };
  Loads engine_loads() {
    const auto load = [&](const char* name, Scope scope, const Copy& copy) {
      Node n = single("Loader", name, 1, scope);
      engine_.issue(n, 1);
      if (scope == Scope::iteration && config_.page_size != 0)
        n.warp_cycles = cycles(kPagesCycles + keys_ / fmha_box_rows(config_.page_size, keys_) * kPageCycles);
      n.reservations = {of("TMA", copy.run)};
      n.latency = copy.latency;
      return add(std::move(n));
    };
    const Copy keys = engine_copy(block_bytes()), values = engine_copy(value_block_bytes());
    return {load("load_q", Scope::tile_begin, keys), load("load_k", Scope::iteration, keys),
            load("load_v", Scope::iteration, values)};
  }
  /// Sets that a node which masks has a variant without, from some iteration on. Where ranges of keys begin behind the
  /// first one, the mask itself asks in each iteration.
  void masks(int index) {
    if (!mask_.from_first_key()) return;
    const int latest = mask_.most_masked(rows_, keys_, graph::Range{}.max_begin);
    node(index).range = {graph::kFastVariant, graph::kFastBegin, {}, latest};
  }

  /// Cycles of a thread for a block of keys in pages, and for each of its boxes: it looks a page up, and asks for them.
  /// Source: iterations whose keys and values a role each brings, of 128 pages 14.8 thousand cycles, of 16 pages 3060
  /// (H200, 2026-11-28, `tests/gpu/fmha_features.py --times pages`).
  static constexpr double kPagesCycles = 1400, kPageCycles = 104;
  FmhaKernel config_;
  const fmha::Mask mask_ = mask_of(config_);  ///< of any sizes
  int rows_ = 0;                              ///< queries of a block
  int keys_ = 0;                              ///< of an iteration
  FmhaLaunch launch_;
  const Copier engine_{Copier::Way::engine, arch_};
};

}  // namespace tj::ops
