// The items that a block of chunk_o works on, and how they come to shared memory: tiles, items, places of their tokens,
// and the bodies that load. For every family that has a copy engine.
//
// Decides which chunk and heads an item has, and which boxes make a slot. Iteration i of a block is its i-th item: a
// chunk of kChunk tokens and kHeads value heads of one key head. A chunk may have fewer tokens than kChunk. The rows of
// q and k behind its tokens reach only rows of o that are not stored. The rows of v behind them may hold anything and
// are not copied: zeros come in their place. Invariant: a body issues the copies of its own slot, nothing else.
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
  const int items = chunks * params.groups, blocks = static_cast<int>(dev::grid_blocks()),
            block = static_cast<int>(dev::block_index());
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
  const int item = static_cast<int>(dev::block_index()) + i * static_cast<int>(dev::grid_blocks()),
            chunk = divided(item, params.by_groups);
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
/// One value head's, both read by this item alone. Marking their lines of L2 as the first to go costs 6 to 9% (16/32
/// heads, 8192 and 32768 tokens, H200). One of a row's two boxes brings lines along for the other, which may then be
/// gone before that one comes.
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
  const int token = loader.places.at(params, i).token,
            head = divided(item_at<C>(params, i).head, params.by_v_heads_per_head);
#pragma unroll 1  // one thread with few registers, and time
  for (int d = 0; d < kWidth; d += kSwizzleColumns, slot += kChunkBlockBytes) {
    dev::copy_box_4d(slot, &params.q, full, d, token, head, 0);
    dev::copy_box_4d(slot + 2 * kChunkBlockBytes, &params.k, full, d, token, head, 0);
  }
}

template <class C, class Hint = dev::NoHint>
TJ_DEVICE void load_h(StateLoader<C>& loader, const Tile&, int i, u32 slot, u32 full, Hint hint = {}) {
  const Item item = item_at<C>(loader.params, i);
#pragma unroll 1
  for (int d = 0; d < kWidth; d += kSwizzleColumns, slot += kStateBlockBytes)
    dev::copy_box_4d(slot, &loader.params.h, full, d, 0, item.head + loader.copy, item.chunk, hint);
}

/// Rows of v that no token has are asked for outside the chunk, where the copy engine finds zeros.
template <class C, class Hint>
TJ_DEVICE void load_v_rows(const ValueLoader<C>& loader, const Item& item, int rows, int d, u32 slot, u32 full,
                           Hint hint) {
  const int head = item.head + loader.copy;
#pragma unroll 1
  for (int row = 0; row < kChunk; row += kFewRows, slot += kFewRows * kSwizzleRowBytes) {
    if (row + kFewRows <= rows || row >= rows) {
      dev::copy_box_4d(slot, &loader.params.v_few, full, d, row < rows ? row : kChunk, head, item.chunk, hint);
    } else {
#pragma unroll 1
      for (int one = 0; one < kFewRows; ++one)
        dev::copy_box_4d(slot + one * kSwizzleRowBytes, &loader.params.v_one, full, d,
                         row + one < rows ? row + one : kChunk, head, item.chunk, hint);
    }
  }
}
template <class C, class Hint = dev::NoHint>
TJ_DEVICE void load_v(ValueLoader<C>& loader, const Tile&, int i, u32 slot, u32 full, Hint hint = {}) {
  const int rows = loader.places.at(loader.params, i).rows;
  const Item item = item_at<C>(loader.params, i);
#pragma unroll 1
  for (int d = 0; d < kWidth; d += kSwizzleColumns, slot += kChunkBlockBytes) {
    if (rows == kChunk)
      dev::copy_box_4d(slot, &loader.params.v, full, d, 0, item.head + loader.copy, item.chunk, hint);
    else
      load_v_rows(loader, item, rows, d, slot, full, hint);
  }
}

}  // namespace tj::ops::chunk_o
