// Launch parameters of grouped_gemm; see grouped_gemm.hpp. On the hot path: allocates nothing.
//
// Decides what differs from a product's launch: the list, rows that end with a group, and a grid for any list.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ops/common/tensor_args.hpp"
#include "ops/gemm/params.cuh"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "support/index.hpp"

namespace tj::ops {
namespace {

using support::at;

/// Null where the plan has no such map: threads may read operands themselves.
support::TensorMapDesc* map_at(LaunchPlan& plan, std::size_t offset) {
  for (std::size_t i = 0; i < plan.map_count; ++i)
    if (plan.maps[i].offset == offset) return &plan.maps[i].desc;
  return nullptr;
}

}  // namespace

std::int64_t grouped_gemm_row_tiles(const GemmSizes& all, std::int64_t groups, bool counts, int rows) {
  if (counts) return groups * ((all.m + rows - 1) / rows);
  return std::min(groups, all.m) + (all.m - std::min(groups, all.m)) / rows;
}

void grouped_gemm_plan(const GroupedGemmArgs& args, const GemmChoice& choice, const GemmLaunch& launch,
                       LaunchPlan& plan) {
  const GemmArgs product = product_of(args);
  gemm_plan(product, choice, launch, plan);
  auto& p = *reinterpret_cast<gemm::Params*>(plan.params.data());
  p.groups = static_cast<const int*>(args.groups.data);
  p.group_count = static_cast<int>(args.b.shape[0]);
  if (args.grouping == Grouping::depths) {  // a batch of d whose matrices have parts of K
    p.group_count = static_cast<int>(args.d.shape[0]);
    p.k = static_cast<int>(args.a.shape[1]);
    if (args.a.dtype == DType::e4m3) return;  // groups begin and end with iterations
    for (const std::size_t operand : {offsetof(gemm::Params, a), offsetof(gemm::Params, b)})
      if (support::TensorMapDesc* map = map_at(plan, operand)) end_with_rows(*map);
    return;
  }
  if (launch.store == gemm::kCopied) end_with_rows(*map_at(plan, offsetof(gemm::Params, d)));
  // Marked as read once, matrices of groups came more slowly where they were large: 16 groups of 1 to 64 rows x 4096 x
  // 7168 took 133 us, 122 without; 64 groups 498 and 487; below 250 MB 1% less (H200, 2026-11-30).
  if (support::TensorMapDesc* map = map_at(plan, offsetof(gemm::Params, b))) map->read_once = false;
  if (args.grouping == Grouping::rows) return;
  const GemmTile& tile = gemm_tiles()[at(choice.tile)];
  // A tile is a whole number of boxes: rows of a power of two.
  const auto rows_expected =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(grouped_gemm_sizes(args).m)));
  p.a_box = gemm_box(rows_expected, tile.block_m, tile.cluster_n, launch.skips);
  if (support::TensorMapDesc* map = map_at(plan, offsetof(gemm::Params, a)))
    map->box[1] = static_cast<std::uint32_t>(p.a_box);
  if (const int before = gemm_rows_before(grouped_gemm_kind(args)); before > 0)
    if (support::TensorMapDesc* map = map_at(plan, offsetof(gemm::Params, left_scales)))
      map->box[0] += static_cast<std::uint32_t>(before);
  const bool counts = args.grouping == Grouping::counts;
  const int rows = tile.block_m * tile.cluster_m;
  const std::int64_t tiles =
      grouped_gemm_row_tiles(gemm_sizes(product), args.b.shape[0], counts, rows) * p.column_tiles;
  const auto blocks = static_cast<unsigned>(tile.blocks());
  const unsigned places = std::max(1u, plan.resident_blocks() / blocks);
  const unsigned clusters = plan.sm_count == 0 || !launch.walks
                                ? static_cast<unsigned>(tiles)
                                : static_cast<unsigned>(std::min<std::int64_t>(tiles, places));
  plan.blocks = clusters * blocks;
  p.group_rows = gemm_group_rows(tile, (rows_expected + rows - 1) / rows, std::max(1u, clusters));
  p.by_group = divisor_of(static_cast<int>(
      std::min<std::int64_t>(std::int64_t{p.group_rows} * p.column_tiles, std::numeric_limits<int>::max())));
  p.by_rows = divisor_of(p.group_rows);
  p.by_columns = divisor_of(p.column_tiles);
  p.by_box = divisor_of(p.a_box);
  plan.overlaps = plan.sm_count == 0 || plan.limited || 2 * plan.blocks <= plan.resident_blocks();
}

}  // namespace tj::ops
