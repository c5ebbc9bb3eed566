// What the size of an operand's elements changes in a matrix product's costs; see gemm.hpp.
//
// Decides rates and what an arch must have. Invariant: of 16-bit elements nothing is promoted and nothing more is asked
// for.
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/params.cuh"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

// Every unit and fact that is read in sm90.cpp, choose.cpp and below.
const arch::Needs& kNeeds = support::lasting<arch::Needs>(
    {{"TC", "TMA"},
     {"matrix_flops_per_cycle", "matrix_group_cycles", "matrix_least_cycles", "matrix_drain_cycles",
      "copy_latency_cycles", "copy_cycles_per_kb", "loaded_copy_cycles_per_kb", "multicast_copy_factor",
      "copy_outside_row_cycles", "unaligned_copy_bytes_per_cycle", "sustained_copy_bytes_per_cycle", "cache_bytes",
      "cache_bytes_per_cycle", "memory_bytes_per_cycle", "cluster_start_cycles", "tile_turn_cycles",
      "fragment_store_cycles", "next_launch_cycles"},
     {"sm90"}});

arch::Needs with_narrow_elements() {
  arch::Needs needs = kNeeds;
  needs.units.push_back("ALU");
  needs.facts.insert(needs.facts.end(), {"matrix_flops_per_cycle_8bit", "f32_per_cycle"});
  return needs;
}

}  // namespace

const arch::Needs& gemm_needs(int element_bytes) {
  static constinit support::Lasting<const arch::Needs> narrow;
  return element_bytes == 1 ? narrow.get(with_narrow_elements) : kNeeds;
}

double gemm_flops_per_cycle(int element_bytes, const arch::Arch& arch) {
  return arch.fact(element_bytes == 1 ? "matrix_flops_per_cycle_8bit" : "matrix_flops_per_cycle");
}

double gemm_promote_cycles(const GemmTile& tile, const arch::Arch& arch) {
  if (!tile.promotes()) return 0;
  return static_cast<double>(gemm::kRowsPerConsumer) * tile.block_n * tile.partial_sums() / arch.fact("f32_per_cycle");
}

}  // namespace tj::ops
