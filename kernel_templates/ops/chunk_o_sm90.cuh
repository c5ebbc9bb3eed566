// Output of the gated delta rule's chunks on warpgroup matrix instructions: the bodies of the graph's nodes.
//
// Decides what one node computes for one item of work: a chunk of kChunk tokens and kHeads value heads of one key head, a consumer
// for each. Iteration i of a block is its i-th item. Order, waits, slots and roles come from the emitted unit.
//   o = scale * (e^g (q h^T) + p v), p = (q k^T) e^(g of the row - g of the column) up to the diagonal
// A chunk may have fewer tokens than kChunk. What q and k hold behind them reaches only rows of o that are not stored; rows of v behind
// them may hold anything and are not copied: zeros come in their place.
// Invariant: a body touches registers of its own context and the slots that it is given, and no row of o but those of its tokens.
#pragma once

#include "fragments.cuh"
#include "ops/chunk_o_params.cuh"

namespace tj::ops::chunk_o {

using dev::u32;
using dev::u64;

inline constexpr int kSwizzleRowBytes = 128;
inline constexpr u32 kSwizzleAtomBytes = 1024;
inline constexpr int kMatrixK = 16;
inline constexpr u32 kChunkBlockBytes = kChunk * kSwizzleRowBytes;  ///< of q, k, v or o, a block of columns
inline constexpr u32 kStateBlockBytes = kWidth * kSwizzleRowBytes;  ///< of h

/// All of a block's work.
struct Tile {
  bool valid;
  int trip_count;
};

template <class C>
TJ_DEVICE Tile first_tile(const Params& params) {
  Tile tile;
  tile.valid = true;
  int chunks = params.most_chunks;
  if constexpr (C::kVariable) chunks = max(0, min(chunks, static_cast<int>(dev::load_global_u32(params.total_chunks))));
  const int items = chunks * params.groups, blocks = static_cast<int>(dev::grid_blocks()), block = static_cast<int>(dev::block_index());
  tile.trip_count = block < items ? (items - block + blocks - 1) / blocks : 0;
  return tile;
}
template <class C>
TJ_DEVICE Tile next_tile(const Params&, Tile tile) {
  tile.valid = false;
  return tile;
}

/// Which chunk and heads the i-th item of this block has. Heads fastest: blocks that run together read neighbouring heads of the same tokens.
struct Item {
  int chunk, head;  ///< head: the first of its value heads
};
template <class C>
TJ_DEVICE Item item_at(const Params& params, int i) {
  const int item = static_cast<int>(dev::block_index()) + i * static_cast<int>(dev::grid_blocks()), chunk = divided(item, params.by_groups);
  return {chunk, (item - chunk * params.groups) * C::kHeads};
}

/// Where a chunk's tokens lie. Rows of q, k and o from `token` on; fewer than kChunk at a sequence's end, none or less where lists are wrong.
// No maximum with 0: of max(0, min(kChunk, x)) == kChunk ptxas 13.0 makes a predicate that was always true, and NaN behind a sequence's
// end was copied (tests/gpu/chunk_o_gpu_test.cpp, H200).
struct Place {
  int token, rows;
};

/// Places of a block's items, one after the other. What a place is read from is asked for one and two items ahead, so that nothing waits
/// for memory twice an item; for the first ones before it is known how many there are.
template <class C>
struct Places {
  u32 sequence = 0;                  ///< of the next item's chunk
  int number = 0;                    ///< which of its chunks that is
  int begin = 0, end = 0, chunk = 0; ///< of this item's sequence; its chunk's number there

  TJ_DEVICE explicit Places(const Params& params) {
    if constexpr (C::kVariable) {
      read_indices(params, 0);
      read_lengths(params);
      read_indices(params, 1);
    }
  }
  /// Behind the last item there may be anything: what is read is inside the lists all the same.
  TJ_DEVICE void read_indices(const Params& params, int i) {
    const int* indices = params.chunk_indices + 2 * static_cast<long long>(min(item_at<C>(params, i).chunk, params.most_chunks - 1));
    sequence = dev::load_global_u32(indices);
    number = static_cast<int>(dev::load_global_u32(indices + 1));
  }
  TJ_DEVICE void read_lengths(const Params& params) {
    const u32 known = min(sequence, static_cast<u32>(params.last_sequence));  // here, where what was asked for an item ago is looked at
    // Where lists are wrong, a place may be any of the tensors', or behind them, but not before.
    begin = max(0, min(static_cast<int>(dev::load_global_u32(params.begins + known)), params.tokens));
    end = static_cast<int>(dev::load_global_u32(params.ends + known));
    chunk = max(0, min(number, params.tokens / kChunk));
  }
  TJ_DEVICE Place at(const Params& params, int i) {
    Place place;
    if constexpr (C::kVariable) {
      place.token = begin + chunk * kChunk;
      place.rows = min(kChunk, min(end, params.tokens) - place.token);
      read_lengths(params);
      read_indices(params, i + 2);
    } else {
      const int index = item_at<C>(params, i).chunk, sequence_at = divided(index, params.by_seq_chunks), in_sequence = index - sequence_at * params.seq_chunks;
      place.token = sequence_at * params.seq_length + in_sequence * kChunk;
      place.rows = min(kChunk, params.seq_length - in_sequence * kChunk);
    }
    return place;
  }
};

// ---- loads ----------------------------------------------------------------------------------------------------------
template <class C_>
struct TokenLoader {
  using C = C_;
  const Params& params;
  Places<C> places;
  TJ_DEVICE TokenLoader(const Params& p, int) : params(p), places(p) {
    dev::prefetch_map(&p.q);
    dev::prefetch_map(&p.k);
  }
};
/// One value head's, both read by this item alone. To mark their lines of L2 as the first to go costs 6 to 9% (16/32 heads, 8192 and 32768
/// tokens, H200): what one of a row's two boxes brings along for the other may be gone before that comes.
template <class C_>
struct ValueLoader {
  using C = C_;
  const Params& params;
  const int copy;
  Places<C> places;
  TJ_DEVICE ValueLoader(const Params& p, int which) : params(p), copy(which), places(p) { dev::prefetch_map(&p.v); }
};
template <class C_>
struct StateLoader {
  using C = C_;
  const Params& params;
  const int copy;
  TJ_DEVICE StateLoader(const Params& p, int which) : params(p), copy(which) { dev::prefetch_map(&p.h); }
};

/// q, then k.
template <class C>
TJ_DEVICE void load_qk(TokenLoader<C>& loader, const Tile&, int i, u32 slot, u32 full) {
  const Params& params = loader.params;
  const int token = loader.places.at(params, i).token, head = divided(item_at<C>(params, i).head, params.by_v_heads_per_head);
#pragma unroll 1  // one thread with few registers, and time
  for (int d = 0; d < kWidth; d += kSwizzleColumns, slot += kChunkBlockBytes) {
    dev::copy_box_4d(slot, &params.q, full, d, token, head, 0);
    dev::copy_box_4d(slot + 2 * kChunkBlockBytes, &params.k, full, d, token, head, 0);
  }
}

template <class C>
TJ_DEVICE void load_h(StateLoader<C>& loader, const Tile&, int i, u32 slot, u32 full) {
  const Item item = item_at<C>(loader.params, i);
#pragma unroll 1
  for (int d = 0; d < kWidth; d += kSwizzleColumns, slot += kStateBlockBytes)
    dev::copy_box_4d(slot, &loader.params.h, full, d, 0, item.head + loader.copy, item.chunk);
}

/// Rows of v that no token has are asked for outside the chunk, where the copy engine finds zeros.
template <class C>
TJ_DEVICE void load_v_rows(const ValueLoader<C>& loader, const Item& item, int rows, int d, u32 slot, u32 full) {
  const int head = item.head + loader.copy;
#pragma unroll 1
  for (int row = 0; row < kChunk; row += kFewRows, slot += kFewRows * kSwizzleRowBytes) {
    if (row + kFewRows <= rows || row >= rows) {
      dev::copy_box_4d(slot, &loader.params.v_few, full, d, row < rows ? row : kChunk, head, item.chunk);
    } else {
#pragma unroll 1
      for (int one = 0; one < kFewRows; ++one)
        dev::copy_box_4d(slot + one * kSwizzleRowBytes, &loader.params.v_one, full, d, row + one < rows ? row + one : kChunk, head, item.chunk);
    }
  }
}
template <class C>
TJ_DEVICE void load_v(ValueLoader<C>& loader, const Tile&, int i, u32 slot, u32 full) {
  const int rows = loader.places.at(loader.params, i).rows;
  const Item item = item_at<C>(loader.params, i);
#pragma unroll 1
  for (int d = 0; d < kWidth; d += kSwizzleColumns, slot += kChunkBlockBytes) {
    if (rows == kChunk) dev::copy_box_4d(slot, &loader.params.v, full, d, 0, item.head + loader.copy, item.chunk);
    else load_v_rows(loader, item, rows, d, slot, full);
  }
}

// ---- one consumer's chain -------------------------------------------------------------------------------------------
/// One value head. A thread holds rows row0 and row0 + 8, columns 8j + 2(lane % 4) + {0, 1}.
template <class C_>
struct Consumer {
  using C = C_;
  const Params& params;
  const int copy;           ///< which of the item's value heads
  const int row0, column0;  ///< of this thread's fragments, inside the chunk and 8 columns
  Places<C> places;
  Place place;              ///< of this item
  float gates[2];           ///< of tokens lane and lane + 32
  float decay[2];           ///< e^g of this thread's rows
  float scores[kChunk / 2];
  u32 weights[kChunk / 4];
  float output[kWidth / 2];
  TJ_DEVICE Consumer(const Params& p, int which)
      : params(p), copy(which),
        row0(static_cast<int>((dev::warp_index() & 3u) * 16u + dev::lane_index() / 4u)),
        column0(static_cast<int>(dev::lane_index() & 3u) * 2), places(p) {}
};

/// Where the item is, and its gates: asked for here, looked at by weigh().
template <class C>
TJ_DEVICE void fetch(Consumer<C>& consumer, const Tile&, int i) {
  const Params& params = consumer.params;
  const Place place = consumer.place = consumer.places.at(params, i);
  if constexpr (C::kGates) {
    const int lane = static_cast<int>(dev::lane_index());
    const float* gates = params.gates + (place.token + lane) * params.gates_stride + item_at<C>(params, i).head + consumer.copy;
    consumer.gates[0] = lane < place.rows ? dev::load_global(gates) : 0.0f;
    consumer.gates[1] = lane + 32 < place.rows ? dev::load_global(gates + 32 * params.gates_stride) : 0.0f;
  }
}

/// scores = q k^T: kChunk x kChunk.
template <class C>
TJ_DEVICE void qk(Consumer<C>& consumer, const Tile&, int, u32 tokens) {
  dev::hold(consumer.scores);
  const u64 left = dev::matrix_operand(tokens, 16, kSwizzleAtomBytes), right = dev::operand_advance(left, 2 * kChunkBlockBytes);
  constexpr int kSteps = kSwizzleColumns / kMatrixK, kStepBytes = kMatrixK * 2;
#pragma unroll
  for (int block = 0; block < kWidth / kSwizzleColumns; ++block)
    dev::matrix_multiply<dev::MatrixSteps<kSteps, kStepBytes, kStepBytes, 0>>(dev::Bf16{}, consumer.scores, dev::operand_advance(left, block * kChunkBlockBytes),
                                                                              dev::operand_advance(right, block * kChunkBlockBytes), block != 0);
}
template <class C>
TJ_DEVICE void qk_done(Consumer<C>& consumer) {
  dev::hold(consumer.scores);
}

/// output = q h^T: kChunk x kWidth. h is stored with K contiguous, or with V.
template <class C>
TJ_DEVICE void qh(Consumer<C>& consumer, const Tile&, int, u32 tokens, u32 h) {
  dev::hold(consumer.output);
  constexpr int kSteps = kSwizzleColumns / kMatrixK, kStepBytes = kMatrixK * 2;
  constexpr int kRightStep = C::kStateMn ? kMatrixK * kSwizzleRowBytes : kStepBytes;
  constexpr u32 kRightBlock = C::kStateMn ? kSwizzleColumns * kSwizzleRowBytes : kStateBlockBytes;  // to the next kSwizzleColumns of K
  const u64 left = dev::matrix_operand(tokens, 16, kSwizzleAtomBytes), right = dev::matrix_operand(h, C::kStateMn ? kStateBlockBytes : 16, kSwizzleAtomBytes);
#pragma unroll
  for (int block = 0; block < kWidth / kSwizzleColumns; ++block)
    dev::matrix_multiply<dev::MatrixSteps<kSteps, kStepBytes, kRightStep, C::kStateMn ? dev::kRightMn : 0>>(
        dev::Bf16{}, consumer.output, dev::operand_advance(left, block * kChunkBlockBytes), dev::operand_advance(right, block * kRightBlock), block != 0);
}
template <class C>
TJ_DEVICE void qh_done(Consumer<C>& consumer) {
  dev::hold(consumer.output);
}

/// weights = scores, faded from each token to the row's, of tokens up to the row's. Above the diagonal the fading may be infinite: a
/// choice, not a factor, leaves it out.
template <class C>
TJ_DEVICE void weigh(Consumer<C>& consumer, const Tile&, int) {
  constexpr float kLog2E = 1.44269504088896f;
  float of_row[2] = {};
  if constexpr (C::kGates) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // all rows of a warp are in one half of the chunk
      of_row[half] = dev::shuffle_from(consumer.row0 < 32 ? consumer.gates[0] : consumer.gates[1], (consumer.row0 + 8 * half) % 32);
      consumer.decay[half] = dev::exp2_approx(of_row[half] * kLog2E);
    }
  }
#pragma unroll
  for (int j = 0; j < kChunk / 8; ++j) {
    float gate[2] = {};
    if constexpr (C::kGates) {
#pragma unroll
      for (int e = 0; e < 2; ++e) gate[e] = dev::shuffle_from(consumer.gates[j / 4], 8 * (j % 4) + consumer.column0 + e);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float weight[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float value = consumer.scores[4 * j + 2 * half + e];
        if constexpr (C::kGates) value *= dev::exp2_approx((of_row[half] - gate[e]) * kLog2E);
        weight[e] = 8 * j + consumer.column0 + e <= consumer.row0 + 8 * half ? value : 0.0f;
      }
      consumer.weights[2 * j + half] = dev::pack(dev::Bf16{}, weight[0], weight[1]);
    }
  }
}

/// What the state before the chunk gives, faded to each row's token.
template <class C>
TJ_DEVICE void fade(Consumer<C>& consumer, const Tile&, int) {
#pragma unroll
  for (int j = 0; j < kWidth / 2; ++j) consumer.output[j] *= consumer.decay[j / 2 % 2];
}

/// output += weights v: kChunk x kWidth.
template <class C>
TJ_DEVICE void pv(Consumer<C>& consumer, const Tile&, int, u32 v) {
  dev::hold(consumer.output);
  dev::hold(consumer.weights);
  const u64 right = dev::matrix_operand(v, kChunkBlockBytes, kSwizzleAtomBytes);
  dev::matrix_multiply<dev::MatrixSteps<kChunk / kMatrixK, 0, kMatrixK * kSwizzleRowBytes, dev::kRightMn>>(dev::Bf16{}, consumer.output, consumer.weights, right, true);
}
template <class C>
TJ_DEVICE void pv_done(Consumer<C>& consumer) {
  dev::hold(consumer.output);
  dev::hold(consumer.weights);
}

// ---- the result -----------------------------------------------------------------------------------------------------
/// The item's rows, rounded: a whole chunk into shared memory as the copy engine wants it; of others the rows that a token has straight to
/// memory, as what lies behind them belongs to another sequence.
template <class C>
TJ_DEVICE void stage_rows(Consumer<C>& consumer, const Tile&, int i, u32 slot) {
  const Params& params = consumer.params;
  u32 words[2][kWidth / 8];
#pragma unroll
  for (int j = 0; j < kWidth / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) words[half][j] = dev::pack(dev::Bf16{}, consumer.output[4 * j + 2 * half] * params.scale, consumer.output[4 * j + 2 * half + 1] * params.scale);
  }
  const int lane = static_cast<int>(dev::lane_index());
  if (consumer.place.rows == kChunk) {
    const int row = consumer.row0 - lane / 4 + lane % 16;
#pragma unroll
    for (int pair = 0; pair < kWidth / 16; ++pair) {  // two groups of 8 columns, both halves of the rows
      const int group = 2 * pair + lane / 16;
      const u32 address = slot + (group / 8 * kChunk + row) * kSwizzleRowBytes + ((group % 8) ^ (row % 8)) * 16;
      dev::store_matrices(address, {words[0][2 * pair], words[1][2 * pair], words[0][2 * pair + 1], words[1][2 * pair + 1]});
    }
    return;
  }
  const int head = item_at<C>(params, i).head + consumer.copy;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = consumer.row0 + 8 * half;
    unsigned short* to = static_cast<unsigned short*>(params.o_data) + (consumer.place.token + row) * params.o_stride_token + head * params.o_stride_head + consumer.column0;
    if (row < consumer.place.rows) {
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j) dev::store_global(to + 8 * j, words[half][j]);
    }
  }
}

/// Brings to o what a consumer has left in shared memory.
template <class C_>
struct Writer {
  using C = C_;
  const Params& params;
  const int copy;  ///< the consumer's
  Places<C> places;
  TJ_DEVICE Writer(const Params& p, int which) : params(p), copy(which), places(p) { dev::prefetch_map(&p.o); }
};

/// A whole chunk; of others nothing is in shared memory.
template <class C>
TJ_DEVICE void put_chunk(Writer<C>& writer, const Tile&, int i, u32 slot) {
  const Place place = writer.places.at(writer.params, i);
  const int head = item_at<C>(writer.params, i).head + writer.copy;
  if (place.rows < kChunk) return;
#pragma unroll 1
  for (int d = 0; d < kWidth; d += kSwizzleColumns, slot += kChunkBlockBytes) dev::store_box_4d(&writer.params.o, slot, d, place.token, head, 0);
}

}  // namespace tj::ops::chunk_o
