// The dependence graph of attention forward on a warpgroup's matrix instructions, with its costs, and which tile shapes
// are tried; see fmha.hpp.
//
//   load_q                       tile begin, once
//   load_k -> qk.c -> softmax.c -> rescale.c -> pv.c <- load_v     for each consumer c
//   pv.c (i-1) -> rescale.c (i)   the output must be complete before it is corrected, the weights before they are
//   replaced
//   rescale.c (i) -> qk.c (i+1)   one register copy of the scores
//   pv.c ==> stage_rows.c -> put_box.c     tile end, through shared memory
#include "ops/fmha/sm90.hpp"

#include <algorithm>

#include "ops/fmha/builder.hpp"
#include "ops/fmha/params.cuh"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using graph::Graph;
using support::cat;

using fmha::kRowsPerConsumer;

// Every unit and fact that is read below, and the families of kernel_templates/ops/fmha/<family>.cuh.
const arch::Needs& kNeeds =
    support::lasting<arch::Needs>({{"TC", "EXP", "TMA"},
                                   {"matrix_flops_per_cycle", "matrix_group_cycles", "matrix_drain_cycles",
                                    "exp2_per_cycle", "f32_per_cycle", "minmax_per_cycle", "convert_per_cycle",
                                    "shared_unit_cycles", "copy_latency_cycles", "copy_cycles_per_kb", "cache_bytes"},
                                   {"sm90"}});

// Registers of a consumer beside scores, weights and output. Maxima, sums and factors of two rows take 6 words from
// iteration to iteration. Addresses, counters and temporaries of its bodies take 26. With these, 3 x 64 x 128 at head
// dim 64, which has 128 words of scores, weights and output, compiles into 160 registers without a spill
// (tests/codegen/fmha_compile_test.cpp).
constexpr int kContextRegisters = 32;
constexpr int kMostPeeledDim = 128;           // larger head dims ask for the mask in one loop
constexpr int kLeastSlots = 2;                // of a ring: one is filled while the other is read
constexpr std::int64_t kBarrierBytes = 1024;  // at most, beside the rings
// Another way of a block's rows of o has to bring so many keys. Rows in the place of values take 1 to 3% less than rows
// from registers at S 1024, head dims 160 to 256. At S 4096 and 16384 it is from 2% less to 2% more (H200, 2026-11-30).
constexpr int kWorthKeys = 32;
constexpr int kWriterRegisters = 32;  // with 24, kernels of bf16 spill 8 to 12 bytes (NVRTC 13.0)

// Cycles of one consumer's nodes, from the arch's rates and the element counts of the bodies.
struct Costs {
  Product product, values;  ///< of 64 x N x D, and of 64 x Dv x N
  int exp = 0;              ///< special-function cycles of softmax
  int alu = 0;              ///< arithmetic cycles of softmax
  int softmax = 0;          ///< softmax as the warpgroup sees it, alone
  int rescale = 0;
};

Costs costs_of(const FmhaKernel& config, const FmhaGroupTile& tile, const arch::Arch& arch) {
  Costs c;
  const double scores = static_cast<double>(kRowsPerConsumer) * tile.block_n;
  const int depth = fmha::multiplied_depth(config.head_dim), columns = fmha::multiplied_width(fmha_value_dim(config));
  const double outputs = static_cast<double>(kRowsPerConsumer) * columns;
  const auto product = [&](int of) {
    Product made = Multiplier(Multiplier::Way::warpgroup, arch).product(2.0 * scores * of, of);
    made.held += made.issue;  // one at a time: the unit is idle while a group is issued
    return made;
  };
  c.product = product(depth), c.values = product(columns);
  const FmhaScoreWork beside = fmha_score_work(config, arch);
  c.exp = cycles(scores * (1 + beside.exp) / arch.fact("exp2_per_cycle"));
  // A score costs one maximum, one multiply-add and one addition before it is rounded.
  c.alu = cycles(scores * (1.0 / arch.fact("minmax_per_cycle") + (2.0 + beside.adds) / arch.fact("f32_per_cycle")));
  // Nothing keeps the consumers' exponentials apart, so a consumer may have to share the unit with all others.
  c.softmax = std::max(c.exp + c.alu, tile.consumers * c.exp) + cycles(arch.fact("shared_unit_cycles"));
  // Half a conversion a score (two at a time), and a quarter of the correction, which is skipped unless a maximum moved
  // far. Source: tests/gpu/node_cycles.py, softmax_rescale less softmax, 77 to 122 cycles at N 128 to 176 with no
  // correction at all.
  c.rescale = cycles(0.5 * scores / arch.fact("convert_per_cycle") + 0.25 * outputs / arch.fact("f32_per_cycle"));
  return c;
}

// Maxima, sums and what rounds weights hold the ALU, as in the other families: consumers then take turns there, too.
// Off, as loops differ from predictions by more than that (README.md, "Facts and wishes").
constexpr bool kReservesAlu = false;

class Builder : private FmhaBuilder {
 public:
  Builder(const FmhaKernel& config, const FmhaGroupTile& tile, const arch::Arch& arch)
      : FmhaBuilder(config, arch, kRowsPerConsumer * tile.consumers, tile.block_n),
        tile_(tile),
        costs_(costs_of(config, tile, arch)) {
    build();
  }
  Graph graph() { return std::move(graph_); }
  Candidate candidate() {
    Candidate candidate = made(tile_.turns);
    candidate.definitions = matrix_widths({tile_.block_n, outputs()});
    return candidate;
  }

 private:
  void build() {
    set_name(cat(tile_.consumers, "x64x", tile_.block_n));
    // Equal tiles: one block an SM walks them, loading the next tile while it stores this one. Causal tiles differ, so
    // each is a block of its own and the hardware hands out the longest first; calls with many tiles take the kernel
    // whose blocks draw them (fmha_draws).
    graph_.walk = mask_.tiles_differ() || config_.packed ? graph::Walk::one_tile : graph::Walk::persistent;
    // One loop compiles in three quarters of the time of two (README.md, "Ranges of iterations"). It takes as long as
    // two at head dim 256, and 2 to 12% longer at 64 and 128 (H200, 2026-11-30).
    if (config_.head_dim > kMostPeeledDim) graph_.ranges = graph::Ranges::guarded;
    values(kLeastSlots);
    loads_ = engine_loads();
    for (int c = 0; c < tile_.consumers; ++c) consumer(c);
    // Before the loop the queries and the first keys arrive, one copy behind the other; after it the output leaves.
    graph_.overhead_cycles = 2.0 * copy_.latency + 4.0 * costs_.rescale;
  }

  int matrix(const char* body, int c, const Product& product) {
    Node n = numbered("Consumer", body, c);
    multiply(n, groups_, product);
    return add(std::move(n));
  }
  int arithmetic(const char* body, int c, int run_cycles) {
    Node n = numbered("Consumer", body, c);
    busy(n, run_cycles);
    return add(std::move(n));
  }

  // Words of a thread: a row of scores, of weights and of output is spread over four threads, two rows a thread.
  void registers(int qk, int softmax, int rescale, int pv) {
    const auto held = [&](int index) -> int& { return node(index).registers; };
    const int threads = arch_.warps_per_group * arch_.warp_size;
    held(qk) = kRowsPerConsumer * tile_.block_n / threads;
    held(softmax) = kContextRegisters + fmha_feature_registers(config_, arch_);
    held(rescale) = held(qk) / 2;  // two 16-bit weights a word
    held(pv) = kRowsPerConsumer * outputs() / threads;
  }

  void consumer(int c) {
    const int begin = add(numbered("Consumer", "begin", c, Scope::tile_begin));
    const int qk = matrix("qk", c, costs_.product);
    const int softmax = arithmetic("softmax", c, costs_.softmax);
    masks(softmax);
    // A text that bounds keys tells which blocks all rows see.
    if (config_.key_range.given()) node(softmax).range = {graph::kFastVariant, graph::kFastBegin, "fast_end"};
    node(softmax).reservations.push_back(of("EXP", costs_.exp, costs_.softmax - costs_.exp));
    const int rescale = arithmetic("rescale", c, costs_.rescale);
    const int pv = matrix("pv", c, costs_.values);
    const int store = end_of_tile(c);
    registers(qk, softmax, rescale, pv);
    if constexpr (kReservesAlu) {
      node(softmax).reservations.push_back(of("ALU", costs_.alu));
      node(rescale).reservations.push_back(of("ALU", costs_.rescale));
    }

    edge(begin, qk, 0, 0, false);
    then(loads_.q, qk, 0, 0);
    then(loads_.k, qk, 0, 1);
    wait(qk, softmax);
    then(softmax, rescale);
    then(qk, rescale);  // softmax works on the scores where they are
    then(softmax, softmax, 1);
    wait(pv, rescale, 1);
    then(rescale, qk, 1);
    then(rescale, pv);
    then(loads_.v, pv, 0, 2);
    edge(pv, pv, costs_.values.held, 1, false);
    wait(pv, store);
  }

  /// A consumer's rows of o leave through shared memory: its next tile begins while they are written. From registers,
  /// they took 2000 cycles of each tile (tj-bench --timeline, D 128, H100, 2026-11-27).
  int end_of_tile(int c) {
    if (!tile_.staged) return add(numbered("Consumer", "store", c, Scope::tile_end));
    Node put = numbered("Writer", "put_box", c, Scope::tile_end);
    put.async = graph::Async::store;
    put.registers = kWriterRegisters;
    launch_.staged_rows = kRowsPerConsumer;
    const int stage = hand_out(numbered("Consumer", "stage_rows", c, Scope::tile_end), std::move(put), cat("o", c),
                               kRowsPerConsumer * value_row_bytes());
    if (tile_.o_in_values) last_value().lies_in = kValues;
    return stage;
  }

  static constexpr int kValues = 2;  ///< of the graph's values: q, k, v
  const FmhaGroupTile tile_;
  const Costs costs_;
  const Multiplier groups_{Multiplier::Way::warpgroup, arch_};
  const Copy copy_ = engine_copy(block_bytes());
  Loads loads_;
};

/// Do queries, two blocks of keys, two of values and the staged rows of o fit into a block's shared memory?
bool fits(const FmhaKernel& config, const FmhaGroupTile& tile, const arch::Arch& arch) {
  const std::int64_t key_row = std::int64_t{kFmhaElementBytes} * fmha::stored_columns(config.head_dim),
                     value_row = std::int64_t{kFmhaElementBytes} * fmha::stored_columns(fmha_value_dim(config));
  const std::int64_t rows = std::int64_t{tile.consumers} * kRowsPerConsumer, blocks = kLeastSlots * tile.block_n,
                     staged = tile.staged ? rows * value_row : 0, values = blocks * value_row;
  return rows * key_row + blocks * key_row + (tile.o_in_values ? std::max(values, staged) : values + staged) +
             kBarrierBytes <=
         arch.smem_per_block_bytes;
}

/// Words of a consumer's thread: scores, weights, output and context.
int words_of(const FmhaKernel& config, int block_n, const arch::Arch& arch) {
  return block_n * 3 / 4 + fmha::multiplied_width(fmha_value_dim(config)) / 2 + kContextRegisters +
         fmha_feature_registers(config, arch);
}

/// Ways in which rows of o leave.
enum class Rows { from_registers, staged, staged_in_values };

/// The widest block of keys whose words and bytes there is room for, beside so many consumers; 0 keys: none.
FmhaGroupTile widest_tile(const FmhaKernel& config, int consumers, Rows rows, const arch::Arch& arch) {
  constexpr int kMostKeys = 176, kMatrixDepth = 16;
  // Three consumers of 112 keys have the words, but ptxas 13.0 serialises their products for 64 values: at head dims of
  // 120 and 128 (C7511 causal, C7512 full) and of 152 and 160 (C7512). Products of head dims 96, 104, 112, 136, 144 and
  // 168 stay beside each other, and so do 128 keys with 32 values. The cut covers all from 104 to 160, as nobody has
  // timed 112 keys at those between.
  constexpr int kFewerKeys = 96, kNarrowest = 104, kWidest = 160, kValues = 64;
  const bool staged = rows != Rows::from_registers;
  // As kernel_templates/arch hands 65536 registers to so many warpgroups. The role that stores staged rows takes some.
  const int words = consumers == 2 ? (staged ? 224 : 240) : consumers == 3 && staged ? 152 : 160;
  FmhaGroupTile tile{consumers, kMostKeys, false, staged, rows == Rows::staged_in_values};
  if (consumers == 3 && config.head_dim >= kNarrowest && config.head_dim <= kWidest &&
      fmha_value_dim(config) >= kValues)
    tile.block_n = kFewerKeys;
  while (tile.block_n > 0 && (words_of(config, tile.block_n, arch) > words || !fits(config, tile, arch)))
    tile.block_n -= kMatrixDepth;
  tile.turns = tile.block_n <= 128;
  return tile;
}
/// The same with staged rows of o: beside values, or in their place where that leaves room for more keys.
FmhaGroupTile widest_staged(const FmhaKernel& config, int consumers, const arch::Arch& arch) {
  const FmhaGroupTile beside = widest_tile(config, consumers, Rows::staged, arch),
                      within = widest_tile(config, consumers, Rows::staged_in_values, arch);
  return within.block_n >= beside.block_n + kWorthKeys ? within : beside;
}

/// Few queries have one consumer, which takes the registers of two. Keys in flight bound the time: blocks of up to 128
/// leave room for three of keys and of values at head dim 128.
std::vector<FmhaGroupTile> packed_tiles(const FmhaKernel& config, const arch::Arch& arch) {
  constexpr int kMostWords = 216, kMostKeys = 128, kMatrixDepth = 16;
  FmhaGroupTile tile{1, kMostKeys, false, false};
  while (tile.block_n > 0 && (words_of(config, tile.block_n, arch) > kMostWords || !fits(config, tile, arch)))
    tile.block_n -= kMatrixDepth;
  return {tile};
}

std::vector<FmhaGroupTile> tiles(const FmhaKernel& config, const arch::Arch& arch) {
  // Widths whose scores, weights and output fit the registers of a consumer: 3/4 N + D/2 words and kContextRegisters.
  // Turns pay for narrow blocks; wide ones alternate by themselves. N 160 full at S 4096 and 16384 ran at 615 and 642
  // TFLOP/s without turns, at 600 and 630 with turns (H200, 2026-11-20). To repeat it: change the flag here, then
  // tests/gpu/compare.py --sizes fixed --causal false.
  if (config.packed) return packed_tiles(config, arch);
  if (config.out_f32) return {widest_tile(config, 2, Rows::from_registers, arch)};
  // Addresses and loads of a bias: at head dim 128 blocks of 128 keys spill 4 bytes, of 160 240 (NVRTC 13.0).
  const bool usual = config.value_dim == 0 && (config.head_dim == 64 || config.head_dim == 128);
  if (usual && config.head_dim == 128 && has_bias(config)) return {{2, 112, true}, {2, 96, true}};
  if (usual && has_bias(config)) return {{2, 128, true}, {2, 96, true}};
  // Texts may take any number of registers: a smaller tile stands by.
  if (usual && config.head_dim == 128 && has_mods(config)) return {{2, 160, false}, {2, 128, true}, {2, 96, true}};
  if (config.value_dim == 0 && config.head_dim == 128) return {{2, 160, false}, {2, 128, true}};
  // A role that loads pages takes 40 registers: with 32, which three consumers leave it, it spills (NVRTC 13.0).
  const bool three = config.page_size == 0;
  if (config.value_dim == 0 && config.head_dim == 64 && !three) return {{2, 176, true}, {2, 128, true}};
  if (config.value_dim == 0 && config.head_dim == 64) {
    if (has_mods(config)) return {{3, 128, true}, {2, 176, true}, {2, 128, true}, {2, 96, true}};
    return {{3, 128, true}, {2, 176, true}, {2, 128, true}};
  }
  // Of other head dims: as wide as there is room for. Rows of o leave through shared memory unless keys lack the room.
  std::vector<FmhaGroupTile> list;
  for (const auto& [consumers, staged] : {std::pair{2, true}, {2, false}, {3, true}, {1, true}}) {
    if (consumers == 3 && !three) continue;
    const FmhaGroupTile tile =
        staged ? widest_staged(config, consumers, arch) : widest_tile(config, consumers, Rows::from_registers, arch);
    const bool wider = list.empty() || staged || tile.block_n >= list.front().block_n + kWorthKeys;
    if (tile.block_n >= 48 && wider && (consumers != 1 || list.empty())) list.push_back(tile);
  }
  return list;
}

/// The unit that multiplies, or a consumer's chain from scores to weights.
double iteration_cycles(const FmhaKernel& config, const FmhaTile& tile, const arch::Arch& arch) {
  for (const FmhaGroupTile& own : tiles(config, arch)) {
    if (FmhaTile{own.consumers * kRowsPerConsumer, own.block_n} != tile || !fits(config, own, arch)) continue;
    const Costs costs = costs_of(config, own, arch);
    return std::max(own.consumers * (costs.product.held + costs.values.held),
                    costs.product.latency + costs.softmax + costs.rescale);
  }
  return 0;
}

/// Measured by tj-warm --tune --op fmha, full masks, 14 sizes of each head dim, H100, 2026-11-27. Predictions at head
/// dim 128 are 3% apart. At 64, two consumers take 5 to 13% longer beside prediction than three. There 128x176 was the
/// fastest in one size, by 1%.
double least_gain(const FmhaKernel& config, const FmhaTile& tile) {
  if (config.value_dim != 0 || (config.head_dim != 64 && config.head_dim != 128)) return kNoFmhaGain;  // not measured
  if (config.head_dim == 128) return 0.03;
  return tile == FmhaTile{128, 176} ? kNoFmhaGain : 0.12;
}

std::vector<Candidate> candidates(const FmhaKernel& config, const arch::Arch& arch) {
  std::vector<Candidate> list;
  for (const FmhaGroupTile& tile : tiles(config, arch)) list.push_back(Builder(config, tile, arch).candidate());
  return list;
}

}  // namespace

graph::Graph fmha_group_graph(const FmhaKernel& config, const FmhaGroupTile& tile, const arch::Arch& arch) {
  return Builder(config, tile, arch).graph();
}

const FmhaFamily& fmha_sm90() {
  static constexpr FmhaFamily family{.name = "sm90",
                                     .needs = []() -> const arch::Needs& { return kNeeds; },
                                     .candidates = candidates,
                                     .walks = true,
                                     .packs = true,
                                     .iteration_cycles = iteration_cycles,
                                     .least_gain = least_gain,
                                     .short_scores = true};
  return family;
}

}  // namespace tj::ops
