// How a matrix product's tile ends; see gemm.hpp.
//
// Decides the way of d out of the registers. Invariant: canonical() is idempotent and keeps gemm_store().
#include <algorithm>

#include "ops/gemm/gemm.hpp"
#include "ops/gemm/params.cuh"

namespace tj::ops {
namespace {

// Shared memory that d may take: with more, the rings of the operands lose a slot that the loop needs. 64 KB for tiles
// of 128 x 256 leave 3 of 4, and 4096^3 and 8192^3 take 4 and 7% longer than with stores from registers. 48 KB for
// tiles of 128 x 192 leave 4 of 5, and these take 9 and 8% less; with K of 512, 17 to 22% less (tj-warm --tune, H200,
// 2026-11-26).
constexpr int kMostStagedBytes = 48 * 1024;
// Shared memory that d may take where the copy engine cannot store. Neighbouring columns by one warp are worth a slot
// of each ring; tiles of 256 x 256 would have no rings left. A pair of blocks has b in shared memory once, and may
// stage as much: with 128 x 256 five slots are left for the loop.
constexpr int kMostRowBytes = 64 * 1024;
constexpr int kMostPromotedColumns = 128;

static_assert(static_cast<int>(Scales::block) == gemm::kScaledBlocks &&
              static_cast<int>(Scales::row) == gemm::kScaledRows);
static_assert(kMostGemmStore == std::max({gemm::kDirect, gemm::kCopied, gemm::kRows}));

}  // namespace

int gemm_store(const GemmKernel& kernel, bool in_pairs) {
  const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(kernel.tile)];
  // Two sets of that many sums leave 40 registers for the roles that copy. The one that stores needs more in clusters:
  // both consumers would share a role, at 1316 cycles an iteration instead of 768.
  const bool full = tile.promotes() && tile.blocks() > 1 && tile.sum_columns() > kMostPromotedColumns;
  const int columns = static_cast<int>(kernel.columns(tile.block_n));
  const bool may_stage = kernel.out != DType::f32 && !kernel.quantises() && columns % gemm::kSwizzleColumns == 0 &&
                         !gemm_rung(kernel).thread_copies && !full && tile.consumer_rows() == gemm::kRowsPerConsumer &&
                         !tile.reads;
  const int bytes = tile.block_m * columns * size_of(kernel.out);
  if (may_stage && !kernel.d_aligned && bytes <= kMostRowBytes) return gemm::kRows;
  return may_stage && kernel.d_aligned && bytes <= (in_pairs || tile.swapped ? kMostRowBytes : kMostStagedBytes)
             ? gemm::kCopied
             : gemm::kDirect;
}

GemmKernel canonical(GemmKernel kernel) {
  if (kernel.scales == Scales::tensor) kernel.left_scales_k = kernel.packed_scales = false;
  if (kernel.scales != Scales::row) kernel.right_scales_k = false;
  if (!kernel.add_c || kernel.out == DType::f32) kernel.add_f32 = false;
  if (kernel.parts) kernel.end_text = {};  // the launch that adds parts has it
  if (kernel.rung == kGemmOwnRung) kernel.rung = kNoGemmRung;
  GemmKernel aligned = kernel;
  aligned.d_aligned = true;
  return gemm_store(kernel) == gemm_store(aligned) ? aligned : kernel;
}

}  // namespace tj::ops
