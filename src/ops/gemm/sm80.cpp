// The family of warps' products (sm80): which tiles it serves, the dependence graph and its costs; see family.hpp.
//
//   load_ab (fetch_ab) -> mma_first -> mma_second -> store     by the copy engine, or by the threads of the role
//   mma_second (i) -> mma_first (i+1)                          sums into one set of registers
// e4m3: sums over 128 of K, of half of the columns at a time, are added to the tile's in f32, times scales of blocks:
//   load_ab -> mma_low -> promote_low -> mma_high -> promote_high -> store
//   bring_scales -> promote_low, promote_high (i) -> mma_low, bring_scales (i+1)
// A product holds the warps that issue it. Copies have a role of their own, which runs ahead as far as the ring lets
// it, also into the next tile. If the sums need its registers, one role does all.
//
// Decides how many blocks share an SM. Invariant: a tile that it serves has a layout of warps.hpp.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "ops/gemm/warps_builder.hpp"
#include "support/lasting.hpp"

namespace tj::ops {

const GemmFamily& gemm_sm80();

namespace {

constexpr int kLeastRing = 2;        // slots: one is filled while the other is read
constexpr int kMostAhead = 3;        // iterations that a copy goes out before its use
constexpr int kMostBlocksPerSm = 2;  // one multiplies while the other waits, or stores its tile
// Warps that only copy, where threads copy: one alone would take as long for its instructions as the others for a
// tile's products. A second one costs no registers: an SM's four parts hold three warps each, be it of 4 or 8 that
// multiply and one or two that copy.
constexpr int kFetchingWarps = 2;
// Registers that pieces of 32 x 96 take beside operand_registers when they have an addend, or MN-major operands (both
// of them; one when threads copy). Without these, they spill up to 16, 136 and 116 bytes on sm_90 (nvcc 13.0). With a
// scale for each column, or scales of blocks and groups, pieces of e4m3 spill up to 180 bytes on sm_120a.
constexpr int kMoreRegisters = 40;
constexpr int kSquareColumns = 64;
constexpr int kSmParts = 4;  // each has a quarter of the warps and of the registers: CUDA C++ Programming Guide,
                             // compute capability 8.x and later

// Every unit and fact that is read for the family; of copies those of whoever brings them.
const arch::Needs& kByEngine = support::lasting(gemm_warp_needs("sm80", {"copy_latency_cycles", "copy_cycles_per_kb"}));
const arch::Needs& kByThreads =
    support::lasting(gemm_warp_needs("sm80", {"thread_copy_latency_cycles", "thread_copy_cycles_per_kb"}));
const arch::Needs& kNarrowByEngine = support::lasting(gemm_narrow_needs(kByEngine));
const arch::Needs& kNarrowByThreads = support::lasting(gemm_narrow_needs(kByThreads));

const arch::Needs* needs_of(const arch::Arch& arch, int element_bytes) {
  if (!gemm_multiplies(arch, element_bytes)) return nullptr;
  const bool by_engine = Copier::into_rings(arch).by_engine();
  if (element_bytes == 1) return by_engine ? &kNarrowByEngine : &kNarrowByThreads;
  return by_engine ? &kByEngine : &kByThreads;
}

/// With a scale for each column and groups, eight warps have no register to spare (ptxas 13.0: 16 bytes spill on
/// sm_120a).
bool fits(const GemmTile& tile, const GemmKernel& kernel) {
  return gemm_warps_fit(tile, kernel) && (kernel.scales != Scales::row || gemm_warps(tile).count() <= kSmParts);
}

int blocks_per_sm(const GemmTile& tile, const arch::Arch& arch) {
  if (!gemm_multiplies(arch, tile.element_bytes)) return 0;
  const int warps = gemm_warps(tile).count();
  if (warps == 0 || (gemm_large_pieces(tile) && !Copier::into_rings(arch).by_engine())) return 0;
  for (int blocks = kMostBlocksPerSm; blocks > 0; --blocks) {
    const graph::Machine share = machine_of(arch, blocks);
    if (kLeastRing * gemm_slot_bytes(tile) + kGemmBarrierBytes <= share.memory_bytes.at("SMEM") &&
        std::int64_t{warps} * arch.warp_size * (arch.max_registers_per_thread + 1) <= share.registers)
      return blocks;
  }
  return 0;
}

class Builder : GemmWarpsBuilder {
 public:
  /// apart: warps of their own copy.
  Builder(const GemmKernel& kernel, const arch::Arch& arch, bool apart)
      : GemmWarpsBuilder(kernel, gemm_sm80(), arch),
        copier_(Copier::into_rings(arch)),
        beside_(graph_.blocks_per_sm),
        copying_(copier_.by_engine() ? 1
                 : apart             ? kFetchingWarps
                                     : warps_.count()),
        apart_(apart) {
    // One warp more for the copies takes fewer registers than a whole group whose registers move.
    graph_.machine.register_roles = false;
    graph_.machine.warps_per_group = 1;
    const int part_warps = (beside_ * (warps_.count() + (apart ? copying_ : 0)) + kSmParts - 1) / kSmParts;
    most_registers_ = down(std::min<std::int64_t>(arch.max_registers_per_thread,
                                                  arch.registers_per_sm / kSmParts / (part_warps * arch.warp_size)));
    if (apart) graph_.machine.max_registers_per_thread = most_registers_;
  }

  Candidate build(double iterations) {
    graph_.includes.emplace_back(copier_.by_engine() ? "ops/gemm/load.cuh" : "ops/gemm/fetch.cuh");
    constant("kFetchingWarps", copying_);
    const int copied = copy();
    if (tile_.promotes()) {
      graph_.includes.emplace_back("ops/gemm/warp_e4m3.cuh");
      multiply_narrow(
          copied,
          [&](const char* body) { return half(body, body == std::string_view("mma_low") ? 0 : product_registers()); },
          beside_, copier_.latency_cycles());
    } else {
      multiply_and_store(copied, {{half("mma_first", 0)}, {half("mma_second", product_registers())}});
    }
    Candidate made = candidate(iterations);
    made.one_role = !apart_;
    return made;
  }

 private:
  /// Cycles of an iteration of blocks side by side at the same time, each at its share of the rates.
  int iteration() const {
    const GemmWarpCycles each = gemm_warp_cycles(tile_, arch_);
    return beside_ * std::max(each.matrix, each.loads);
  }
  static int up_half(int cycles) { return (cycles + 1) / 2; }
  int down(std::int64_t registers) const {
    return static_cast<int>(registers / arch_.register_step * arch_.register_step);
  }
  /// Both operands of an iteration into a slot.
  int copy() {
    const bool engine = copier_.by_engine();
    value("ab", gemm_slot_bytes(tile_), Scope::iteration, kLeastSlots, kMaxSlots);
    Node n = single(engine ? "Loader" : "Fetcher", engine ? "load_ab" : "fetch_ab", copying_);
    // Threads copy as fast as the path to shared memory takes it.
    copier_.issue(n, copying_, gemm_warp_cycles(tile_, arch_).copies);
    const double from_cache = copier_.run_cycles(static_cast<double>(gemm_slot_bytes(tile_)));
    n.latency = cycles(copier_.latency_cycles() + beside_ * from_cache);
    // Copies in the role of the product go out as far ahead of their use as there are slots, but in the middle of an
    // iteration. If a slot were filled as soon as it is free, its filler would wait for the slowest warp, and all
    // others would then wait for the filler.
    if (!apart_)
      n.latency = std::max(n.latency,
                           std::max(1, std::min(kMostAhead, gemm_warp_slots(tile_, arch_, beside_) - 1)) * iteration() -
                               iteration() / 2);
    if (engine) {
      n.reservations = {of("TMA", cycles(from_cache))};
      n.warp_cycles = 1;  // not while the role's product holds its warps
    }
    return add(std::move(n));
  }
  int product_registers() const {
    const int threads = warps_.count() * arch_.warp_size;
    const bool mn = copier_.by_engine() ? kernel_.left_mn && kernel_.right_mn : kernel_.left_mn || kernel_.right_mn;
    const bool scales =
        kernel_.scales == Scales::row || (kernel_.scales == Scales::block && kernel_.groups != Groups::none);
    const bool more = tile_.block_n / warps_.n > kSquareColumns || kernel_.add_c || mn || scales;
    const int sums = tile_.block_m * tile_.block_n / threads;
    const int registers = (tile_.promotes() ? sums + sums / 2 : sums) +
                          static_cast<int>(arch_.fact("operand_registers")) + (more ? kMoreRegisters : 0);
    return apart_ ? registers : std::min(registers, most_registers_);  // in one role less is under way at once
  }
  /// The unit is an SM's, the warps are a block's: beside another block's their products last longer. What copies bring
  /// takes the path to shared memory, too. registers: the first half adds to the sums that the second one leaves, in
  /// their place.
  Node half(const char* body, int registers) const {
    Node n = single("Consumer", body, warps_.count());
    const GemmWarpCycles each = gemm_warp_cycles(tile_, arch_);
    n.reservations = {of("TC", up_half(each.matrix)), of("LSU", up_half(each.loads + each.copies))};
    busy(n, up_half(iteration()));
    n.registers = registers;
    return n;
  }

  const Copier copier_;
  const int beside_;
  const int copying_;  ///< warps
  const bool apart_;
  int most_registers_ = 0;
};

/// Two candidates: with a role that copies, which has the fewest cycles; with one role for all, which has its registers
/// to itself.
std::vector<Candidate> candidates(const GemmKernel& kernel, const arch::Arch& arch, double iterations) {
  std::vector<Candidate> list;
  for (const bool apart : {true, false}) list.push_back(Builder(kernel, arch, apart).build(iterations));
  return list;
}

}  // namespace

const GemmFamily& gemm_sm80() {
  static constexpr GemmFamily family = {
      .arch_family = "sm80",
      .needs = needs_of,
      .fits = fits,
      .blocks_per_sm = blocks_per_sm,
      .copy_rates = [](const arch::Arch& arch) { return gemm_copy_rates(Copier::into_rings(arch)); },
      .iteration_cycles = [](const GemmTile& tile, const arch::Arch& arch,
                             bool) { return gemm_warp_iteration(tile, arch, blocks_per_sm(tile, arch)); },
      .thread_sums = gemm_warp_sums,
      .candidates = candidates,
  };
  return family;
}

}  // namespace tj::ops
