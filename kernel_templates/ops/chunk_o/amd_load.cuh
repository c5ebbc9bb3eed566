// An item's q, k, states and values from memory through registers into shared memory. Included by the waves' node
// bodies.
//
// Decides which thread brings which piece, and where it goes: q, k and h lie as rows with K in order, v as columns with
// its tokens in the order in which sums become an operand (row_at). Order, barriers, slots and when loads begin come
// from the emitted unit. Invariant: nothing outside the tensors is read.
#pragma once

#include "ops/chunk_o/items.cuh"
#include "pieces.cuh"

namespace tj::ops::chunk_o {

inline constexpr int kMatrix = 16;  ///< rows, columns and K of a product
inline constexpr int kPiece = 8;    ///< elements of 16 bytes
/// Columns of V that an item has, the rows of its states: a head has kParts items.
template <class C>
inline constexpr int kColumns = kWidth / C::kParts;
inline constexpr int kRowWaves = kChunk / kMatrix;  ///< each has sixteen queries
/// Columns of V that a wave has, of the item's.
template <class C>
inline constexpr int kWaveColumns = kColumns<C> / (C::kWarps / kRowWaves);
/// Between rows there is room, so that the same place of eight rows lies in different banks.
template <class C>
inline constexpr u32 kDepthStride = kWidth * 2 + C::kRowPadding;
template <class C>
inline constexpr u32 kValueStride = kChunk * 2 + C::kRowPadding;
template <class C>
inline constexpr u32 kTokensBytes = kChunk * kDepthStride<C>;  ///< of q, or of k

/// The item with its part of a head's columns.
struct Piece {
  int chunk, head, column;
};
template <class C>
TJ_DEVICE Piece piece_at(const Params& params, int i) {
  const Item item = item_at<C>(params, i);
  return {item.chunk, item.head / C::kParts, item.head % C::kParts * kColumns<C>};
}

/// The pieces of a block of rows that a thread brings: neighbours have neighbouring pieces of a row. Its rows are
/// kApart apart, or lie below each other where they become columns.
template <class C, int Rows, int Columns, bool Below>
struct Share {
  static constexpr u32 kPieces = Columns / kPiece, kThreads = C::kWarps * dev::kWave;
  static constexpr int kCount = Rows * Columns / kPiece / static_cast<int>(kThreads),
                       kApart = Below ? 1 : static_cast<int>(kThreads / kPieces);
  static_assert(kThreads % kPieces == 0 && kCount >= 1, "whole rows at once");
  u32 piece, row;  ///< row: the first
  TJ_DEVICE Share()
      : piece(dev::thread_index() % kPieces),
        row(dev::thread_index() / kPieces * static_cast<u32>(Below ? kCount : 1)) {}
};
template <class C>
using TokenShare = Share<C, kChunk, kWidth, false>;
template <class C>
using ValueShare = Share<C, kChunk, kColumns<C>, true>;
/// Rows of h's matrices are V's, or K's.
template <class C>
using StateShare = Share<C, C::kStateMn ? kWidth : kColumns<C>, C::kStateMn ? kColumns<C> : kWidth, C::kStateMn>;

/// The same number, but what follows from it is computed anew for each item. The compiler would keep it in registers,
/// which waves of 32 lanes lack.
TJ_DEVICE int anew(u32 value) {
  int held = static_cast<int>(value);
  dev::hold(held);
  return held;
}

/// The pieces of a head's tokens that a thread brings. Where a row has no token, another token is read in its place:
/// what is made of it reaches only rows of o that are not stored.
template <class C>
TJ_DEVICE void read_tokens(const Source& source, const Place& place, int head, u32 (&words)[TokenShare<C>::kCount][4]) {
  using S = TokenShare<C>;
  const S share;
  const unsigned short* const from =
      static_cast<const unsigned short*>(source.data) + head * source.stride_head + share.piece * kPiece;
  const int row = anew(share.row), first = place.rows > 0 ? place.token : 0, last = max(place.rows, 1) - 1;
#pragma unroll
  for (int n = 0; n < S::kCount; ++n)
    dev::load_global(from + (first + min(row + n * S::kApart, last)) * source.stride_row, words[n]);
}

// ---- loads ----------------------------------------------------------------------------------------------------------
/// Pieces that are on their way. load_qk() is first to come to an item: load_v() takes its place from there.
template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  Places<C> places;
  int rows = 0;  ///< of the item, that a token has
  u32 q[TokenShare<C>::kCount][4], k[TokenShare<C>::kCount][4], h[StateShare<C>::kCount][4],
      v[ValueShare<C>::kCount][4];
  TJ_DEVICE Loader(const Params& p, int) : params(p), places(p) {}
};

template <class C>
TJ_DEVICE void load_qk(Loader<C>& loader, const Tile&, int i) {
  const Params& params = loader.params;
  const Place place = loader.places.at(params, i);
  loader.rows = place.rows;
  const int head = divided(piece_at<C>(params, i).head, params.by_v_heads_per_head);
  read_tokens<C>(params.q_rows, place, head, loader.q);
  read_tokens<C>(params.k_rows, place, head, loader.k);
}
template <class C>
TJ_DEVICE void load_h(Loader<C>& loader, const Tile&, int i) {
  using S = StateShare<C>;
  const S share;
  const Source& source = loader.params.h_rows;
  const Piece piece = piece_at<C>(loader.params, i);
  const unsigned short* const from = static_cast<const unsigned short*>(source.data) +
                                     piece.chunk * source.stride_chunk + piece.head * source.stride_head +
                                     (C::kStateMn ? piece.column : 0) + share.piece * kPiece;
  const int first = anew(share.row) + (C::kStateMn ? 0 : piece.column);
#pragma unroll
  for (int n = 0; n < S::kCount; ++n) dev::load_global(from + (first + n * S::kApart) * source.stride_row, loader.h[n]);
}
/// Zeros where a row has no token: weights of 0 do not take NaN away.
template <class C>
TJ_DEVICE void load_v(Loader<C>& loader, const Tile&, int i) {
  using S = ValueShare<C>;
  const S share;
  const Source& source = loader.params.v_rows;
  const Piece piece = piece_at<C>(loader.params, i);
  const unsigned short* const from = static_cast<const unsigned short*>(source.data) +
                                     static_cast<long long>(piece.chunk) * kChunk * source.stride_row +
                                     piece.head * source.stride_head + piece.column;
  // A thread's places are as many as a power of two, from a multiple of that on: no bit of the first meets one of those
  // beyond it.
  const int first = anew(dev::row_at(share.row));
  const long long mine = first * source.stride_row + share.piece * kPiece;
#pragma unroll
  for (int n = 0; n < S::kCount; ++n) {
    const int beyond = static_cast<int>(dev::row_at(static_cast<u32>(n)));
    const bool there = first + beyond < loader.rows;
    dev::load_global(from + beyond * source.stride_row + mine, loader.v[n]);
#pragma unroll
    for (int w = 0; w < 4; ++w) loader.v[n][w] = there ? loader.v[n][w] : 0u;
  }
}

/// A thread's pieces as rows of a slot.
template <class C, class S>
TJ_DEVICE void put_rows(const S& share, const u32 (&words)[S::kCount][4], u32 slot) {
#pragma unroll
  for (int n = 0; n < S::kCount; ++n)
    dev::put_piece<C::kRowPadding>(
        slot + (share.row + static_cast<u32>(n * S::kApart)) * kDepthStride<C> + share.piece * 16, words[n]);
}
/// The address of sixteen elements in sixteen columns of `Depth`. Blocks change places alike in all waves' columns.
template <class C, int Depth>
TJ_DEVICE u32 block_place(u32 slot, u32 stride, u32 sixteen, u32 block) {
  constexpr int kSixteens = kWaveColumns<C> / kMatrix, kBlocks = Depth / kMatrix;
  return dev::column_place < kSixteens<kBlocks ? kSixteens : kBlocks>(slot, stride, sixteen, block);
}
/// The pieces become columns of `Depth` elements each.
template <class C, int Depth, class S>
TJ_DEVICE void put_as_columns(const S& share, const u32 (&words)[S::kCount][4], u32 stride, u32 slot) {
  const u32 column = share.piece * kPiece;
  dev::put_columns<C::kRowPadding>(block_place<C, Depth>(slot, stride, column / kMatrix, share.row / kMatrix) +
                                       column % kMatrix * stride + share.row % kMatrix * 2,
                                   stride, words);
}
/// q, then k.
template <class C>
TJ_DEVICE void put_qk(Loader<C>& loader, const Tile&, int, u32 slot) {
  const TokenShare<C> share;
  put_rows<C>(share, loader.q, slot);
  put_rows<C>(share, loader.k, slot + kTokensBytes<C>);
}
template <class C>
TJ_DEVICE void put_h(Loader<C>& loader, const Tile&, int, u32 slot) {
  const StateShare<C> share;
  if constexpr (C::kStateMn)
    put_as_columns<C, kWidth>(share, loader.h, kDepthStride<C>, slot);
  else
    put_rows<C>(share, loader.h, slot);
}
template <class C>
TJ_DEVICE void put_v(Loader<C>& loader, const Tile&, int, u32 slot) {
  put_as_columns<C, kChunk>(ValueShare<C>(), loader.v, kValueStride<C>, slot);
}

}  // namespace tj::ops::chunk_o
