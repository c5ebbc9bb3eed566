// Launch parameters of chunk_o; see chunk_o.hpp. On the hot path: allocates nothing.
#include <algorithm>
#include <cmath>
#include <new>

#include "ops/chunk_o/chunk_o.hpp"
#include "ops/chunk_o/params.cuh"
#include "ops/common/tensor_args.hpp"

namespace tj::ops {
namespace {

// Blocks on a device that does not say how many it can run at a time: a few, which do item after item as elsewhere.
constexpr unsigned kUnknownBlocks = 4;

/// Column, token, head.
support::TensorMapDesc token_map(const Tensor& tensor) {
  return tensor_map(tensor, {2, 0, 1, kNoDimension}, {chunk_o::kSwizzleColumns, chunk_o::kChunk});
}
/// Column, row of the chunk, head, chunk: what lies outside a chunk's rows is zero.
support::TensorMapDesc value_map(const Tensor& tensor, std::uint32_t rows) {
  support::TensorMapDesc desc = tensor_map(tensor, {2, 0, 1, kNoDimension}, {chunk_o::kSwizzleColumns, rows});
  desc.dims[3] = desc.dims[1] / chunk_o::kChunk;
  desc.dims[1] = chunk_o::kChunk;
  desc.stride_bytes[3] = desc.stride_bytes[1] * chunk_o::kChunk;
  return desc;
}
/// The contiguous dimension, the other one, head, chunk.
support::TensorMapDesc state_map(const Tensor& tensor) {
  return tensor_map(tensor, {3, 2, 1, 0}, {chunk_o::kSwizzleColumns, chunk_o::kWidth});
}

/// Dimensions of a row, a head and a chunk; a chunk of rows where there is no dimension of chunks.
chunk_o::Source source(const Tensor& tensor, int row, int head, int chunk = -1) {
  const auto stride = [&](int dimension) {
    return static_cast<long long>(tensor.strides[static_cast<std::size_t>(dimension)]);
  };
  return {tensor.data, stride(row), stride(head), chunk < 0 ? chunk_o::kChunk * stride(row) : stride(chunk)};
}

const int* list(const std::optional<Tensor>& tensor) {
  return tensor ? static_cast<const int*>(tensor->data) : nullptr;
}

void add_maps(const ChunkOArgs& args, LaunchPlan& plan) {
  plan.maps[0] = {offsetof(chunk_o::Params, q), token_map(args.q)};
  plan.maps[1] = {offsetof(chunk_o::Params, k), token_map(args.k)};
  plan.maps[2] = {offsetof(chunk_o::Params, v), value_map(args.v_new, chunk_o::kChunk)};
  plan.maps[3] = {offsetof(chunk_o::Params, v_few), value_map(args.v_new, chunk_o::kFewRows)};
  plan.maps[4] = {offsetof(chunk_o::Params, v_one), value_map(args.v_new, 1)};
  plan.maps[5] = {offsetof(chunk_o::Params, h), state_map(args.h)};
  plan.maps[6] = {offsetof(chunk_o::Params, o), token_map(args.o)};
  plan.map_count = 7;
}

void add_sources(const ChunkOArgs& args, chunk_o::Params& p) {
  p.q_rows = source(args.q, 0, 1);
  p.k_rows = source(args.k, 0, 1);
  p.v_rows = source(args.v_new, 0, 1);
  p.h_rows = source(args.h, 2, 1, 0);
}

}  // namespace

void chunk_o_plan(const ChunkOArgs& args, const ChunkOLaunch& kernel, LaunchPlan& plan) {
  static_assert(sizeof(chunk_o::Params) <= LaunchPlan::kMaxOwnBytes);
  auto& p = *new (plan.params.data()) chunk_o::Params{};
  plan.params_bytes = sizeof(chunk_o::Params);
  plan.map_count = 0;
  if (kernel.bulk_copies)
    add_maps(args, plan);
  else
    add_sources(args, p);
  p.o_data = args.o.data;
  p.o_stride_token = args.o.strides[0];
  p.o_stride_head = args.o.strides[1];
  if (args.g_cu) {
    p.gates = static_cast<const float*>(args.g_cu->data);
    p.gates_stride = args.g_cu->strides[0];
  }
  p.tokens = static_cast<int>(args.q.shape[0]);
  p.groups = static_cast<int>(args.o.shape[1]) / kernel.heads * kernel.parts;
  p.by_groups = divisor_of(p.groups);
  p.by_v_heads_per_head = divisor_of(static_cast<int>(args.o.shape[1] / args.q.shape[1]));
  p.chunk_indices = list(args.chunk_indices);
  p.total_chunks = list(args.total_chunks);
  if (args.cu_seqlens) {
    const std::int64_t sequences = args.cu_seqlens->shape[0] - 1;
    p.last_sequence = static_cast<int>(std::max<std::int64_t>(sequences - 1, 0));
    p.begins = list(args.cu_seqlens);
    p.ends = p.begins + (sequences > 0 ? 1 : 0);
    p.most_chunks = static_cast<int>(
        std::min({args.chunk_indices->shape[0], args.h.shape[0], args.v_new.shape[0] / chunk_o::kChunk}));
  } else {
    p.seq_length = static_cast<int>(args.seq_length);
    p.seq_chunks = (p.seq_length + chunk_o::kChunk - 1) / chunk_o::kChunk;
    p.by_seq_chunks = divisor_of(p.seq_chunks);
    p.most_chunks = p.tokens / p.seq_length * p.seq_chunks;
  }
  p.scale = args.scale.value_or(1.0f / std::sqrt(static_cast<float>(chunk_o::kWidth)));
  const auto items = static_cast<unsigned>(p.most_chunks) * static_cast<unsigned>(p.groups);
  plan.limit_sms(args.max_sms);
  plan.blocks = std::max(1u, std::min(items, plan.sm_count == 0 ? kUnknownBlocks : plan.resident_blocks()));
  p.blocks = static_cast<int>(plan.blocks);
}

}  // namespace tj::ops
