// The family of warps' products (sm80): which tiles it serves, the dependence graph and its costs; see family.hpp.
//
//   load_ab (fetch_ab) -> mma_first -> mma_second -> store     by the copy engine, or by the threads of the role
//   mma_second (i) -> mma_first (i+1)                          sums into one set of registers
// A product holds the warps that issue it. Copies have a role of their own, which runs ahead as far as the ring lets
// it, also into the next tile, unless the sums need its registers: then one role does all.
//
// Decides how many blocks share an SM. Invariant: a tile that it serves has a layout of warps.hpp.
#include <algorithm>
#include <cmath>

#include "ops/gemm/builder.hpp"
#include "ops/gemm/warps.hpp"
#include "support/lasting.hpp"

namespace tj::ops {

const GemmFamily& gemm_sm80();

namespace {

using graph::Async;
using graph::Graph;
using support::cat;

constexpr int kLeastSlots = 2;       // of a ring: one is filled while the other is read
constexpr int kMostAhead = 3;        // iterations that a copy goes out before its use
constexpr int kMostBlocksPerSm = 2;  // one multiplies while the other waits, or stores its tile
// Warps that only copy, where threads copy: one alone would take as long for its instructions as the others for a
// tile's products. A second one costs no registers: an SM's four parts hold three warps each, be it of 4 or 8 that
// multiply and one or two that copy.
constexpr int kFetchingWarps = 2;
// What pieces of 32 x 96 take beside operand_registers, those with an addend and those with MN-major operands (both; of
// threads that copy, one): without, they spill up to 16, 136 and 116 bytes on sm_90 (nvcc 13.0).
constexpr int kMoreRegisters = 40;
constexpr int kSquareColumns = 64;
constexpr int kSmParts = 4;  // each has a quarter of the warps and of the registers: CUDA C++ Programming Guide,
                             // compute capability 8.x and later

// Every unit and fact that is read for the family; of copies those of whoever brings them.
const arch::Needs& kByEngine = support::lasting(gemm_warp_needs("sm80", {"copy_latency_cycles", "copy_cycles_per_kb"}));
const arch::Needs& kByThreads =
    support::lasting(gemm_warp_needs("sm80", {"thread_copy_latency_cycles", "thread_copy_cycles_per_kb"}));

bool by_engine(const arch::Arch& arch) { return arch.has_unit("TMA"); }

GemmCopyRates copy_rates(const arch::Arch& arch) {
  const bool engine = by_engine(arch);
  const double each = arch.fact(engine ? "copy_cycles_per_kb" : "thread_copy_cycles_per_kb");
  return {arch.fact(engine ? "copy_latency_cycles" : "thread_copy_latency_cycles"), each, each};
}

int blocks_per_sm(const GemmTile& tile, const arch::Arch& arch) {
  const int warps = gemm_warps(tile).count();
  if (warps == 0 || (gemm_large_pieces(tile) && !by_engine(arch))) return 0;
  for (int blocks = kMostBlocksPerSm; blocks > 0; --blocks) {
    const graph::Machine share = machine_of(arch, blocks);
    if (kLeastSlots * gemm_slot_bytes(tile) + kGemmBarrierBytes <= share.memory_bytes.at("SMEM") &&
        std::int64_t{warps} * arch.warp_size * (arch.max_registers_per_thread + 1) <= share.registers)
      return blocks;
  }
  return 0;
}

class Builder : GemmBuilder {
 public:
  /// apart: warps of their own copy.
  Builder(const GemmKernel& kernel, const arch::Arch& arch, bool apart)
      : GemmBuilder(kernel, gemm::kDirect, gemm_sm80(), arch),
        warps_(gemm_warps(tile_)),
        beside_(graph_.blocks_per_sm),
        engine_(by_engine(arch)),
        copying_(engine_ ? 1
                 : apart ? kFetchingWarps
                         : warps_.count()) {
    // One warp more for the copies takes fewer registers than a whole group whose registers move.
    graph_.machine.register_roles = false;
    graph_.machine.warps_per_group = 1;
    const int part_warps = (beside_ * (warps_.count() + (apart ? copying_ : 0)) + kSmParts - 1) / kSmParts;
    most_registers_ = down(std::min<std::int64_t>(arch.max_registers_per_thread,
                                                  arch.registers_per_sm / kSmParts / (part_warps * arch.warp_size)));
    if (apart) graph_.machine.max_registers_per_thread = most_registers_;
    apart_ = apart;
  }

  Graph build() {
    unit_text(tile_.block_m, tile_.block_n);
    graph_.includes.emplace_back(engine_ ? "ops/gemm/load.cuh" : "ops/gemm/fetch.cuh");
    constant("kWarpsM", warps_.m);
    constant("kWarpsN", warps_.n);
    constant("kFetchingWarps", copying_);
    const int copied = copy(engine_ ? "load_ab" : "fetch_ab");
    const int begin = add(of_consumer("begin", Scope::tile_begin)), first = mma("mma_first", 0),
              second = mma("mma_second", product_registers());
    const int last = add(of_consumer("store", Scope::tile_end));
    edge(begin, first, 0, 0, false);
    then(copied, first, 0, 0);
    then(copied, second, 0, 0);
    then(first, second);
    then(second, first, 1);
    then(second, last);
    return std::move(graph_);
  }

 private:
  /// Of blocks side by side at the same time, each at its share of the rates.
  int iteration() const {
    const GemmWarpCycles each = gemm_warp_cycles(tile_, arch_);
    return beside_ * std::max(each.matrix, each.loads);
  }
  static int up_half(int cycles) { return (cycles + 1) / 2; }
  int down(std::int64_t registers) const {
    return static_cast<int>(registers / arch_.register_step * arch_.register_step);
  }
  Node of_consumer(const char* body, Scope scope) const { return single("Consumer", body, warps_.count(), scope); }
  /// Both operands of an iteration into a slot: one product reads them, so they come and go together.
  int copy(const char* name) {
    value("ab", gemm_slot_bytes(tile_), Scope::iteration, kLeastSlots, kMaxSlots);
    Node n = single(engine_ ? "Loader" : "Fetcher", name, copying_);
    const GemmCopyRates rates = copy_rates(arch_);
    const double from_cache = static_cast<double>(gemm_slot_bytes(tile_)) / 1024 * rates.cycles_per_kb;
    n.latency = cycles(rates.latency_cycles + beside_ * from_cache);
    // In the role of the product they go out as far ahead of their use as there are slots, but in the middle of an
    // iteration: where a slot is filled as soon as it is free, whoever fills it waits for the slowest warp, and all
    // others then wait for it.
    if (!apart_)
      n.latency = std::max(n.latency,
                           std::max(1, std::min(kMostAhead, gemm_warp_slots(tile_, arch_, beside_) - 1)) * iteration() -
                               iteration() / 2);
    n.variable_latency = n.streaming = true;
    if (engine_) {
      n.async = Async::copy;
      n.reservations = {of("TMA", cycles(from_cache))};
      n.cycles = n.warp_cycles = 1;  // not while the role's product holds its warps
    } else {
      n.async = Async::threads;
      n.cycles = n.warp_cycles =
          gemm_warp_cycles(tile_, arch_).copies;  // as fast as the path to shared memory takes them
    }
    return add(std::move(n));
  }
  int product_registers() const {
    const int threads = warps_.count() * arch_.warp_size;
    const bool mn = engine_ ? kernel_.left_mn && kernel_.right_mn : kernel_.left_mn || kernel_.right_mn;
    const bool more = tile_.block_n / warps_.n > kSquareColumns || kernel_.add_c || mn;
    const int registers = tile_.block_m * tile_.block_n / threads + static_cast<int>(arch_.fact("operand_registers")) +
                          (more ? kMoreRegisters : 0);
    return apart_ ? registers : std::min(registers, most_registers_);  // in one role less is under way at once
  }
  /// The unit is an SM's, the warps are a block's: beside another block's their products last longer. What copies bring
  /// takes the path to shared memory, too. registers: the first half adds to the sums that the second one leaves, in
  /// their place.
  int mma(const char* half, int registers) {
    Node n = of_consumer(half, Scope::iteration);
    const GemmWarpCycles each = gemm_warp_cycles(tile_, arch_);
    n.reservations = {of("TC", up_half(each.matrix)), of("LSU", up_half(each.loads + each.copies))};
    busy(n, up_half(iteration()));
    n.registers = registers;
    return add(std::move(n));
  }

  GemmWarps warps_;
  int beside_;
  bool engine_;
  int copying_;  ///< warps
  bool apart_ = false;
  int most_registers_ = 0;
};

/// With a role that copies, which has the fewest cycles; and with one role for all, which has its registers to itself.
std::vector<Candidate> candidates(const GemmKernel& kernel, const arch::Arch& arch, double iterations) {
  std::vector<Candidate> list;
  for (const bool apart : {true, false}) {
    list.push_back(gemm_candidate_of(Builder(kernel, arch, apart).build(), kernel, iterations));
    list.back().one_role = !apart;
  }
  return list;
}

}  // namespace

const GemmFamily& gemm_sm80() {
  static constexpr GemmFamily family = {
      .arch_family = "sm80",
      .needs =
          [](const arch::Arch& arch, int element_bytes) {
            return element_bytes != 2 ? nullptr : by_engine(arch) ? &kByEngine : &kByThreads;
          },
      .fits = gemm_warps_fit,
      .blocks_per_sm = blocks_per_sm,
      .copy_rates = copy_rates,
      .iteration_cycles =
          [](const GemmTile& tile, const arch::Arch& arch) {
            return gemm_warp_iteration(tile, arch, blocks_per_sm(tile, arch));
          },
      .thread_sums = gemm_warp_sums,
      .candidates = candidates,
  };
  return family;
}

}  // namespace tj::ops
