// A matrix product on products of warps: who serves which tile, the dependence graph and its costs; see gemm.hpp.
//
//   load_ab (fetch_ab) -> mma_first -> mma_second -> store     by the copy engine, or by the threads of the role
//   mma_second (i) -> mma_first (i+1)                          sums into one set of registers
// A product holds the warps that issue it. Copies have a role of their own, which runs ahead as far as the ring lets
// it, also into the next tile, unless the sums need its registers: then one role does all.
//
// Decides how warps share a tile and how many blocks share an SM. Invariant: what an arch does not serve is refused by
// what is allowed.
#include <algorithm>
#include <cmath>

#include "ops/common/tensor_checks.hpp"
#include "ops/gemm/amd.hpp"
#include "ops/gemm/builder.hpp"
#include "ops/gemm/sm100.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using graph::Async;
using graph::Graph;
using graph::Node;
using graph::Scope;
using support::cat;

constexpr int kMostConsumers = 2;  // of warpgroups' products: more would leave too few registers for their sums
constexpr int kLeastSlots = 2;     // of a ring: one is filled while the other is read
constexpr int kMostAhead = 3;      // iterations that a copy goes out before its use
constexpr std::int64_t kMostBarrierBytes = 1024;
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

// Every unit and fact that is read here and in choose.cpp; of copies those of whoever brings them.
arch::Needs needs_with(std::initializer_list<const char*> copies) {
  arch::Needs needs = {{"TC", "LSU"},
                       {"matrix_flops_per_cycle", "matrix_group_cycles", "shared_bytes_per_cycle", "cache_bytes",
                        "memory_bytes_per_cycle", "tile_turn_cycles", "fragment_store_cycles", "next_launch_cycles",
                        "operand_registers"},
                       {"sm80", "amd"}};
  needs.facts.insert(needs.facts.end(), copies.begin(), copies.end());
  return needs;
}
const arch::Needs& kByEngine = support::lasting(needs_with({"copy_latency_cycles", "copy_cycles_per_kb"}));
const arch::Needs& kByThreads =
    support::lasting(needs_with({"thread_copy_latency_cycles", "thread_copy_cycles_per_kb"}));

struct Shared {
  GemmTile tile;
  GemmWarps warps;
};
// A warp's piece is as square and large as its sums fit: what it loads from shared memory grows with its sides, its
// products with its area. Rows are finished 32 columns at a time. Pieces of 64 x 96 load a sixth less, and a block of
// eight copies least for its products; beside their sums, registers hold only what K-major operands, a copy by one
// thread and a plain end take (nvcc 13.0: else spills, 4 to 112 bytes).
constexpr Shared kShared[] = {{{128, 256, 64}, {2, 4}}, {{128, 192, 64}, {4, 2}}, {{128, 128, 64}, {2, 2}},
                              {{64, 256, 64}, {1, 4}},  {{128, 64, 64}, {2, 2}},  {{64, 128, 64}, {2, 2}},
                              {{64, 64, 128}, {2, 2}},  {{64, 32, 128}, {4, 1}},  {{16, 64, 128}, {1, 2}},
                              {{128, 128, 32}, {2, 2}}, {{128, 256, 32}, {2, 4}}, {{256, 192, 32}, {4, 2}}};

constexpr int kSquarePiece = 64 * 64;
bool large_pieces(const GemmTile& tile) {
  const int warps = gemm_warps(tile).count();
  return warps > 0 && tile.block_m * tile.block_n > warps * kSquarePiece;
}

bool by_engine(const arch::Arch& arch) { return arch.has_unit("TMA"); }

std::int64_t slot_bytes(const GemmTile& tile) {
  return std::int64_t{tile.block_m + tile.block_n} * tile.block_k * tile.element_bytes;
}

std::string served_tiles(const arch::Arch& arch) {
  std::string list;
  for (const GemmTile& tile : gemm_tiles())
    if (gemm_blocks_per_sm(tile, arch) > 0) list += cat(list.empty() ? "" : ", ", gemm_tile_name(tile));
  return list;
}

class Builder : GemmBuilder {
 public:
  /// apart: warps of their own copy.
  Builder(const GemmKernel& kernel, const arch::Arch& arch, bool apart)
      : GemmBuilder(kernel, gemm::kDirect, arch,
                    gemm_blocks_per_sm(gemm_tiles()[static_cast<std::size_t>(kernel.tile)], arch)),
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
    edge(copied, first, latency_of(copied), 0, false, 0);
    edge(copied, second, latency_of(copied), 0, false, 0);
    edge(first, second, latency_of(first), 0, false);
    edge(second, first, latency_of(second), 1, false);
    edge(second, last, latency_of(second), 0, false);
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
  Node of_consumer(const char* body, Scope scope) const {
    Node n;
    n.name = n.body = body;
    n.context = "Consumer";
    n.scope = scope;
    n.warps = warps_.count();
    return n;
  }
  /// Both operands of an iteration into a slot: one product reads them, so they come and go together.
  int copy(const char* name) {
    graph_.values.push_back({"ab", slot_bytes(tile_), 1024, Scope::iteration, kLeastSlots, kMaxSlots});
    Node n;
    n.name = n.body = name;
    const GemmCopyRates rates = gemm_copy_rates(arch_);
    const double from_cache = static_cast<double>(slot_bytes(tile_)) / 1024 * rates.cycles_per_kb;
    n.latency = cycles(rates.latency_cycles + beside_ * from_cache);
    // In the role of the product they go out as far ahead of their use as there are slots, but in the middle of an
    // iteration: where a slot is filled as soon as it is free, whoever fills it waits for the slowest warp, and all
    // others then wait for it.
    if (!apart_)
      n.latency =
          std::max(n.latency, std::max(1, std::min(kMostAhead, gemm_warp_slots(tile_, arch_) - 1)) * iteration() -
                                  iteration() / 2);
    n.variable_latency = n.streaming = true;
    if (engine_) {
      n.context = "Loader";
      n.async = Async::copy;
      n.reservations = {of("TMA", cycles(from_cache))};
      n.cycles = n.warp_cycles = 1;  // not while the role's product holds its warps
    } else {
      n.context = "Fetcher";
      n.async = Async::threads;
      n.cycles = n.warp_cycles =
          gemm_warp_cycles(tile_, arch_).copies;  // as fast as the path to shared memory takes them
    }
    n.warps = copying_;
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
    n.cycles = n.latency = n.warp_cycles = up_half(iteration());
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

}  // namespace

bool gemm_by_warps(const arch::Arch& arch) {
  return std::find(kByEngine.families.begin(), kByEngine.families.end(), arch.family) != kByEngine.families.end();
}

const arch::Needs& gemm_warp_needs(const arch::Arch& arch) { return by_engine(arch) ? kByEngine : kByThreads; }

const arch::Needs& gemm_needs_of(const arch::Arch& arch) {
  return gemm_by_warps(arch) ? gemm_warp_needs(arch) : gemm_in_tensor_memory(arch) ? gemm_tensor_needs() : gemm_needs();
}

GemmCopyRates gemm_copy_rates(const arch::Arch& arch) {
  const bool threads = gemm_by_warps(arch) && !by_engine(arch);
  return {arch.fact(threads ? "thread_copy_latency_cycles" : "copy_latency_cycles"),
          arch.fact(threads ? "thread_copy_cycles_per_kb" : "copy_cycles_per_kb")};
}

GemmWarps gemm_warps(const GemmTile& tile) {
  for (const Shared& each : kShared)
    if (each.tile == tile) return each.warps;
  return {0, 0};
}

bool gemm_warps_fit(const GemmTile& tile, const GemmKernel& kernel) {
  return !large_pieces(tile) ||
         (!kernel.left_mn && !kernel.right_mn && !kernel.add_c && kernel.activation == Activation::none);
}

int gemm_blocks_per_sm(const GemmTile& tile, const arch::Arch& arch) {
  if (gemm_in_tensor_memory(arch)) return gemm_tensor_serves(tile, arch) ? 1 : 0;
  if (!gemm_by_warps(arch))
    return tile.block_k * tile.element_bytes < gemm::kSwizzleBytes || tile.consumers() > kMostConsumers ? 0 : 1;
  if (gemm_through_registers(arch)) return gemm_register_blocks(tile, arch, kMostBlocksPerSm);
  const int warps = gemm_warps(tile).count();
  if (warps == 0 || (large_pieces(tile) && !by_engine(arch))) return 0;
  for (int blocks = kMostBlocksPerSm; blocks > 0; --blocks) {
    const graph::Machine share = machine_of(arch, blocks);
    if (kLeastSlots * slot_bytes(tile) + kMostBarrierBytes <= share.memory_bytes.at("SMEM") &&
        std::int64_t{warps} * arch.warp_size * (arch.max_registers_per_thread + 1) <= share.registers)
      return blocks;
  }
  return 0;
}

int gemm_warp_slots(const GemmTile& tile, const arch::Arch& arch) {
  const graph::Machine share = machine_of(arch, std::max(1, gemm_blocks_per_sm(tile, arch)));
  return static_cast<int>((share.memory_bytes.at("SMEM") - kMostBarrierBytes) / slot_bytes(tile));
}

GemmWarpCycles gemm_warp_cycles(const GemmTile& tile, const arch::Arch& arch) {
  const GemmWarps warps = gemm_warps(tile);
  const double rows =
      static_cast<double>(tile.block_m) / warps.m + static_cast<double>(tile.block_n) / warps.n;  // that a warp loads
  const double bytes = rows * tile.block_k * tile.element_bytes * warps.count();
  const double flops = 2.0 * tile.block_m * tile.block_n * tile.block_k;
  return {cycles(flops / gemm_flops_per_cycle(tile.element_bytes, arch)),
          cycles(bytes / arch.fact("shared_bytes_per_cycle")),
          cycles(static_cast<double>(slot_bytes(tile)) / arch.fact("shared_bytes_per_cycle"))};
}

void gemm_require_type(DType dtype, const arch::Arch& arch) {
  if (!gemm_by_warps(arch) && !gemm_in_tensor_memory(arch))
    return arch::require(arch, "gemm", gemm_needs(size_of(dtype)));
  arch::require(arch, "gemm", gemm_needs_of(arch));
  if (size_of(dtype) != 2)
    refuse("gemm", Code::unsupported, cat("a.dtype is ", to_string(dtype), "; allowed on ", arch.name, ": f16, bf16"));
}

void gemm_require(const GemmKernel& kernel, const arch::Arch& arch) {
  gemm_require_type(kernel.dtype, arch);
  if (gemm_by_warps(arch) && kernel.rung != kNoGemmRung)
    refuse("gemm", Code::unsupported,
           cat("rung is ", gemm_rung(kernel).name, "; allowed on ", arch.name, ": 0 (none), ", kGemmOwnRung, " (v",
               kGemmOwnRung, ")"));
  const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(kernel.tile)];
  if (gemm_blocks_per_sm(tile, arch) == 0)
    refuse("gemm", Code::unsupported,
           cat("tile is ", gemm_tile_name(tile), "; allowed on ", arch.name, ": ", served_tiles(arch)));
}

std::vector<Candidate> gemm_warp_candidates(const GemmKernel& kernel, const arch::Arch& arch, double iterations) {
  if (gemm_through_registers(arch)) return {gemm_register_candidate(kernel, arch, iterations)};
  std::vector<Candidate> list;
  for (const bool apart : {true, false}) {
    Candidate candidate{Builder(kernel, arch, apart).build(), iterations, 0, false};
    candidate.useful_flops = candidate.graph.flops_per_iteration * iterations;
    candidate.one_role = !apart;
    list.push_back(std::move(candidate));
  }
  return list;
}

}  // namespace tj::ops
