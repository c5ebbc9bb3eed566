// The items that a block of chunk_o works on: tiles, items, places of their tokens. For every family.
//
// Decides which chunk and heads an item has. Iteration i of a block is its i-th item: a chunk of kChunk tokens and
// kHeads value heads of one key head. A chunk may have fewer tokens than kChunk. The rows of q and k behind its tokens
// reach only rows of o that are not stored. The rows of v behind them may hold anything and are not copied: zeros come
// in their place. Invariant: nothing is read here but the lists.
#pragma once

#include "ops/chunk_o/params.cuh"

namespace tj::ops::chunk_o {

using dev::u32;
using dev::u64;

inline constexpr int kSwizzleRowBytes = 128;
inline constexpr u32 kSwizzleAtomBytes = 1024;
inline constexpr int kMatrixK = 16;
inline constexpr u32 kChunkBlockBytes = kChunk * kSwizzleRowBytes;  ///< of q, k, v or o, a block of columns
inline constexpr u32 kStateBlockBytes = kWidth * kSwizzleRowBytes;  ///< of h

/// The work of a block.
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
  const int items = chunks * params.groups, blocks = params.blocks, block = static_cast<int>(dev::block_index());
  tile.trip_count = block < items ? (items - block + blocks - 1) / blocks : 0;
  return tile;
}
template <class C>
TJ_DEVICE Tile next_tile(const Params&, Tile tile) {
  tile.valid = false;
  return tile;
}

/// The chunk and heads of the i-th item of this block. Heads count fastest: blocks that run together read neighbouring
/// heads of the same tokens.
struct Item {
  int chunk, head;  ///< head: the first of its value heads
};
template <class C>
TJ_DEVICE Item item_at(const Params& params, int i) {
  const int item = static_cast<int>(dev::block_index()) + i * params.blocks, chunk = divided(item, params.by_groups);
  return {chunk, (item - chunk * params.groups) * C::kHeads};
}

/// The place of a chunk's tokens. Its rows of q, k and o begin at `token`. There are fewer than kChunk at a sequence's
/// end, and none or less where lists are wrong: such an item is done like any other, but nothing of it is stored.
// No maximum with 0: ptxas 13.0 makes a predicate that is always true of max(0, min(kChunk, x)) == kChunk. NaN behind a
// sequence's end was then copied (tests/gpu/chunk_o_gpu_test.cpp, H200).
struct Place {
  int token, rows;
};

/// Places of a block's items, one after the other. The numbers that a place is made from are asked for one and two
/// items ahead, so that nothing waits for memory twice an item. Those of the first items are asked for before the
/// number of items is known.
template <class C>
struct Places {
  u32 sequence = 0;          ///< of the next item's chunk
  u32 number = 0;            ///< which of its chunks that is
  u32 begin = 0, chunk = 0;  ///< of this item's sequence; its chunk's number there
  int end = 0;

  TJ_DEVICE explicit Places(const Params& params) {
    if constexpr (C::kVariable) {
      read_indices(params, 0);
      read_lengths(params);
      read_indices(params, 1);
    }
  }
  /// Behind the last item there may be anything: what is read is inside the lists all the same.
  TJ_DEVICE void read_indices(const Params& params, int i) {
    const int* indices =
        params.chunk_indices + 2 * static_cast<long long>(min(item_at<C>(params, i).chunk, params.most_chunks - 1));
    sequence = dev::load_global_u32(indices);
    number = dev::load_global_u32(indices + 1);
  }
  TJ_DEVICE void read_lengths(const Params& params) {
    const u32 known = min(
        sequence, static_cast<u32>(params.last_sequence));  // here, where what was asked for an item ago is looked at
    // Lists may hold anything. Comparisons are without a sign, so that a number below 0 counts as too large. A sequence
    // or a chunk that is not there begins at the last token's end or behind it, where a chunk has no rows.
    const u32 tokens = static_cast<u32>(params.tokens);
    begin = min(dev::load_global_u32(params.begins + known), tokens);
    end = max(0, min(static_cast<int>(dev::load_global_u32(params.ends + known)), params.tokens));
    chunk = min(known == sequence ? number : tokens, (tokens + kChunk - 1) / kChunk);
  }
  TJ_DEVICE Place at(const Params& params, int i) {
    Place place;
    if constexpr (C::kVariable) {
      const u32 token = begin + chunk * kChunk;  // up to 2^31: so are differences
      place.token = static_cast<int>(token);
      place.rows = min(kChunk, static_cast<int>(static_cast<u32>(end) - token));
      read_lengths(params);
      read_indices(params, i + 2);
    } else {
      const int index = item_at<C>(params, i).chunk, sequence_at = divided(index, params.by_seq_chunks),
                in_sequence = index - sequence_at * params.seq_chunks;
      place.token = sequence_at * params.seq_length + in_sequence * kChunk;
      place.rows = min(kChunk, params.seq_length - in_sequence * kChunk);
    }
    return place;
  }
};

}  // namespace tj::ops::chunk_o
