// Launch parameters of fmha; see fmha.hpp. On the hot path: allocates nothing.
#include <algorithm>
#include <cstring>
#include <new>

#include "ops/common/element.hpp"
#include "ops/common/empty.hpp"
#include "ops/common/tensor_args.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/mask.hpp"
#include "ops/fmha/params.cuh"
#include "ops/fmha/parts.hpp"
#include "ops/fmha/scores.hpp"
#include "ops/fmha/sequences.hpp"

namespace tj::ops {
namespace {

/// [B, H, S, D] as the copy engine counts: D, S, H, B; or so that boxes end with a sequence.
support::TensorMapDesc box_map(const FmhaArgs& args, const Tensor& tensor, int rows) {
  if (has_sequences(args)) return sequence_map(tensor, rows);
  return tensor_map(tensor, {3, 2, 1, 0},
                    {static_cast<std::uint32_t>(fmha::kSwizzleColumns), static_cast<std::uint32_t>(rows)});
}

/// The map of queries whose heads are rows: D, heads for one of keys, S, those of keys, B. Heads are rounded up to a
/// power of two.
support::TensorMapDesc packed_map(const Tensor& q, std::int64_t kv_heads, int group_shift, int rows) {
  support::TensorMapDesc desc = tensor_map(q, {3, 1, 2, 1}, {static_cast<std::uint32_t>(fmha::kSwizzleColumns), 1});
  const std::int64_t group = q.shape[1] / kv_heads;
  const auto bytes = [&](long long apart) {
    return apart == 0 ? kMapAlignment : static_cast<std::uint64_t>(apart) * std::uint64_t{2};
  };
  desc.rank = 5;
  desc.dims[1] = static_cast<std::uint64_t>(group);
  desc.dims[3] = static_cast<std::uint64_t>(kv_heads);
  desc.dims[4] = static_cast<std::uint64_t>(q.shape[0]);
  desc.stride_bytes[1] = bytes(stride(q, 1));
  desc.stride_bytes[3] = bytes(stride(q, 1) * group);
  desc.stride_bytes[4] = bytes(stride(q, 0));
  desc.box = {static_cast<std::uint32_t>(fmha::kSwizzleColumns), 1u << group_shift,
              static_cast<std::uint32_t>(rows >> group_shift), 1, 1};
  return desc;
}

/// Of keys or values, a block of them at a time, or as many as lie in one page.
support::TensorMapDesc key_map(const FmhaArgs& args, const Tensor& tensor, int block_n) {
  if (args.block_table) return sequence_map(pages_as_rows(tensor), fmha_box_rows(tensor.shape[2], block_n));
  return box_map(args, tensor, block_n);
}

fmha::Source source(const Tensor& tensor) {
  return {tensor.data, stride(tensor, 0), stride(tensor, 1), stride(tensor, 2)};
}

// Heads of a section that is not the last. Long and short tiles of few heads run at the same time: some read while
// others multiply. Causal, D 128, 16384 tokens of 32 heads: S 512 took 205 us with 1 to 20 heads, 247 with 128. S 1024
// took 291 and 312, and from S 2048 on all were alike (H100, 2026-11-27).
constexpr std::int64_t kSectionHeads = 10;

/// The last section has all heads whose keys and values fit together into what the kernel says, so that a launch ends
/// with the shortest tiles of many heads. Heads of a group have theirs in common.
void set_sections(const FmhaArgs& args, const FmhaLaunch& kernel, fmha::Params& p) {
  const std::int64_t rows = args.block_table ? args.k.shape[0] * args.k.shape[2] : args.k.shape[2];
  const std::int64_t head_bytes = rows * (args.k.shape[3] + args.v.shape[3]) * size_of(args.k.dtype);
  const std::int64_t fit = std::max<std::int64_t>(1, std::int64_t{kernel.section_kb} * 1024 / head_bytes);
  const std::int64_t all = std::max<std::int64_t>(1, std::int64_t{p.heads} * p.batches), group = p.heads_per_kv_head;
  const bool mixed = kernel.section_kb != 0;
  const std::int64_t last = mixed ? std::min(all, fit * group) : 1;
  const std::int64_t each = mixed ? std::min(last, std::max(group, kSectionHeads / group * group)) : 1;
  p.section_heads = static_cast<int>(each);
  p.last_section = static_cast<int>((all - last + each - 1) / each);
}

/// A kernel that packs heads counts those of keys. Outputs of parts lie one behind the other in the first dimension of
/// o and of lse, in lists in the last one of lse (parts.cpp).
void set_parts(const FmhaArgs& args, int parts, fmha::Params& p) {
  p.group = p.heads_per_kv_head;
  p.group_shift = fmha_group_shift(args);
  p.heads = static_cast<int>(args.k.shape[1]);
  p.heads_per_kv_head = 1;
  p.parts = parts;
  if (parts == 1) return;
  const bool lists = has_sequences(args);
  p.part_o = args.q.shape[lists ? 2 : 0] * args.o.strides[lists ? 2 : 0];
  p.part_lse = args.q.shape[lists ? 2 : 0] * args.lse->strides[lists ? 2 : 0];
}

/// args: of tensors [B, H, S, D].
void plan_batch(const FmhaArgs& args, const FmhaLaunch& kernel, int parts, LaunchPlan& plan) {
  static_assert(sizeof(fmha::Params) <= LaunchPlan::kMaxOwnBytes);
  auto& p = *new (plan.params.data()) fmha::Params{};
  require_two_bytes("fmha", args.q.dtype);
  plan.params_bytes = sizeof(fmha::Params);
  plan.map_count = 0;
  if (kernel.bulk_copies) {
    plan.maps[0] = {offsetof(fmha::Params, q),
                    parts == 0 ? box_map(args, args.q, kernel.rows_per_block)
                               : packed_map(args.q, args.k.shape[1], fmha_group_shift(args), kernel.rows_per_block)};
    plan.maps[1] = {offsetof(fmha::Params, k), key_map(args, args.k, kernel.block_n)};
    plan.maps[2] = {offsetof(fmha::Params, v), key_map(args, args.v, kernel.block_n)};
    for (std::size_t i = 1; i < 3; ++i) plan.maps[i].desc.read_once = parts != 0;
    plan.map_count = 3;
  }
  p.wide_stores = wide(args.o, 16);
  if (kernel.staged_rows > 0)  // where rows of o lie as no map may say, nothing is stored by one
    plan.maps[plan.map_count++] = {offsetof(fmha::Params, o_boxes),
                                   box_map(args, p.wide_stores != 0 ? args.o : args.v, kernel.staged_rows)};
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
  int queries = kernel.rows_per_block;  // of a block
  if (parts != 0) {
    set_parts(args, parts, p);
    queries >>= p.group_shift;
  }
  p.row_blocks = (p.queries + queries - 1) / queries;
  if (has_sequences(args)) {
    set_sequences(p, args);
    p.row_blocks = static_cast<int>(fmha_row_blocks(p.queries, p.sequences, queries));
  }
  p.tiles = p.row_blocks * p.heads * p.batches * std::max(parts, 1);
  set_sections(args, kernel, p);
  set_scores(p, args);
  const auto tiles = static_cast<unsigned>(p.tiles);
  plan.limit_sms(args.max_sms);
  plan.blocks = !kernel.walks || plan.sm_count == 0 ? tiles : std::min(tiles, plan.resident_blocks());
}

/// No tile has an iteration then. Maps, which need rows, are of one that nobody reads.
void plan_without_keys(const FmhaArgs& given, const FmhaLaunch& kernel, int parts, LaunchPlan& plan) {
  FmhaArgs some = given;
  some.k = stand_in(given.k, given.q);
  some.v = stand_in(given.v, given.q);
  if (given.bias && is_empty(*given.bias)) some.bias = stand_in(*given.bias, given.q);
  if (has_sequences(given)) some = as_batch(some);
  plan_batch(some, kernel, parts, plan);
  auto& p = *std::launder(reinterpret_cast<fmha::Params*>(plan.params.data()));
  set_mask(p, has_sequences(given) ? as_batch(given) : given);
}

}  // namespace

void fmha_plan(const FmhaArgs& given, const FmhaLaunch& kernel, LaunchPlan& plan, int parts) {
  if (is_empty(given.k)) [[unlikely]]
    return plan_without_keys(given, kernel, parts, plan);
  if (has_sequences(given)) return plan_batch(as_batch(given), kernel, parts, plan);
  plan_batch(given, kernel, parts, plan);
}

}  // namespace tj::ops
