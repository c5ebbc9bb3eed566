// The one parameter of an fmha kernel, by value: written by the host, read by the device.
#pragma once

#include "divisor.cuh"
#include "ops/fmha/mask.cuh"
#include "ops/fmha/widths.cuh"
#include "types.cuh"

namespace tj::ops::fmha {

inline constexpr int kRowsPerConsumer = 64;     ///< query rows of one consumer role
inline constexpr int kRowsPerTensorTile = 128;  ///< over tensor memory: query rows of a sub-tile, one a lane
inline constexpr int kMaxWeightParts = 4;       ///< in which the weights of a block of keys go to their product
inline constexpr int kPolynomialOf = 32;        ///< of so many exponentials, some are done by arithmetic

/// Rows of a tensor [B, H, S, D] for threads that copy them; strides in elements, those of a dimension of size 1 are 0.
struct Source {
  const void* data;
  long long stride_batch, stride_head, stride_row;
};

struct Params {
  TensorMap q, k, v;              ///< rank 4: D, S, H, B; with kVarlen as sequences.cuh says
  TensorMap o_boxes;              ///< the same of o, where tiles leave through shared memory
  Source q_rows, k_rows, v_rows;  ///< the same tensors, for threads that copy rows
  void* o;                        ///< strides below in elements; the last dimension is contiguous
  float* lse;                     ///< may be null; strides in elements
  long long o_stride_batch, o_stride_head, o_stride_row;
  long long lse_stride_batch, lse_stride_head, lse_stride_row;
  int batches, heads, heads_per_kv_head;
  int queries, keys;
  int facing, left, right;  ///< of the mask, mask.cuh
  int row_blocks;           ///< query tiles of one head, of all sequences
  int section_heads;  ///< heads whose tiles are mixed, the longest of all first; then come those of the next heads
  int last_section;   ///< the number of the section that has all further heads
  int tiles;          ///< row_blocks * heads * batches
  int wide_stores;    ///< 16-byte stores to o are aligned
  float scale;        ///< |scale| of the scores
  float scale_log2;   ///< scale * log2(e), never 0
  float sign;         ///< -1 for a negative scale, else 1
  // Scores that are changed first (score.cuh). Changed scores have the scale above: softcap's cap; 1 with a bias
  // or a text that makes scores, and with slopes under a general scale.
  float cap_powers;           ///< what makes q k^T twice the powers of two of the argument of tanh
  float cap_small;            ///< q k^T up to this in size have their tanh by the numbers below; below 0: none has
  float cap_factors[4];       ///< of q k^T to the powers 1, 3, 5, 7
  float alibi_scale;          ///< of a score before its slope, its bias or a text
  float slope_units;          ///< what makes a slope one of numbers before their scale
  const float* alibi_slopes;  ///< strides in elements
  const float* sinks;
  long long alibi_stride_batch, alibi_stride_head, sinks_stride;
  // Read by kernels with kBias: a number for each score. Strides are in elements, 0 of what is the same for all.
  const void* bias;
  long long bias_stride_batch, bias_stride_head, bias_stride_query;
  int bias_stride_key, last_bias_query, last_bias_key;  ///< places beyond the last count as it
  // Read by a user's texts (mods.cuh).
  unsigned last_mod_param;
  const unsigned* mod_params;
  // Read by kernels with kVarlen (sequences.cuh). Their batch is one: queries and keys are the rows of all sequences.
  const int *cu_seqlens_q, *cu_seqlens_k;  ///< where each begins; one entry more than there are
  const int* seqused_k;                    ///< keys of each that count; may be null
  int sequences;
  int top_left;  ///< query r stands at key r
  // Read by kernels with kPageRows. Their `keys` are the most that a sequence can have.
  const int* block_table;
  long long table_stride;        ///< entries from a sequence's first to the next one's
  int table_pages, pages;        ///< of a sequence; of all
  int k_page_rows, v_page_rows;  ///< rows from a page to the next, as the maps count them
  Divisor by_page;
  int page_size;
  // Read by kernels with kPacked (packed.cuh). Their `heads` are those of keys.
  int group, group_shift;      ///< query heads for each of keys, and the power of two that they are rounded up to
  int parts;                   ///< of the keys of a tile, at most
  long long part_o, part_lse;  ///< elements from a part's outputs to the next one's
};

}  // namespace tj::ops::fmha
