// The family of waves' products (amd), where what is copied passes through registers: which tiles it serves, the
// dependence graph and its costs; see family.hpp.
//
//   read_ab -> put_ab -> mma -> store     put_ab (i) -> read_ab (i+1): the registers of what is on its way are free
//   again mma (i) -> mma (i+1)                  sums into one set of registers
// One role does it all, and a block has one tile. Reads begin a whole interval before they are put. With two slots, an
// iteration meets one barrier; with one, two. Decides which tiles fit registers and shared memory. Invariant: a tile
// that it serves has a layout of warps.hpp.
#include <algorithm>

#include "ops/gemm/warps_builder.hpp"
#include "support/lasting.hpp"

namespace tj::ops {

const GemmFamily& gemm_amd();

namespace {

constexpr int kPieceElements = 8, kMatrix = 16;
// Registers that bodies need beside sums, operands and loads on their way: for addresses and the next operands
// (tests/ops/gemm/amd_compile_test.cpp).
constexpr int kContextRegisters = 40;
constexpr int kMostBlocksPerSm = 2;  // one multiplies while the other waits, or stores its tile

// Every unit and fact that is read for the family.
const arch::Needs& kNeeds = support::lasting(
    gemm_warp_needs("amd", {"thread_copy_latency_cycles", "thread_copy_cycles_per_kb", "operand_copies"}));

int threads_of(const GemmTile& tile, const arch::Arch& arch) { return gemm_warps(tile).count() * arch.warp_size; }
Multiplier waves(const arch::Arch& arch) { return {Multiplier::Way::wave, arch}; }
std::int64_t slot_bytes(const GemmTile& tile, const arch::Arch& arch) {
  return std::int64_t{tile.block_m + tile.block_n} * (tile.block_k * tile.element_bytes + waves(arch).row_padding());
}
int words_on_their_way(const GemmTile& tile, const arch::Arch& arch) {
  return (tile.block_m + tile.block_n) * tile.block_k / 2 / threads_of(tile, arch);
}
int sums_of(const GemmTile& tile, const arch::Arch& arch) {
  return tile.block_m * tile.block_n / threads_of(tile, arch);
}
/// Registers of a thread that are always held: sums, and what is beside them all the time.
int lasting_registers(const GemmTile& tile, const arch::Arch& arch) {
  const int rows = tile.block_m / gemm_warps(tile).m / kMatrix;
  return sums_of(tile, arch) + (rows + 2) * waves(arch).operand_words() + kContextRegisters;
}

int blocks_per_sm(const GemmTile& tile, const arch::Arch& arch) {
  if (gemm_warps(tile).count() == 0 || tile.element_bytes != 2) return 0;
  const int threads = threads_of(tile, arch);
  for (const int rows :
       {tile.block_m,
        tile.block_n})  // threads read whole rows at once, and of K at least two each, to make words of columns
    if (threads % (rows / kPieceElements) != 0 || threads % (tile.block_k / kPieceElements) != 0 ||
        rows * tile.block_k / kPieceElements / threads < 2)
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
    read.has_fast_variant = true;
    busy(put, copies);
    put.reservations = {of("LSU", copies)};
    const int load = add(std::move(read)), handed = add(std::move(put));
    through_registers(load, handed);

    Node mma = single("Consumer", "mma", warps_.count());
    busy(mma, products);
    mma.reservations = {of("TC", each.matrix), of("LSU", loads)};
    mma.registers = lasting_registers(tile_, arch_);
    multiply_and_store(handed, {{std::move(mma)}});
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
      .needs = [](const arch::Arch&, int element_bytes) { return element_bytes == 2 ? &kNeeds : nullptr; },
      .fits = gemm_warps_fit,
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
