// See sequences.hpp. On the hot path, but for the check of lists: allocates nothing.
#include "ops/fmha/sequences.hpp"

#include <algorithm>
#include <string>

#include "ops/common/tensor_args.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/fmha/fields.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

const int* list(const std::optional<Tensor>& tensor) {
  return tensor ? static_cast<const int*>(tensor->data) : nullptr;
}

/// Dimensions of another order, or a new one of size 1.
constexpr int kOne = -1;
Tensor turned(const Tensor& tensor, std::initializer_list<int> dimensions) {
  Tensor result = tensor;
  result.rank = 0;
  for (const int from : dimensions) {
    const auto to = static_cast<std::size_t>(result.rank++);
    result.shape[to] = from == kOne ? 1 : tensor.shape[static_cast<std::size_t>(from)];
    result.strides[to] = from == kOne ? 0 : tensor.strides[static_cast<std::size_t>(from)];
  }
  return result;
}
Tensor rows_as_batch(const Tensor& tensor) { return turned(tensor, {kOne, 1, 0, 2}); }
Tensor keys_as_batch(const Tensor& tensor) {
  return tensor.rank == 4 ? turned(tensor, {0, 2, 1, 3}) : rows_as_batch(tensor);
}

}  // namespace

FmhaArgs as_batch(const FmhaArgs& args) {
  FmhaArgs batch = args;
  batch.q = rows_as_batch(args.q);
  batch.k = keys_as_batch(args.k);
  batch.v = keys_as_batch(args.v);
  batch.o = rows_as_batch(args.o);
  if (args.lse) batch.lse = turned(*args.lse, {kOne, 0, 1});
  return batch;
}

void set_sequences(FmhaConfig& config, const FmhaArgs& args) {
  config.varlen = has_sequences(args);
  config.page_size = args.block_table ? fmha_page_kind(args.k.shape[1]) : 0;
}

void set_sequences(fmha::Params& params, const FmhaArgs& args) {
  params.cu_seqlens_q = list(args.cu_seqlens_q);
  params.cu_seqlens_k = list(args.cu_seqlens_k);
  params.seqused_k = list(args.seqused_k);
  params.sequences = static_cast<int>(fmha_sequences(args));
  params.top_left = args.top_left ? 1 : 0;
  if (!args.block_table) return;
  params.block_table = list(args.block_table);
  params.table_stride = stride(*args.block_table, 0);
  params.table_pages = static_cast<int>(args.block_table->shape[1]);
  params.pages = static_cast<int>(args.k.shape[0]);
  params.page_size = static_cast<int>(args.k.shape[2]);
  params.by_page = divisor_of(params.page_size);
  params.k_page_rows = static_cast<int>(page_rows_apart(args.k));
  params.v_page_rows = static_cast<int>(page_rows_apart(args.v));
}

std::int64_t page_rows_apart(const Tensor& pages) {
  if (pages.shape[0] == 1) return pages.shape[2];
  return pages.shape[2] == 1 ? 1 : pages.strides[0] / pages.strides[2];
}

Tensor pages_as_rows(const Tensor& pages) {
  Tensor rows = pages;
  rows.strides[2] = pages.shape[2] == 1 ? pages.strides[0] : pages.strides[2];
  rows.shape[2] = (pages.shape[0] - 1) * page_rows_apart(pages) + pages.shape[2];
  rows.shape[0] = 1;
  return rows;
}

std::int64_t fmha_row_blocks(std::int64_t rows, std::int64_t sequences, int rows_per_block) {
  return rows / rows_per_block + sequences;
}

support::TensorMapDesc sequence_map(const Tensor& tensor, int rows) {
  support::TensorMapDesc desc =
      tensor_map(tensor, {3, 2, 1, kNoDimension},
                 {static_cast<std::uint32_t>(fmha::kSwizzleColumns), static_cast<std::uint32_t>(rows)});
  end_with_rows(desc);
  return desc;
}

}  // namespace tj::ops
