// The family of waves' products (amd), where what is copied passes through registers: which tiles it serves, the
// dependence graph and its costs; see family.hpp.
//
//   read_ab -> put_ab -> mma -> store     put_ab (i) -> read_ab (i+1): the registers of what is on its way are free
//   again mma (i) -> mma (i+1)                  sums into one set of registers
// One role does it all, and a block has one tile. Reads begin a whole interval before they are put. With two slots, an
// iteration meets one barrier; with one, two. Decides which tiles fit registers and shared memory. Invariant: a tile
// that it serves has a layout of warps.hpp.
#include <algorithm>

#include "ops/gemm/builder.hpp"
#include "ops/gemm/warps.hpp"
#include "support/lasting.hpp"

namespace tj::ops {

const GemmFamily& gemm_amd();

namespace {

using graph::Graph;
using support::cat;

constexpr int kPieceElements = 8, kMatrix = 16;
// What bodies need beside sums, what is on its way and operands: addresses, and the next operands
// (tests/ops/gemm/amd_compile_test.cpp).
constexpr int kContextRegisters = 40;
constexpr int kMostBlocksPerSm = 2;  // one multiplies while the other waits, or stores its tile

// Every unit and fact that is read for the family.
const arch::Needs& kNeeds =
    support::lasting(gemm_warp_needs("amd", {"thread_copy_latency_cycles", "thread_copy_cycles_per_kb"}));

int threads_of(const GemmTile& tile, const arch::Arch& arch) { return gemm_warps(tile).count() * arch.warp_size; }
/// Registers of an operand.
int operand_words(const arch::Arch& arch) {
  return static_cast<int>(kMatrix * kMatrix * arch.fact("operand_copies")) / 2 / arch.warp_size;
}
int row_padding(const arch::Arch& arch) { return std::min(16, operand_words(arch) * 4); }
std::int64_t slot_bytes(const GemmTile& tile, const arch::Arch& arch) {
  return std::int64_t{tile.block_m + tile.block_n} * (tile.block_k * tile.element_bytes + row_padding(arch));
}
int words_on_their_way(const GemmTile& tile, const arch::Arch& arch) {
  return (tile.block_m + tile.block_n) * tile.block_k / 2 / threads_of(tile, arch);
}
int sums_of(const GemmTile& tile, const arch::Arch& arch) {
  return tile.block_m * tile.block_n / threads_of(tile, arch);
}
/// Of a thread: sums and what is beside them all the time.
int lasting_registers(const GemmTile& tile, const arch::Arch& arch) {
  const int rows = tile.block_m / gemm_warps(tile).m / kMatrix;
  return sums_of(tile, arch) + (rows + 2) * operand_words(arch) + kContextRegisters;
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

class Builder : GemmBuilder {
 public:
  Builder(const GemmKernel& kernel, const arch::Arch& arch)
      : GemmBuilder(kernel, gemm::kDirect, gemm_amd(), arch), warps_(gemm_warps(tile_)) {}

  Graph build() {
    unit_text(tile_.block_m, tile_.block_n);
    graph_.persistent = false;
    constant("kWarpsM", warps_.m);
    constant("kWarpsN", warps_.n);
    constant("kRowPadding", row_padding(arch_));
    const std::int64_t bytes = slot_bytes(tile_, arch_);
    const int slots = 2 * bytes <= graph_.machine.memory_bytes.at("SMEM") ? 2 : 1;
    value("ab", bytes, Scope::iteration, slots, slots, 16);
    const GemmWarpCycles each = gemm_warp_cycles(tile_, arch_);
    const int products = std::max(each.matrix, static_cast<int>(each.loads * arch_.fact("operand_copies"))),
              copies = each.copies;
    const int interval =
        std::max(2 * copies + products,
                 graph_.blocks_per_sm *
                     std::max(each.matrix, static_cast<int>(each.loads * arch_.fact("operand_copies")) + copies));

    const int read = node_of("read_ab", "Reader", Scope::iteration, copies),
              put = node_of("put_ab", "Reader", Scope::iteration, copies);
    const int begin = node_of("begin", "Consumer", Scope::tile_begin, 0),
              mma = node_of("mma", "Consumer", Scope::iteration, products),
              store = node_of("store", "Consumer", Scope::tile_end, 0);
    const double on_their_way = arch_.fact("thread_copy_latency_cycles") +
                                static_cast<double>(bytes) / 1024 * arch_.fact("thread_copy_cycles_per_kb");
    node(read).latency = std::max(cycles(on_their_way), interval - copies);
    node(read).registers = words_on_their_way(tile_, arch_);
    node(read).has_fast_variant = true;
    node(put).reservations = {of("LSU", copies)};
    node(mma).reservations = {of("TC", each.matrix),
                              of("LSU", static_cast<int>(each.loads * arch_.fact("operand_copies")))};
    node(mma).registers = lasting_registers(tile_, arch_);
    edge(begin, mma, 0, 0, false);
    then(read, put);
    then(put, read, 1);
    then(put, mma, 0, 0);
    then(mma, mma, 1);
    then(mma, store);
    return std::move(graph_);
  }

 private:
  int node_of(const char* body, const char* context, Scope scope, int cycles) {
    Node n = single(context, body, warps_.count(), scope);
    if (cycles > 0) busy(n, cycles);
    return add(std::move(n));
  }
  GemmWarps warps_;
};

GemmCopyRates copy_rates(const arch::Arch& arch) {
  const double each = arch.fact("thread_copy_cycles_per_kb");
  return {arch.fact("thread_copy_latency_cycles"), each, each};
}

std::vector<Candidate> candidates(const GemmKernel& kernel, const arch::Arch& arch, double iterations) {
  return {gemm_candidate_of(Builder(kernel, arch).build(), kernel, iterations)};
}

}  // namespace

const GemmFamily& gemm_amd() {
  static constexpr GemmFamily family = {
      .arch_family = "amd",
      .needs = [](const arch::Arch&, int element_bytes) { return element_bytes == 2 ? &kNeeds : nullptr; },
      .fits = gemm_warps_fit,
      .blocks_per_sm = blocks_per_sm,
      .copy_rates = copy_rates,
      .iteration_cycles =
          [](const GemmTile& tile, const arch::Arch& arch) {
            return gemm_warp_iteration(tile, arch, blocks_per_sm(tile, arch));
          },
      .thread_sums = gemm_warp_sums,
      .own_share = true,  // asked for one iteration ahead, no more: an SM cannot make up for those without a tile
      .candidates = candidates,
  };
  return family;
}

}  // namespace tj::ops
