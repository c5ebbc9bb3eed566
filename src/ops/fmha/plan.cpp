// Launch parameters of fmha; see fmha.hpp. On the hot path: allocates nothing.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "ops/common/element.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/params.cuh"

namespace tj::ops {
namespace {

constexpr std::uint64_t kElementBytes = 2;  // fmha_plan refuses types of another size

// [B, H, S, D] as the copy engine counts: D, S, H, B. A dimension of size 1 may have any stride; give it a legal one.
support::TensorMapDesc box_map(const Tensor& tensor, int rows) {
  support::TensorMapDesc desc;
  desc.base = tensor.data;
  desc.dtype = tensor.dtype;
  desc.rank = 4;
  std::uint64_t legal = static_cast<std::uint64_t>(tensor.shape[3]) * kElementBytes;
  for (int i = 0; i < 4; ++i) {
    const auto from = static_cast<std::size_t>(3 - i), to = static_cast<std::size_t>(i);
    desc.dims[to] = static_cast<std::uint64_t>(tensor.shape[from]);
    desc.stride_bytes[to] =
        tensor.shape[from] == 1 ? legal : static_cast<std::uint64_t>(tensor.strides[from]) * kElementBytes;
  }
  desc.stride_bytes[0] = kElementBytes;
  desc.box = {static_cast<std::uint32_t>(fmha::kSwizzleColumns), static_cast<std::uint32_t>(rows), 1, 1, 0};
  return desc;
}

long long stride(const Tensor& tensor, std::size_t dimension) {
  return tensor.shape[dimension] == 1 ? 0 : tensor.strides[dimension];
}

fmha::Source source(const Tensor& tensor) {
  return {tensor.data, stride(tensor, 0), stride(tensor, 1), stride(tensor, 2)};
}

bool wide_stores(const Tensor& o) {
  constexpr long long kElements = 8;  // 16 bytes
  return reinterpret_cast<std::uintptr_t>(o.data) % 16 == 0 && stride(o, 0) % kElements == 0 &&
         stride(o, 1) % kElements == 0 && stride(o, 2) % kElements == 0;
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
  p.queries = static_cast<int>(args.q.shape[2]);
  p.keys = static_cast<int>(args.k.shape[2]);
  p.row_blocks = (p.queries + kernel.rows_per_block - 1) / kernel.rows_per_block;
  p.tiles = p.row_blocks * p.heads * p.batches;
  p.wide_stores = wide_stores(args.o);
  const float scale = fmha_scale(args);
  // A scale of 0 weighs all keys alike; the smallest normal keeps masked scores at -inf where 0 would make them NaN.
  p.scale = std::fmax(std::fabs(scale), std::numeric_limits<float>::min());
  p.scale_log2 = std::fmin(p.scale * kLog2E, std::numeric_limits<float>::max());
  p.sign = scale < 0 ? -1.0f : 1.0f;
  const auto tiles = static_cast<unsigned>(p.tiles);
  plan.blocks = !kernel.persistent || plan.sm_count == 0 ? tiles : std::min(tiles, plan.resident_blocks());
}

}  // namespace tj::ops
