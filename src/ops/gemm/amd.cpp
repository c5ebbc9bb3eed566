// The family of waves' products (amd), where what is copied passes through registers: which tiles it serves, the
// dependence graph and its costs; see family.hpp.
//
//   read_ab -> put_ab -> mma -> store     put_ab (i) -> read_ab (i+1): the registers of what is on its way are free
//   again mma (i) -> mma (i+1)                  sums into one set of registers
// e4m3 as warps' (sm80.cpp): mma_low -> promote_low -> mma_high -> promote_high, and bring_scales.
// One role does it all, and a block has one tile. Reads begin a whole interval before they are put. With two slots, an
// iteration meets one barrier; with one, two. Decides which tiles fit registers and shared memory. Invariant: a tile
// that it serves has a layout of warps.hpp.
#include <algorithm>

#include "ops/gemm/warps_builder.hpp"
#include "support/lasting.hpp"

namespace tj::ops {

const GemmFamily& gemm_amd();

namespace {

constexpr int kPieceBytes = 16, kMatrix = 16;
// Registers that bodies need beside sums, operands and loads on their way: for addresses and the next operands
// (tests/ops/gemm/amd_compile_test.cpp).
constexpr int kContextRegisters = 40;
constexpr int kMostBlocksPerSm = 2;  // one multiplies while the other waits, or stores its tile

// Every unit and fact that is read for the family.
const arch::Needs& kNeeds = support::lasting(
    gemm_warp_needs("amd", {"thread_copy_latency_cycles", "thread_copy_cycles_per_kb", "operand_copies"}));
const arch::Needs& kNarrowNeeds = support::lasting(gemm_narrow_needs(kNeeds));

int threads_of(const GemmTile& tile, const arch::Arch& arch) { return gemm_warps(tile).count() * arch.warp_size; }
Multiplier waves(const arch::Arch& arch) { return {Multiplier::Way::wave, arch}; }
std::int64_t slot_bytes(const GemmTile& tile, const arch::Arch& arch) {
  return std::int64_t{tile.block_m + tile.block_n} * (tile.block_k * tile.element_bytes + waves(arch).row_padding());
}
int words_on_their_way(const GemmTile& tile, const arch::Arch& arch) {
  return (tile.block_m + tile.block_n) * tile.block_k * tile.element_bytes / 4 / threads_of(tile, arch);
}
int sums_of(const GemmTile& tile, const arch::Arch& arch) {
  return tile.block_m * tile.block_n / threads_of(tile, arch);
}
/// Registers of a thread that are always held: sums, and what is beside them all the time.
int lasting_registers(const GemmTile& tile, const arch::Arch& arch) {
  const int rows = tile.block_m / gemm_warps(tile).m / kMatrix;
  const int partial = tile.promotes() ? sums_of(tile, arch) / 2 : 0;
  return sums_of(tile, arch) + partial + (rows + 2) * waves(arch).operand_words() + kContextRegisters;
}

int blocks_per_sm(const GemmTile& tile, const arch::Arch& arch) {
  if (gemm_warps(tile).count() == 0 || !gemm_multiplies(arch, tile.element_bytes)) return 0;
  const int threads = threads_of(tile, arch), piece = kPieceBytes / tile.element_bytes;
  for (const int rows :
       {tile.block_m,
        tile.block_n})  // threads read whole rows at once, and of K at least two each, to make words of columns
    if (threads % (rows / piece) != 0 || threads % (tile.block_k / piece) != 0 ||
        rows * tile.block_k / piece / threads < 2)
      return 0;
  const int registers = lasting_registers(tile, arch) + words_on_their_way(tile, arch);
  for (int blocks = kMostBlocksPerSm; blocks > 0; --blocks) {
    const graph::Machine share = machine_of(arch, blocks);
    const std::int64_t given = std::min<std::int64_t>(share.max_registers_per_thread, share.registers / threads) /
                               share.register_step * share.register_step;
    if (slot_bytes(tile, arch) <= share.memory_bytes.at("SMEM") && registers <= given) return blocks;
  }
  return 0;
}

/// With a scale for each column, four waves have no register to spare beside what they read (clang 19: 20 spill on
/// gfx1201).
bool fits(const GemmTile& tile, const GemmKernel& kernel) {
  return gemm_warps_fit(tile, kernel) && (kernel.scales != Scales::row || gemm_warps(tile).count() >= 8);
}

class Builder : GemmWarpsBuilder {
 public:
  Builder(const GemmKernel& kernel, const arch::Arch& arch) : GemmWarpsBuilder(kernel, gemm_amd(), arch) {}

  Candidate build(double iterations) {
    graph_.walk = graph::Walk::one_tile;
    constant("kRowPadding", waves(arch_).row_padding());
    const std::int64_t bytes = slot_bytes(tile_, arch_);
    const int slots = 2 * bytes <= graph_.machine.memory_bytes.at("SMEM") ? 2 : 1;
    value("ab", bytes, Scope::iteration, slots, slots, 16);
    const GemmWarpCycles each = gemm_warp_cycles(tile_, arch_);
    const int loads = static_cast<int>(each.loads * waves(arch_).operand_copies());
    const int products = std::max(each.matrix, loads), copies = each.copies;
    const int interval = std::max(2 * copies + products, graph_.blocks_per_sm * std::max(each.matrix, loads + copies));

    Node read = single("Reader", "read_ab", warps_.count()), put = single("Reader", "put_ab", warps_.count());
    copier_.issue(read, warps_.count(), copies);
    read.latency = std::max(cycles(copier_.arrival_cycles(static_cast<double>(bytes))), interval - copies);
    read.registers = words_on_their_way(tile_, arch_);
    read.range = {graph::kFastVariant, graph::kFastBegin, {}};
    busy(put, copies);
    put.reservations = {of("LSU", copies)};
    const int load = add(std::move(read)), handed = add(std::move(put));
    through_registers(load, handed);

    const auto product = [&](const char* body, int parts) {
      Node mma = single("Consumer", body, warps_.count());
      busy(mma, products / parts);
      mma.reservations = {of("TC", each.matrix / parts), of("LSU", loads / parts)};
      mma.registers = lasting_registers(tile_, arch_);
      return mma;
    };
    if (tile_.promotes()) {
      graph_.includes.emplace_back("ops/gemm/wave_e4m3.cuh");
      multiply_narrow(
          handed, [&](const char* body) { return product(body, 2); }, graph_.blocks_per_sm, copier_.arrival_cycles(0));
    } else {
      multiply_and_store(handed, {{product("mma", 1)}});
    }
    return candidate(iterations);
  }

 private:
  const Copier copier_{Copier::Way::registers, arch_};
};

std::vector<Candidate> candidates(const GemmKernel& kernel, const arch::Arch& arch, double iterations) {
  return {Builder(kernel, arch).build(iterations)};
}

}  // namespace

const GemmFamily& gemm_amd() {
  static constexpr GemmFamily family = {
      .arch_family = "amd",
      .needs = [](const arch::Arch& arch, int element_bytes) -> const arch::Needs* {
        if (!gemm_multiplies(arch, element_bytes)) return nullptr;
        return element_bytes == 2 ? &kNeeds : &kNarrowNeeds;
      },
      .fits = fits,
      .blocks_per_sm = blocks_per_sm,
      .copy_rates = [](const arch::Arch& arch) { return gemm_copy_rates({Copier::Way::registers, arch}); },
      .iteration_cycles = [](const GemmTile& tile, const arch::Arch& arch,
                             bool) { return gemm_warp_iteration(tile, arch, blocks_per_sm(tile, arch)); },
      .thread_sums = gemm_warp_sums,
      .own_share = true,  // asked for one iteration ahead, no more: an SM cannot make up for those without a tile
      .candidates = candidates,
  };
  return family;
}

}  // namespace tj::ops
