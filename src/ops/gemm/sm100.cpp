// The family of products in tensor memory (sm100): which tiles it serves, the dependence graph and its costs; see
// family.hpp.
//
//   load_a, load_b -> mma.c            for each 128 rows c of a tile; of a tile of 64 rows, a product of so many
//   mma.c (i) -> mma.c (i+1)           sums into the same columns, in the order of the unit
//   mma.c ==> store.c                  tile end, by warps of their own: while they store, the next tile's products go
//   to other columns
//
// Blocks of a cluster of 2 x 1 multiply as one, 256 rows at a time: each brings its rows of a and half of the columns
// of b. Decides which tiles the unit serves. Invariant: a tile that it serves has its sums in tensor memory.
#include <algorithm>
#include <cmath>

#include "ops/gemm/rings_builder.hpp"
#include "support/lasting.hpp"

namespace tj::ops {

const GemmFamily& gemm_sm100();

namespace {

using support::cat;

constexpr int kMostRows = graph::kTensorLanes, kLeastRows = 64;  // of one product; either takes the unit as long
constexpr int kNarrow = 32;                                      // columns
// Registers of a role that stores: 32 sums of a part, as many of c, of bias and on their way, addresses.
constexpr int kStoreRegisters = 120;
// Warps that copy, ask and store have so many where they look for a tile's group: with 40 they spill up to 80 bytes
// (NVRTC 13.0, tests/ops/grouped_gemm/families_compile_test.cpp).
constexpr int kGroupRegisters = 64;

// The tile of a pair's rung: 256 x 256. Other rungs have the one tile that all have in common.
constexpr GemmTile kPairTile{128, 256, 64, 2, 1};

// Every unit and fact that is read for the family.
const arch::Needs& kNeeds = support::lasting<arch::Needs>(
    {{"TC", "TMA", "TMEM"},
     {"matrix_flops_per_cycle", "matrix_drain_cycles", "matrix_issue_cycles", "copy_latency_cycles",
      "copy_cycles_per_kb", "cache_bytes", "memory_bytes_per_cycle", "tile_turn_cycles", "cluster_start_cycles",
      "fragment_store_cycles", "next_launch_cycles", "tensor_memory_bytes_per_cycle"},
     {"sm100"}});

/// So many sets of sums fit: with two, a tile's are stored while the next one's are made.
int sum_slots(const GemmTile& tile, const arch::Arch& arch) {
  const std::int64_t all = arch.memory_bytes.at("TMEM"),
                     bytes = std::int64_t{std::max(tile.block_m, kMostRows)} * tile.block_n * 4;
  return static_cast<int>(std::min<std::int64_t>(2, all / bytes));
}

// Half of b in each block is whole swizzle blocks.
bool in_pairs(const GemmKernel& kernel) {
  const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(kernel.tile)];
  return tile.cluster_m == 2 && tile.cluster_n == 1 && tile.block_m % kMostRows == 0 &&
         tile.block_n / 2 % (kernel.right_mn ? gemm::kSwizzleColumns : Multiplier::kInstructionDepth) == 0;
}

bool fits(const GemmTile& tile) {
  if (tile.swapped || tile.sliced()) return false;
  return tile.element_bytes == 2 && (tile.block_m == kLeastRows || tile.block_m % kMostRows == 0) &&
         tile.block_k % gemm::kSwizzleColumns == 0 &&
         (tile.block_n == kNarrow || tile.block_n % gemm::kSwizzleColumns == 0);  // others were not tried
}

/// Rows of one product.
int product_rows(const GemmTile& tile) { return std::min(kMostRows, tile.block_m); }

/// Are a tile's sums stored under the next one's loop? Tensor memory has room for a second set of them then.
bool stores_beside(const GemmTile& tile, const arch::Arch& arch) { return sum_slots(tile, arch) > 1; }

/// Cycles of an iteration on the unit.
double iteration(const GemmTile& tile, const arch::Arch& arch) {
  return 2.0 * std::max(tile.block_m, kMostRows) * tile.block_n * tile.block_k /
         Multiplier(Multiplier::Way::tensor_memory, arch).flops_per_cycle(tile.element_bytes);
}

class Builder : GemmRingsBuilder {
 public:
  Builder(const GemmKernel& kernel, const arch::Arch& arch)
      : GemmRingsBuilder(kernel, store_of(kernel, arch), gemm_sm100(), Multiplier::Way::tensor_memory, kMostRows,
                         arch) {
    graph_.pairs = in_pairs(kernel_);
  }

  static bool rings_fit(const GemmTile& tile, const arch::Arch& arch) {
    return GemmRingsBuilder::rings_fit(tile, kLeastSlots, tile.block_m, 0, arch);
  }
  Candidate build(double iterations) {
    const Operands ab = operands(tile_.block_m);
    if (kernel_.loads != 0) constant("kLoadColumns", 32 >> kernel_.loads);
    for (int c = 0; c < tile_.block_m / rows(); ++c) sums_of(c, ab);
    constrain();
    Candidate made = candidate(iterations);
    made.copies_apart = !made.one_role;  // one's rows leave while the other's do
    if (stores_beside(tile_, arch_) && made.copies_apart)
      made.graph.overhead_cycles = std::max(0.0, made.graph.overhead_cycles - iterations * iteration(tile_, arch_));
    return made;
  }

 private:
  static int store_of(const GemmKernel& kernel, const arch::Arch& arch) {
    const GemmTile& tile = tile_of(kernel);
    return fitting_store(kernel, gemm_store(kernel, in_pairs(kernel)), kLeastSlots, tile.block_m,
                         tile.block_m * tile.block_n, arch);
  }
  int rows() const { return product_rows(tile_); }
  void sums_of(int c, const Operands& ab) {
    const int mma = product("Product", c, kernel_.groups == Groups::none ? 0 : kGroupRegisters);
    const int slots = gemm_rung(kernel_).tile_a_block ? 1 : sum_slots(tile_, arch_);
    const int sums =
        value(cat("sums", c), std::int64_t{tile_.block_n} * graph::kTensorColumnBytes, Scope::tile_end, slots, slots);
    last_value().space = graph::Space::tensor;
    Node last = numbered("Consumer", "store", c, Scope::tile_end);
    last.registers = kStoreRegisters;
    reads(mma, ab);
    follows(mma);
    // The columns that it reads come first, before the slot of shared memory that it may have to fill.
    const int store = static_cast<int>(graph_.nodes.size());
    wait(mma, store, 0, sums);
    end_of_tile(std::move(last), rows() * tile_.block_n);
  }
};

std::vector<Candidate> candidates(const GemmKernel& kernel, const arch::Arch& arch, double iterations) {
  return {Builder(kernel, arch).build(iterations)};
}

}  // namespace

const GemmFamily& gemm_sm100() {
  static constexpr GemmFamily family = {
      .arch_family = "sm100",
      .needs = [](const arch::Arch&, int element_bytes) { return element_bytes == 2 ? &kNeeds : nullptr; },
      .fits = [](const GemmTile& tile, const GemmKernel&) { return fits(tile); },
      .blocks_per_sm =
          [](const GemmTile& tile, const arch::Arch& arch) {
            return fits(tile) && sum_slots(tile, arch) > 0 && Builder::rings_fit(tile, arch) ? 1 : 0;
          },
      .copy_rates = [](const arch::Arch& arch) { return gemm_copy_rates({Copier::Way::engine, arch}); },
      .iteration_cycles = [](const GemmTile& tile, const arch::Arch& arch,
                             bool) { return static_cast<std::int64_t>(std::ceil(iteration(tile, arch))); },
      .thread_sums =
          [](const GemmTile& tile, const arch::Arch& arch) {
            return static_cast<double>(product_rows(tile)) * tile.block_n / (arch.warps_per_group * arch.warp_size);
          },
      .stores_beside = stores_beside,
      .loads_sums = true,
      .in_pairs = in_pairs,
      .rung_tile = [](const GemmRung& rung) { return rung.cluster > 1 ? place_of(kPairTile) : place_of(kLoneTile); },
      .consumers = [](const GemmTile& tile) { return tile.block_m / product_rows(tile); },
      .candidates = candidates,
  };
  return family;
}

}  // namespace tj::ops
