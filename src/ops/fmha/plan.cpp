// Launch parameters of fmha; see fmha.hpp. On the hot path: allocates nothing.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "ops/common/element.hpp"
#include "ops/common/tensor_args.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/mask.hpp"
#include "ops/fmha/params.cuh"

namespace tj::ops {
namespace {

/// [B, H, S, D] as the copy engine counts: D, S, H, B.
support::TensorMapDesc box_map(const Tensor& tensor, int rows) {
  return tensor_map(tensor, {3, 2, 1, 0},
                    {static_cast<std::uint32_t>(fmha::kSwizzleColumns), static_cast<std::uint32_t>(rows)});
}

fmha::Source source(const Tensor& tensor) {
  return {tensor.data, stride(tensor, 0), stride(tensor, 1), stride(tensor, 2)};
}

/// Heads whose keys and values fit together into what the kernel says. Heads of a group have theirs in common.
int section_heads(const FmhaArgs& args, const FmhaLaunch& kernel, const fmha::Params& p) {
  const std::int64_t head_bytes = 2 * args.k.shape[2] * args.k.shape[3] * size_of(args.k.dtype);
  const std::int64_t fit = std::max<std::int64_t>(1, std::int64_t{kernel.section_kb} * 1024 / head_bytes);
  const std::int64_t all = std::int64_t{p.heads} * p.batches;
  return kernel.section_kb == 0 ? 1 : static_cast<int>(std::min(all, fit * p.heads_per_kv_head));
}

}  // namespace

void fmha_plan(const FmhaArgs& args, const FmhaLaunch& kernel, LaunchPlan& plan) {
  static_assert(sizeof(fmha::Params) <= LaunchPlan::kMaxParamsBytes);
  constexpr float kLog2E = 1.44269504088896f;
  auto& p = *new (plan.params.data()) fmha::Params{};
  require_two_bytes("fmha", args.q.dtype);
  plan.params_bytes = sizeof(fmha::Params);
  plan.map_count = 0;
  if (kernel.bulk_copies) {
    plan.maps[0] = {offsetof(fmha::Params, q), box_map(args.q, kernel.rows_per_block)};
    plan.maps[1] = {offsetof(fmha::Params, k), box_map(args.k, kernel.block_n)};
    plan.maps[2] = {offsetof(fmha::Params, v), box_map(args.v, kernel.block_n)};
    plan.map_count = 3;
  }
  p.wide_stores = wide(args.o, 16);
  if (kernel.staged_rows > 0)  // where rows of o lie as no map may say, nothing is stored by one
    plan.maps[plan.map_count++] = {offsetof(fmha::Params, o_boxes),
                                   box_map(p.wide_stores != 0 ? args.o : args.q, kernel.staged_rows)};
  p.q_rows = source(args.q);
  p.k_rows = source(args.k);
  p.v_rows = source(args.v);
  p.o = args.o.data;
  p.o_stride_batch = stride(args.o, 0);
  p.o_stride_head = stride(args.o, 1);
  p.o_stride_row = stride(args.o, 2);
  if (args.lse) {
    p.lse = static_cast<float*>(args.lse->data);
    p.lse_stride_batch = stride(*args.lse, 0);
    p.lse_stride_head = stride(*args.lse, 1);
    p.lse_stride_row = stride(*args.lse, 2);
  }
  p.batches = static_cast<int>(args.q.shape[0]);
  p.heads = static_cast<int>(args.q.shape[1]);
  p.heads_per_kv_head = static_cast<int>(args.q.shape[1] / args.k.shape[1]);
  set_mask(p, args);
  p.row_blocks = (p.queries + kernel.rows_per_block - 1) / kernel.rows_per_block;
  p.tiles = p.row_blocks * p.heads * p.batches;
  p.section_heads = section_heads(args, kernel, p);
  const float scale = fmha_scale(args);
  // A scale of 0 weighs all keys alike; the smallest normal keeps masked scores at -inf where 0 would make them NaN.
  p.scale = std::fmax(std::fabs(scale), std::numeric_limits<float>::min());
  p.scale_log2 = std::fmin(p.scale * kLog2E, std::numeric_limits<float>::max());
  p.sign = scale < 0 ? -1.0f : 1.0f;
  const auto tiles = static_cast<unsigned>(p.tiles);
  plan.limit_sms(args.max_sms);
  plan.blocks = !kernel.walks || plan.sm_count == 0 ? tiles : std::min(tiles, plan.resident_blocks());
}

}  // namespace tj::ops
