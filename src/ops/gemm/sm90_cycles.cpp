// See sm90_cycles.hpp.
#include "ops/gemm/sm90_cycles.hpp"

#include <algorithm>
#include <cmath>

#include "ops/common/multiplier.hpp"
#include "ops/gemm/params.cuh"

namespace tj::ops {
namespace {

using gemm::kRowsPerConsumer;

constexpr int kStepBytes = 32;  // of K, of one matrix instruction

/// A consumer's products of an iteration on the matrix unit.
double own_cycles(const GemmTile& tile, const arch::Arch& arch) {
  const double step_k = static_cast<double>(kStepBytes) / tile.element_bytes;
  const double step = 2.0 * tile.consumer_rows() * tile.sum_columns() * step_k /
                      Multiplier(Multiplier::Way::warpgroup, arch).flops_per_cycle(tile.element_bytes);
  const int products = tile.consumer_rows() / kRowsPerConsumer;
  return tile.block_k / step_k * std::max(step, products * arch.fact("matrix_least_cycles"));
}

/// How often a consumer waits for its products in an iteration.
int waits_of(const GemmTile& tile) { return tile.takes_turns() ? 2 : 1; }

}  // namespace

double sm90_promote_cycles(const GemmTile& tile, const arch::Arch& arch) {
  if (!tile.promotes()) return 0;
  return static_cast<double>(kRowsPerConsumer) * tile.sum_columns() * tile.partial_sums() / arch.fact("f32_per_cycle");
}

/// An iteration's products, and what each 128 bytes of K take beyond them. Where their sums are promoted, a consumer's
/// next group waits for it: the others' products may fill that time.
std::int64_t sm90_iteration_cycles(const GemmTile& tile, const arch::Arch& arch) {
  const double own = own_cycles(tile, arch);
  const double groups = std::max(1, tile.block_k * tile.element_bytes / gemm::kSwizzleBytes);
  const double wait = arch.fact("matrix_group_cycles") + arch.fact("matrix_drain_cycles");
  const double chain = tile.promotes() ? own + waits_of(tile) * wait + sm90_promote_cycles(tile, arch) : 0;
  return static_cast<std::int64_t>(
      std::ceil(std::max(tile.consumers() * (own + groups * arch.fact("product_group_cycles")), chain)));
}

/// An iteration with scales of blocks. Consumers' products begin and end together: sums of all are added while the
/// unit waits. Both constants are fitted: 64x128x128 took 549 cycles an iteration, 64x64x256 704, 128x64x256 1147,
/// 128x128x128 763 and 128x192x128 1030 (H200, 2026-11-28, `tj-bench --op gemm --dtype e4m3 --scales block --tile
/// ...`). Halves that take turns wait once: the other consumer's products fill one of their two waits. With two waits
/// five products were predicted 10 to 11% too slow (2026-11-29, `quantised_ends.py --tiles`).
std::int64_t sm90_scaled_iteration_cycles(const GemmTile& tile, const arch::Arch& arch) {
  constexpr double kScalesCycles = 50, kFurtherBlockCycles = 150;
  const double further = tile.partial_sums() - 1;
  const double together = tile.consumers() * (own_cycles(tile, arch) + further * arch.fact("product_group_cycles") +
                                              sm90_promote_cycles(tile, arch)) +
                          arch.fact("matrix_group_cycles") + arch.fact("matrix_drain_cycles") +
                          waits_of(tile) * kScalesCycles + further * kFurtherBlockCycles;
  return std::max(sm90_iteration_cycles(tile, arch), static_cast<std::int64_t>(std::ceil(together)));
}

}  // namespace tj::ops
