// The dependence graph of attention forward on matrix instructions of a warp, with its costs; see fmha.hpp.
//
//   load_q                        tile begin, once; take_q where queries stay in registers
//   load_k -> qk -> row_max -> pv <- load_v
//   pv (i) -> qk (i+1)            one register copy of the scores, which become weights where pv needs them
//   store                         tile end
// One role does it all: its warps hold each other up only where they share a ring, and what one of them leaves of a
// unit another takes, of this block or of one beside it. Invariant: nothing here knows which arch of the family it is
// but by what it has: a copy engine or none, rates, memory.
#include <algorithm>

#include "ops/fmha/builder.hpp"
#include "ops/fmha/params.cuh"
#include "ops/fmha/steps.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using graph::Async;
using graph::Graph;
using support::cat;

// What the bodies need beside scores, weights and output: addresses, counters, fragments on their way, maxima and sums.
// With 128 words of output and 48 of scores and weights, 128 x 48 at head dim 128 compiles into 255 without a spill
// (tests/ops/fmha/warps_compile_test.cpp).
constexpr int kContextRegisters = 24;

class Builder : private FmhaBuilder {
 public:
  Builder(const FmhaConfig& config, const FmhaTile& tile, const arch::Arch& arch)
      : FmhaBuilder(config, tile, arch, fmha_rows_of_warps(tile)) {}

  Graph build() {
    set_name(cat(rows_, "x", tile_.block_n, "_", tile_.warps, "warps", held() ? cat("_", step_.name) : ""));
    if (held()) graph_.includes = {cat("ops/fmha/", arch_.family, "_steps.cuh")};
    // So many blocks an SM, and no more: what a step says, or what would find room on a card that has no more than the
    // target's caps.
    if (held() || !arch_.base.empty()) graph_.least_smem_bytes = least_smem_for(arch_, tile_.blocks_per_sm);
    graph_.persistent = false;
    bulk_ = arch_.has_unit("TMA");
    constant("kWarps", tile_.warps);
    constant("kRowBlocks", tile_.row_blocks);
    flag("kBulkCopies", bulk_);
    flag("kQueriesInRegisters", tile_.queries_in_registers);
    values(1);
    if (step_.k_ahead > 0)
      graph_.values[1].max_slots = step_.k_ahead + 1, graph_.values[2].max_slots = step_.v_ahead + 1;
    if (step_.transposes_keys) value("k_columns", tile_.block_n * row_bytes(), Scope::iteration, 1, 4);
    consumer();
    graph_.flops_per_iteration = 4.0 * rows_ * tile_.block_n * config_.head_dim;
    graph_.overhead_cycles = 2.0 * latency_;
    return std::move(graph_);
  }

 private:
  Work product(bool left_from_shared) const {
    Work work;
    work.matrix = 2.0 * rows_ * tile_.block_n * config_.head_dim / arch_.fact("matrix_flops_per_cycle");
    // Every warp loads all keys or values, and of the queries its own rows.
    work.shared = shared_cycles(static_cast<double>(row_bytes()) *
                                (tile_.warps * tile_.block_n + (left_from_shared ? rows_ : 0)));
    return work;
  }
  double scores() const { return static_cast<double>(rows_) * tile_.block_n; }
  /// A maximum for each score; of the correction, which is skipped unless a maximum moved far, a quarter.
  Work maximum() const {
    Work work;
    work.alu =
        scores() / arch_.fact("minmax_per_cycle") + 0.25 * rows_ * config_.head_dim / arch_.fact("f32_per_cycle");
    return work;
  }
  /// Exponentials, a multiply-add, an addition and half a conversion for each score, beside the product.
  Work weighted_product() const {
    Work work = product(false);
    work.exp = scores() / arch_.fact("exp2_per_cycle");
    const double operations =
        step_.natural_exponential ? 6 : 2;  // a difference and four products in the place of the multiply-add
    work.alu = scores() * (operations / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact("minmax_per_cycle"));
    return work;
  }
  Work transposition() const {
    Work work;
    work.shared = shared_cycles(2.0 * static_cast<double>(row_bytes()) * tile_.block_n);
    return work;
  }

  /// Is the kernel held to a step of the ladder?
  bool held() const { return config_.step != kNoFmhaStep; }
  /// How far ahead copies are issued, for an iteration of `chain` cycles: as a step asks, else a whole interval, as far
  /// as the rings go that fit. The interval is longer than the chain where threads copy, and where blocks side by side
  /// keep a unit busy; a reader holds its slot for part of it.
  void look_ahead(const Work& qk, const Work& pv, double chain) {
    if (held() && step_.k_ahead == 0) return;
    const std::int64_t block = tile_.block_n * row_bytes(), barriers = 1024;
    const double copies = 2 * shared_cycles(static_cast<double>(block)), issued = chain + (bulk_ ? 0 : copies);
    const double interval = std::max({issued, tile_.blocks_per_sm * (qk.matrix + pv.matrix),
                                      tile_.blocks_per_sm * (qk.shared + pv.shared + copies)});
    const auto fit = (graph_.machine.memory_bytes.at("SMEM") - rows_ * row_bytes() - barriers) / block;
    const FmhaSlots slots =
        held() ? fmha_step_slots(step_, fit) : FmhaSlots{static_cast<int>(fit / 2), static_cast<int>(fit / 2)};
    const auto ahead = [&](int asked, int ring, const Work& reader) {
      return std::min<double>(asked, ring - reader.longest() / interval) * interval / chain;
    };
    k_ahead_ = std::max(0.0, ahead(held() ? step_.k_ahead : 1, slots.k, qk));
    v_ahead_ = std::max(0.0, ahead(held() ? step_.v_ahead : 1, slots.v, pv));
  }

  int compute(const char* body, Scope scope, const Work& work) {
    Node n = numbered("Consumer", body, 0, scope);
    n.warps = tile_.warps;
    if (scope == Scope::iteration) hold(n, work);
    return add(std::move(n));
  }
  /// `rows` rows of 16-bit elements, `latency` cycles before their use.
  int load(const char* name, Scope scope, int rows, double latency) {
    Node n = of_loader(name, scope, bulk_ ? 1 : tile_.warps);
    n.async = bulk_ ? Async::copy : Async::threads;
    n.latency = std::max(1, cycles(latency));
    const double bytes = static_cast<double>(rows) * row_bytes();
    const int issue = cycles(shared_cycles(bytes));
    n.reservations.push_back(of("LSU", issue));
    if (!bulk_) n.cycles = n.warp_cycles = issue;  // as long as it takes to issue them
    return add(std::move(n));
  }

  /// Words of a thread.
  int words(int columns) const { return tile_.row_blocks * kFmhaMatrixRows * columns / arch_.warp_size; }

  void consumer() {
    const Work qk_work = product(!tile_.queries_in_registers), max_work = maximum(), pv_work = weighted_product();
    const double iteration = qk_work.longest() + max_work.longest() + pv_work.longest();
    look_ahead(qk_work, pv_work, iteration);
    const int load_q = load("load_q", Scope::tile_begin, rows_, iteration);
    const int load_k = load("load_k", Scope::iteration, tile_.block_n, k_ahead_ * iteration);
    const int load_v = load("load_v", Scope::iteration, tile_.block_n, v_ahead_ * iteration);
    latency_ = held() ? kUsualAhead * iteration : node(load_k).latency;

    const int begin = compute("begin", Scope::tile_begin, {});
    const int take = tile_.queries_in_registers ? compute("take_q", Scope::tile_begin, {}) : -1;
    const int transpose = step_.transposes_keys ? compute("transpose_k", Scope::iteration, transposition()) : -1;
    const int qk = compute(transpose >= 0 ? "qk_columns" : "qk", Scope::iteration, qk_work);
    const int row_max = compute(step_.natural_exponential ? "row_max_natural" : "row_max", Scope::iteration, max_work);
    const int pv = compute(step_.natural_exponential ? "pv_natural" : "pv", Scope::iteration, pv_work);
    const int store = compute(!held()                ? "store"
                              : step_.exact_division ? "store_divided"
                                                     : "store_approximated",
                              Scope::tile_end, {});
    node(row_max).has_fast_variant = true;
    node(row_max).max_fast_begin = max_fast_begin();
    node(qk).registers = words(tile_.block_n);
    node(pv).registers = words(config_.head_dim) + kContextRegisters + (take >= 0 ? words(config_.head_dim) / 2 : 0);

    edge(begin, qk, 0, 0, false);
    then(load_q, take >= 0 ? take : qk, 0, 0);
    if (take >= 0) edge(take, qk, 0, 0, false);
    then(load_k, transpose >= 0 ? transpose : qk, 0, 1);
    if (transpose >= 0) then(transpose, qk, 0, kColumns);
    then(load_v, pv, 0, 2);
    then(qk, row_max, 0);
    then(qk, pv, 0);
    then(row_max, pv, 0);
    then(pv, row_max, 1);
    then(pv, qk, 1);
    then(pv, pv, 1);
    then(pv, store, 0);
  }

  static constexpr int kColumns = 3;  ///< the value behind q, k and v
  const FmhaStep& step_ = fmha_steps()[static_cast<std::size_t>(config_.step)];
  static constexpr double kUsualAhead = 0.5;  ///< where no step asks
  bool bulk_ = false;
  double latency_ = 0, k_ahead_ = kUsualAhead,
         v_ahead_ = kUsualAhead;  ///< iterations between the issue of a copy and its use
};

const FmhaStep& step_of(const FmhaConfig& config) { return fmha_steps()[static_cast<std::size_t>(config.step)]; }

const arch::Needs& needs() {
  static constinit support::Lasting<const arch::Needs> needs;
  return needs.get([] {
    return arch::Needs{
        {"TC", "EXP", "ALU", "LSU"},
        {"matrix_flops_per_cycle", "exp2_per_cycle", "f32_per_cycle", "minmax_per_cycle", "shared_bytes_per_cycle"},
        {"sm80"}};
  });
}

Graph graph_of(const FmhaConfig& config, const FmhaTile& tile, const arch::Arch& arch) {
  return Builder(config, tile, arch).build();
}

std::vector<FmhaTile> tiles(const FmhaConfig& config, const arch::Arch& arch) {
  if (config.step != kNoFmhaStep) return {{1, 64, false, 4, 1, step_of(config).blocks_per_sm, true}};
  // keys, warps, times sixteen rows each, blocks of an SM, queries in registers.
  // 32 rows a warp halve what is loaded from shared memory for a product, of whose bandwidth 16 rows take more than of
  // the matrix unit where that is fast. As many keys as leave the compiler registers to load ahead with: at head dim
  // 128, 64 keys are as fast as 48, but spill (H200, 2026-11-21). Any scale takes registers more.
  const auto tile = [](int block_n, int warps, int row_blocks, int blocks, bool registers) {
    return FmhaTile{1, block_n, false, warps, row_blocks, blocks, registers};
  };
  const int deep = config.general_scale ? 32 : 48;
  // Where an SM has no room for two blocks of 128 such rows, one of 256 has the same warps; else 64 rows.
  if (config.head_dim == 128) return {tile(deep, 4, 2, 2, false), tile(deep, 8, 2, 1, false), tile(64, 4, 1, 2, false)};
  // Wide blocks of keys gain 4% by fewer waits an iteration, and lose as much where the diagonal cuts through many of
  // them. Threads that copy lack the registers.
  const bool wide = !config.causal && !config.general_scale && arch.has_unit("TMA");
  return {tile(wide ? 80 : 64, 4, 2, 2, true), tile(64, 4, 1, 2, true)};
}

void hold(const FmhaConfig& config, const FmhaTile&, Candidate& candidate) {
  candidate.one_role = true;
  candidate.max_stages = step_of(config).max_stages;
  candidate.max_slots = step_of(config).max_slots;
}

}  // namespace

const FmhaFamily& fmha_sm80() {
  static constexpr FmhaFamily family{"sm80", needs, tiles, fmha_rows_of_warps, graph_of, hold, true};
  return family;
}

}  // namespace tj::ops
