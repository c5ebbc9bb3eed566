// An item's q, k, states and values into shared memory by the copy engine, swizzled as matrix instructions read them;
// and the contexts of whoever copies.
//
// Decides which boxes make a slot. Order, waits and slots come from the emitted unit. Invariant: a body issues the
// copies of its own slot, nothing else.
#pragma once

#include "ops/chunk_o/items.cuh"

namespace tj::ops::chunk_o {

/// Threads that copy read no map.
template <class C>
TJ_DEVICE void prefetch(const TensorMap& map) {
  if constexpr (C::kBulkCopies) dev::prefetch_map(&map);
}

template <class C_>
struct TokenLoader {
  using C = C_;
  const Params& params;
  Places<C> places;
  TJ_DEVICE TokenLoader(const Params& p, int) : params(p), places(p) {
    prefetch<C>(p.q);
    prefetch<C>(p.k);
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
  TJ_DEVICE ValueLoader(const Params& p, int which) : params(p), copy(which), places(p) { prefetch<C>(p.v); }
};
template <class C_>
struct StateLoader {
  using C = C_;
  const Params& params;
  const int copy;
  TJ_DEVICE StateLoader(const Params& p, int which) : params(p), copy(which) { prefetch<C>(p.h); }
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
