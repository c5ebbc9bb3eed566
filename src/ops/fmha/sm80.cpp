// The dependence graph of attention forward on matrix instructions of a warp, with its costs; see fmha.hpp.
//
//   load_q                        tile begin, once; take_q where queries stay in registers
//   load_k -> qk -> row_max -> pv <- load_v
//   pv (i) -> qk (i+1)            one register copy of the scores, which become weights where pv needs them
//   store                         tile end
// One role does it all. Its warps hold each other up only where they share a ring. A unit that one warp leaves idle is
// taken by another, of this block or of one beside it. Invariant: nothing here knows which arch of the family it is but
// by what it has: a copy engine or none, rates, memory.
#include <algorithm>

#include "ops/fmha/rungs.hpp"
#include "ops/fmha/warps_builder.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;

// Registers that the bodies need beside scores, weights and output: addresses, counters, fragments on their way, maxima
// and sums. With 128 words of output and 48 of scores and weights, 128 x 48 at head dim 128 compiles into 255 without a
// spill (tests/ops/fmha/warps_compile_test.cpp).
constexpr int kContextRegisters = 24;
// Values in the place of queries, where these go to registers; 64 rows at head dim 128 then have them there, too, and a
// block of 49 KB holds two blocks of keys. Off until it is timed: products bind these tiles, whatever is prefetched.
constexpr bool kValuesOverQueries = false;

const FmhaRung& rung_of(const FmhaKernel& config) { return fmha_rungs()[static_cast<std::size_t>(config.rung)]; }

class Builder : private FmhaWarpBuilder {
 public:
  Builder(const FmhaKernel& config, const FmhaWarpTile& tile, const arch::Arch& arch)
      : FmhaWarpBuilder(config, tile, Multiplier::Way::warp, "minmax_per_cycle", arch), rung_(rung_of(config)) {}

  Candidate build() {
    set_name(cat(rows_, "x", keys_, "_", tile_.warps, "warps", held() ? cat("_", rung_.name) : ""));
    if (held()) graph_.includes = {cat("ops/fmha/", arch_.family, "_rungs.cuh")};
    // The blocks of an SM are limited: to what a rung says, or to what would find room on a card that has no more than
    // the target's caps.
    if (held() || !arch_.base.empty()) graph_.least_smem_bytes = least_smem_for(arch_, tile_.blocks_per_sm);
    if (config_.pieces != 0) graph_.includes = {cat("ops/fmha/", arch_.family, "_pieces.cuh")};
    flag("kBulkCopies", copier_.by_engine());
    flag("kQueriesInRegisters", tile_.queries_in_registers);
    values(1);
    if (tile_.values_over_queries) graph_.values[2].lies_in = 0;
    if (rung_.k_ahead > 0)
      graph_.values[1].max_slots = rung_.k_ahead + 1, graph_.values[2].max_slots = rung_.v_ahead + 1;
    if (rung_.transposes_keys) value("k_columns", block_bytes(), Scope::iteration, 1, 4);
    nodes();
    Candidate candidate = made();
    candidate.one_role = true;
    candidate.max_stages = rung_.max_stages;
    candidate.max_slots = rung_.max_slots;
    return candidate;
  }

 private:
  Work transposition() const {
    Work work;
    work.shared = shared_cycles(2.0 * copied_keys());
    return work;
  }

  /// Is the kernel held to a rung of the ladder?
  bool held() const { return config_.rung != kNoFmhaRung; }
  /// Sets how far ahead copies are issued, for an iteration of `chain` cycles: as a rung asks, else a whole interval,
  /// as far as the rings go that fit. The interval is longer than the chain where threads copy, and where blocks side
  /// by side keep a unit busy. A reader holds its slot for part of it.
  void look_ahead(const Work& qk, const Work& pv, double chain) {
    if (held() && rung_.k_ahead == 0) return;
    constexpr std::int64_t kBarriers = 1024;
    const double copies = shared_cycles(copied_keys()) + shared_cycles(copied_values()),
                 issued = chain + (copier_.by_engine() ? 0 : copies);
    const double interval = std::max({issued, tile_.blocks_per_sm * (qk.matrix + pv.matrix),
                                      tile_.blocks_per_sm * (qk.shared + pv.shared + copies)});
    const std::int64_t queries = tile_.values_over_queries ? 0 : rows_ * row_bytes();
    const auto fit =
        (graph_.machine.memory_bytes.at("SMEM") - queries - kBarriers) * 2 / (block_bytes() + value_block_bytes());
    const FmhaSlots slots =
        held() ? fmha_rung_slots(rung_, fit) : FmhaSlots{static_cast<int>(fit / 2), static_cast<int>(fit / 2)};
    const auto ahead = [&](int asked, int ring, const Work& reader) {
      return std::min<double>(asked, ring - reader.longest() / interval) * interval / chain;
    };
    k_ahead_ = std::max(0.0, ahead(held() ? rung_.k_ahead : 1, slots.k, qk));
    v_ahead_ = std::max(0.0, ahead(held() ? rung_.v_ahead : 1, slots.v, pv));
  }

  /// `latency` cycles before their use.
  int load(const char* name, Scope scope, std::int64_t bytes, double latency) {
    Node n = single("Loader", name, tile_.warps, scope);
    const int issue = cycles(shared_cycles(static_cast<double>(bytes)));
    copier_.issue(n, tile_.warps, issue);
    n.latency = std::max(1, cycles(latency));
    n.reservations.push_back(of("LSU", issue));
    return add(std::move(n));
  }

  void nodes() {
    const bool natural = rung_.natural_exponential;
    // In the place of the multiply-add a difference and four products.
    const Work qk = product(!tile_.queries_in_registers), pv = weighted_product(natural ? 6 : 2);
    const double iteration = qk.longest() + maximum().longest() + pv.longest();
    look_ahead(qk, pv, iteration);
    const int load_q = load("load_q", Scope::tile_begin, rows_ * row_bytes(), iteration);
    const int load_k = load("load_k", Scope::iteration, block_bytes(), k_ahead_ * iteration);
    const int load_v = load("load_v", Scope::iteration, value_block_bytes(), v_ahead_ * iteration);
    graph_.overhead_cycles = 2.0 * (held() ? kUsualAhead * iteration : node(load_k).latency);
    Bodies bodies;
    if (tile_.queries_in_registers) bodies.queries = "take_q";
    if (rung_.transposes_keys) bodies.keys = "transpose_k", bodies.qk = "qk_columns";
    if (natural) bodies.row_max = "row_max_natural", bodies.pv = "pv_natural";
    if (held()) bodies.store = rung_.exact_division ? "store_divided" : "store_approximated";
    const Chain c = chain(bodies, qk, pv, kContextRegisters, transposition());
    then(load_q, c.queries >= 0 ? c.queries : c.qk, 0, 0);
    then(load_k, c.keys >= 0 ? c.keys : c.qk, 0, 1);
    if (c.keys >= 0) then(c.keys, c.qk, 0, kColumns);
    for (const int each : c.pv) then(load_v, each, 0, 2);
    rounds(c);
  }

  static constexpr int kColumns = 3;  ///< the value behind q, k and v
  const FmhaRung& rung_;
  const Copier copier_ = Copier::into_rings(arch_);
  static constexpr double kUsualAhead = 0.5;              ///< where no rung asks
  double k_ahead_ = kUsualAhead, v_ahead_ = kUsualAhead;  ///< iterations between the issue of a copy and its use
};

const arch::Needs& needs() {
  static constinit support::Lasting<const arch::Needs> needs;
  return needs.get([] {
    return arch::Needs{{"TC", "EXP", "ALU", "LSU"},
                       {"matrix_flops_per_cycle", "exp2_per_cycle", "f32_per_cycle", "minmax_per_cycle",
                        "shared_bytes_per_cycle", "cache_bytes"},
                       {"sm80"}};
  });
}

std::vector<FmhaWarpTile> tiles(const FmhaKernel& config, const arch::Arch& arch) {
  if (config.rung != kNoFmhaRung) return {{64, 4, 1, rung_of(config).blocks_per_sm, true}};
  // Rows of few queries: a warp has sixteen.
  if (config.packed) return {{std::max(config.head_dim, fmha_value_dim(config)) > 128 ? 32 : 64, 4, 1, 1, false}};
  // keys, warps, times sixteen rows each, blocks of an SM, queries in registers.
  // 32 rows a warp halve the loads from shared memory for a product. With 16 rows these take longer than the product
  // where the matrix unit is fast. As many keys as leave the compiler registers to load ahead with: at head dim 128, 64
  // keys are as fast as 48, but spill (H200, 2026-11-21). Any scale takes registers more.
  const int deep = config.general_scale ? 32 : 48;
  // An SM without room for two blocks of 128 such rows takes one of 256, which has the same warps; else 64 rows.
  const int widest = std::max(config.head_dim, fmha_value_dim(config));
  // 256 threads copy 32 rows of 64 columns at a time, and blocks have as many keys as some of these.
  const bool by_32 = config.head_dim == 64 || fmha_value_dim(config) == 64;
  // Beyond 128 columns a warp has sixteen rows, whose output takes up to 128 words.
  if (widest > 128) {
    const int narrow = fmha_value_dim(config) > 192 ? 32 : 48;
    return {
        {64, 4, 1, 1, false}, {narrow, 4, 1, 2, false}, {by_32 ? 32 : narrow, 8, 1, 1, false}, {32, 4, 1, 1, false}};
  }
  constexpr bool kOver = kValuesOverQueries;
  if (widest > 64) return {{deep, 4, 2, 2, false}, {by_32 ? 32 : deep, 8, 2, 1, false}, {64, 4, 1, 2, kOver, kOver}};
  // Wide blocks of keys gain 4% by fewer waits an iteration, and lose as much where the diagonal cuts through many of
  // them. Threads that copy lack the registers.
  const bool wide = !mask_of(config).rows_differ() && !config.general_scale && arch.has_unit("TMA");
  return {{wide ? 80 : 64, 4, 2, 2, true, kOver}, {64, 4, 1, 2, true, kOver}};
}

/// Do queries and a slot of keys and of values fit a block's shared memory? The tiles up to 128 columns fit every arch.
bool fits(const FmhaKernel& config, const FmhaWarpTile& tile, const arch::Arch& arch) {
  constexpr std::int64_t kBarriers = 1024;
  const std::int64_t key_row = std::int64_t{kFmhaElementBytes} * fmha::stored_columns(config.head_dim),
                     value_row = std::int64_t{kFmhaElementBytes} * fmha::stored_columns(fmha_value_dim(config));
  if (std::max(config.head_dim, fmha_value_dim(config)) <= 128) return true;
  return (tile.rows() + tile.block_n) * key_row + tile.block_n * value_row + kBarriers <=
         arch.smem_per_block_bytes / tile.blocks_per_sm;
}

std::vector<Candidate> candidates(const FmhaKernel& config, const arch::Arch& arch) {
  std::vector<Candidate> list;
  for (const FmhaWarpTile& tile : tiles(config, arch))
    if (fits(config, tile, arch)) list.push_back(Builder(config, tile, arch).build());
  return list;
}

}  // namespace

const FmhaFamily& fmha_sm80() {
  static constexpr FmhaFamily family{"sm80", needs, candidates, false, true, true, nullptr, nullptr, true};
  return family;
}

}  // namespace tj::ops
