// Launch parameters of gemm; see gemm.hpp. On the hot path: allocates nothing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "ops/common/block_scales.hpp"
#include "ops/common/epilogue_args.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/params.cuh"
#include "support/index.hpp"

namespace tj::ops {
namespace {

using support::at;

struct Order {
  int across, down;  ///< the contiguous dimension and the other one
};
Order order_of(const Tensor& tensor, bool mn_major) {
  const int rows = tensor.rank - 2, depth = tensor.rank - 1;
  return mn_major ? Order{rows, depth} : Order{depth, rows};
}

/// Contiguous dimension, the other one, batch, 1. Blocks that share a copy cut it along the other dimension.
support::TensorMapDesc operand_map(const Tensor& tensor, bool mn_major, int box_rows, int block_k, int parts) {
  const auto [across, down] = order_of(tensor, mn_major);
  const int element = size_of(tensor.dtype);
  // An operand whose rows are K's has no more than an iteration's of it in a row.
  const int row_bytes = mn_major ? gemm::kSwizzleBytes : std::min(gemm::kSwizzleBytes, block_k * element);
  support::TensorMapDesc desc = tensor_map(tensor, {across, down, tensor.rank == 3 ? 0 : kNoDimension, kNoDimension},
                                           {static_cast<std::uint32_t>(row_bytes / element),
                                            static_cast<std::uint32_t>(mn_major ? block_k / parts : box_rows)});
  desc.swizzle_bytes = row_bytes;
  return desc;
}

/// A gate's half of an operand's rows and the other one as a map's last dimension. They follow each other, or take
/// turns.
void split_rows(support::TensorMapDesc& desc, std::size_t rows, bool interleaved) {
  desc.dims[rows] /= 2;
  desc.dims[3] = 2;
  desc.stride_bytes[3] = desc.stride_bytes[rows] * (interleaved ? 1 : desc.dims[rows]);
  if (interleaved) desc.stride_bytes[rows] *= 2;
}

/// Scales of blocks of K: one box an iteration, where K is contiguous of whole 16 bytes.
support::TensorMapDesc scale_map(const Tensor& scales, bool mn_major, int rows, int partial_sums) {
  const int blocks = scales.dtype == DType::i32 ? 1 : partial_sums;
  const auto [across, down] = order_of(scales, mn_major);
  support::TensorMapDesc desc = tensor_map(scales, {across, down, scales.rank == 3 ? 0 : kNoDimension, kNoDimension},
                                           {static_cast<std::uint32_t>(mn_major ? rows : gemm::kScalesTogether),
                                            static_cast<std::uint32_t>(mn_major ? blocks : rows)});
  desc.swizzle_bytes = 0;
  return desc;
}
void add_scales(const GemmArgs& args, const GemmTile& tile, LaunchPlan& plan) {
  const bool gated = args.gate != Activation::none, right_mn = gemm_scales_mn(args, true);
  const int own = gated ? tile.block_n / 2 : tile.block_n,
            columns = gemm_scales(args) == Scales::row ? own : gemm::scaled_blocks(own);
  plan.maps[plan.map_count++] = {
      offsetof(gemm::Params, left_scales),
      scale_map(*args.scale_a, gemm_scales_mn(args, false), tile.block_m, tile.partial_sums())};
  plan.maps[plan.map_count++] = {offsetof(gemm::Params, right_scales),
                                 scale_map(*args.scale_b, right_mn, columns, tile.partial_sums())};
  if (gated) split_rows(plan.maps[plan.map_count - 1].desc, right_mn ? 0 : 1, false);
}

/// Where threads find scales of blocks.
void add_scale_places(const GemmArgs& args, gemm::Params& p) {
  p.scale_a = static_cast<const float*>(args.scale_a->data);
  p.scale_b = static_cast<const float*>(args.scale_b->data);
  if (args.scale_d) return;  // no such kernel quantises
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor& scales = i == 0 ? *args.scale_a : *args.scale_b;
    p.scale_strides[i].batch = batch_stride(scales, 3);
    p.scale_strides[i].row = stride(scales, scales.rank - 2);
    p.scale_strides[i].block = stride(scales, scales.rank - 1);
  }
}

/// Makes the map of an operand that is not read one that the copy engine takes, whatever the operand's address and
/// strides.
void make_legal(support::TensorMapDesc& desc) {
  desc.base = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(desc.base) / kMapAlignment * kMapAlignment);
  for (std::size_t i = 1; i < 4; ++i)
    desc.stride_bytes[i] = (desc.stride_bytes[i] + kMapAlignment - 1) / kMapAlignment * kMapAlignment;
}

/// Rows that boxes bring of the last tile of `block`, which the matrix may end in; at most those of a whole tile.
int boxed_last(std::int64_t size, int box, int block, int most) {
  return std::min<int>(most, static_cast<int>((size % block + box - 1) / box * box));
}

/// Rows of b that make a column of d.
int halves_of(const GemmArgs& args) { return args.gate == Activation::none ? 1 : 2; }

/// Member by member into a parameter that is zeroed: what lies between members would come along with a copy, and plans
/// compare all bytes.
void fill(gemm::Operand& operand, const Tensor& tensor, bool mn_major) {
  const auto [across, down] = order_of(tensor, mn_major);
  const auto aligned = [&](long long elements) {
    return elements * size_of(tensor.dtype) % static_cast<long long>(kMapAlignment) == 0;
  };
  operand.data = tensor.data;
  operand.stride_batch = batch_stride(tensor, 3);
  operand.stride_down = stride(tensor, down);
  operand.across = static_cast<int>(tensor.shape[at(across)]);
  operand.down = static_cast<int>(tensor.shape[at(down)]);
  operand.wide = reinterpret_cast<std::uintptr_t>(tensor.data) % kMapAlignment == 0 && aligned(operand.stride_batch) &&
                 aligned(operand.stride_down);
}

/// Maps of the operands and of their scales, and what boxes bring of them.
void add_operands(const GemmArgs& args, const GemmTile& tile, const GemmLaunch& launch, gemm::Params& p,
                  LaunchPlan& plan) {
  const GemmSizes sizes = gemm_sizes(args);
  const int halves = halves_of(args), tile_columns = tile.block_n / halves;
  const std::int64_t n = sizes.n / halves;
  const bool a_mn = gemm_mn_major(args.a), b_mn = gemm_mn_major(args.b);
  const int columns = launch.pairs ? tile.block_n / 2 : tile_columns, sharers = launch.pairs ? 1 : tile.cluster_m;
  p.a_box = a_mn ? gemm::kSwizzleColumns : gemm_box(sizes.m, tile.block_m, tile.cluster_n, launch.skips);
  p.b_box = b_mn ? gemm::kSwizzleColumns : gemm_box(n, columns, sharers, launch.skips);
  p.a_last = boxed_last(sizes.m, p.a_box, tile.block_m, tile.left_rows(a_mn));
  p.b_last = boxed_last(n, p.b_box, tile_columns, tile_columns);
  plan.maps[0] = {offsetof(gemm::Params, a), operand_map(args.a, a_mn, p.a_box, tile.block_k, tile.cluster_n)};
  plan.map_count = 1;
  if (tile.reads) {
    fill(p.operands.b, args.b, b_mn);
    if (args.alpha == 0) make_legal(plan.maps[0].desc);
    return;
  }
  plan.maps[1] = {offsetof(gemm::Params, b), operand_map(args.b, b_mn, p.b_box, tile.block_k, sharers)};
  plan.maps[1].desc.read_once = gemm_reads_once(sizes.m, tile) && (args.b.rank == 3 || sizes.batch == 1);
  if (halves > 1) split_rows(plan.maps[1].desc, 1, args.gate_interleaved);
  plan.map_count = 2;
  if (gemm_scales(args) != Scales::tensor) add_scales(args, tile, plan);
  if (args.alpha == 0)
    for (std::size_t i = 0; i < plan.map_count; ++i) make_legal(plan.maps[i].desc);
}

/// Can a thread store two (f32) or eight elements at a time?
bool wide(const Tensor& tensor) { return ops::wide(tensor, tensor.dtype == DType::f32 ? 8 : 16); }

/// Products of tiles that do not fit into 32 bits are more than any place: validate() sees to the number of tiles.
void set_divisors(gemm::Params& p) {
  const auto product = [](int one, int other) {
    return static_cast<int>(std::min<std::int64_t>(std::int64_t{one} * other, std::numeric_limits<int>::max()));
  };
  p.by_matrix = divisor_of(product(p.row_tiles, p.column_tiles));
  p.by_group = divisor_of(product(p.group_rows, p.column_tiles));
  p.by_batches = divisor_of(p.batches);
  p.by_rows = divisor_of(p.group_rows);
  if (p.dealt_over > 0) {
    p.by_wave = divisor_of(p.wave);
    p.by_dealt = divisor_of(p.dealt_over);
  }
  p.by_last_rows = divisor_of(p.row_tiles % p.group_rows == 0 ? p.group_rows : p.row_tiles % p.group_rows);
}

/// Blocks that begin before a launch is done lie where that one's have ended first. Two of them then share a path to L2
/// while others have none, and tiles that read the same rows lie far apart. Launches of at most half of the
/// multiprocessors find room beside each other. Example: 128 x 4096 x 4096 takes 9.5 us where it took 13.0 (H100,
/// 2026-11-27, graph replays). 2 x 1024 x 1024 would take 2.9 us instead of 2.6. A call with max_sms overlaps: others
/// have the rest.
bool overlaps(const LaunchPlan& plan, unsigned wanted, unsigned cluster) {
  const unsigned places = plan.resident_blocks();
  return places == 0 || plan.limited || 2 * plan.blocks <= places || (wanted > places && cluster > 1);
}

/// Clusters that get a share of tiles: no more than can have pieces.
unsigned sharing_clusters(const gemm::Params& params, unsigned places) {
  const std::int64_t pieces = std::int64_t{params.tiles} * (params.k_blocks / graph::kLeastPiece);
  return static_cast<unsigned>(std::clamp<std::int64_t>(pieces, std::min<std::int64_t>(params.tiles, places), places));
}

}  // namespace

int gemm_group_rows(const GemmTile& tile, std::int64_t row_tiles, double clusters) {
  const double width = static_cast<double>(tile.block_n) * tile.cluster_n,
               height = static_cast<double>(tile.block_m) * tile.cluster_m;
  const auto square = std::max<std::int64_t>(1, std::lround(std::sqrt(clusters * width / height)));
  const std::int64_t groups = (row_tiles + square - 1) / square;
  return static_cast<int>((row_tiles + groups - 1) / groups);
}

void gemm_plan(const GemmArgs& args, const GemmChoice& choice, const GemmLaunch& launch, LaunchPlan& plan) {
  static_assert(sizeof(gemm::Params) <= LaunchPlan::kMaxOwnBytes);
  const GemmSizes sizes = gemm_sizes(args);
  const GemmTile& tile = gemm_tiles()[at(choice.tile)];
  const int parts = choice.parts > 1 ? gemm_parts(args, choice) : 1;
  auto& p = *new (plan.params.data()) gemm::Params{};
  plan.params_bytes = sizeof(gemm::Params);
  const GemmRung& rung = gemm_rungs()[at(choice.rung)];
  const int halves = halves_of(args), tile_columns = tile.block_n / halves;
  const std::int64_t n = sizes.n / halves;  // columns of d
  if (launch.by_threads || rung.thread_copies) {
    fill(p.operands.a, args.a, gemm_mn_major(args.a));
    fill(p.operands.b, args.b, gemm_mn_major(args.b));
  } else {
    add_operands(args, tile, launch, p, plan);
  }
  if (launch.store == gemm::kCopied)
    plan.maps[plan.map_count++] = {
        offsetof(gemm::Params, d),
        operand_map(args.d, false, tile.swapped ? tile.block_m : std::min(tile.block_m, gemm::kRowsPerConsumer),
                    gemm::kSwizzleColumns, 1)};
  p.a_batched = args.a.rank == 3;
  p.b_batched = args.b.rank == 3;
  p.d_data = args.d.data;
  p.d_stride_batch = batch_stride(args.d, 3);
  p.d_stride_row = stride(args.d, args.d.rank - 2);
  p.wide_d = wide(args.d);
  if (args.scale_d) set_block_scales(p.d_scales, *args.scale_d, n, args.powers_of_two);
  add_epilogue(args, wide, p);
  if (gemm_scales(args) != Scales::tensor) add_scale_places(args, p);
  p.m = static_cast<int>(sizes.m);
  p.n = static_cast<int>(n);
  p.bias_step = args.gate_interleaved ? 2 : 1;
  p.bias_other = args.gate_interleaved ? 1 : p.n;
  p.k_blocks = args.alpha == 0 ? 0 : static_cast<int>((sizes.k + tile.block_k - 1) / tile.block_k);
  p.part_blocks = static_cast<int>(gemm_part_blocks(p.k_blocks, parts));
  p.batches = static_cast<int>(sizes.batch) / parts;
  const int rows = tile.block_m * tile.cluster_m, columns = tile_columns * tile.cluster_n;  // of a cluster
  p.row_tiles = (p.m + rows - 1) / rows;
  p.column_tiles = (p.n + columns - 1) / columns;
  p.tiles = p.row_tiles * p.column_tiles * static_cast<int>(sizes.batch);
  const auto tiles = static_cast<unsigned>(p.tiles), blocks = static_cast<unsigned>(tile.blocks());
  plan.limit_sms(args.max_sms);
  const unsigned places = std::max(1u, plan.resident_blocks() / blocks);
  const unsigned clusters = plan.sm_count == 0 || rung.tile_a_block || !launch.walks ? tiles
                            : launch.split                                           ? sharing_clusters(p, places)
                                                                                     : std::min(tiles, places);
  plan.blocks = clusters * blocks;
  p.group_rows =
      rung.tile_a_block ? 1 : gemm_group_rows(tile, p.row_tiles, std::max(1u, clusters / static_cast<unsigned>(parts)));
  p.wave = static_cast<int>(std::min(clusters, places));
  if (blocks > 1) p.dealt_over = launch.dealt_over;
  set_divisors(p);
  if (launch.in_place) plan.overlaps = overlaps(plan, tiles * blocks, blocks);
}

}  // namespace tj::ops
