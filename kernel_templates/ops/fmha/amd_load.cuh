// Keys and values from global memory through registers into shared memory, keys by rows, values by columns. Included by
// the waves' node bodies.
//
// Decides which thread brings which piece, and where it goes. Order, waits, slots and when loads begin come from the
// emitted unit. Invariant: what a loading body keeps is in registers of its own context.
#pragma once

#include "ops/fmha/softmax.cuh"
#include "pieces.cuh"

namespace tj::ops::fmha {

inline constexpr int kMatrix = 16;  ///< rows, columns and K of a product
inline constexpr int kPiece = 8;    ///< elements of 16 bytes
inline constexpr u32 kOperandBytes = dev::kOperandWords * 4;

template <class C>
inline constexpr u32 kThreads = C::kWarps * dev::kWave;
/// Columns of a head dim that threads bring: a power of two, with zeros behind the last.
constexpr int brought_columns(int head_dim) { return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256; }
template <class C>
inline constexpr int kKeyColumns = brought_columns(C::kHeadDim);
template <class C>
inline constexpr int kValueColumns = brought_columns(kValueDim<C>);
/// Rows of keys have the head dim, rows of transposed values have the keys of an iteration. Between rows there is room,
/// so that the same place of eight rows lies in different banks.
template <class C>
inline constexpr u32 kKeyStride = kKeyColumns<C> * 2 + C::kRowPadding;
template <class C>
inline constexpr u32 kValueStride = C::kBlockN * 2 + C::kRowPadding;
/// Pieces of a block of keys or of values that a thread loads; those of values are of rows that lie below each other.
template <class C, int Columns>
inline constexpr int kLoads = C::kBlockN * Columns / kPiece / static_cast<int>(kThreads<C>);
template <class C>
inline constexpr int kKeyLoads = kLoads<C, kKeyColumns<C>>;
template <class C>
inline constexpr int kValueLoads = kLoads<C, kValueColumns<C>>;

/// Keys and values on their way through registers.
template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  u32 k[kKeyLoads<C>][4], v[kValueLoads<C>][4];
  TJ_DEVICE Loader(const Params& p, int) : params(p) {}
};

/// The first iteration has the last keys, which may be fewer than a block has.
template <class C>
TJ_DEVICE int fast_begin(const Loader<C>&, const Tile&) {
  return 1;
}
TJ_DEVICE const unsigned short* row_of(const Source& source, int batch, int head, int row) {
  return static_cast<const unsigned short*>(source.data) + batch * source.stride_batch + head * source.stride_head +
         row * source.stride_row;
}

/// The pieces of a block that a thread brings: neighbours have neighbouring pieces of a row. A thread's rows of keys
/// are kRows apart; its rows of values stand below each other in shared memory.
template <class C, int Columns>
struct Share {
  static constexpr u32 kPieces = Columns / kPiece;  ///< of a row
  static constexpr int kRows = static_cast<int>(kThreads<C> / kPieces);
  u32 piece, key_row, value_row;  ///< rows: the first
  TJ_DEVICE Share()
      : piece(dev::thread_index() % kPieces),
        key_row(dev::thread_index() / kPieces),
        value_row(key_row * kLoads<C, Columns>) {}
};

template <class C>
using KeyShare = Share<C, kKeyColumns<C>>;
template <class C>
using ValueShare = Share<C, kValueColumns<C>>;

/// Elements of a row, and the distance from a thread's first row of a block to the row of its n-th piece.
template <class C>
struct KeyRows {
  static constexpr int kElements = C::kHeadDim;
  static TJ_DEVICE constexpr int beyond(int n) { return n * KeyShare<C>::kRows; }
};
template <class C>
struct ValueRows {
  static constexpr int kElements = kValueDim<C>;
  static TJ_DEVICE constexpr int beyond(int n) { return static_cast<int>(dev::row_at(static_cast<u32>(n))); }
};

/// Loads a block of keys in pages as load_block() does: each row has a page of its own. The first row of all is read in
/// the place of others.
template <class C, class Rows, int Count>
TJ_DEVICE void load_pages(const Source& source, const Params& params, const Tile& tile, int i, u32 row, u32 piece,
                          u32 (&words)[Count][4]) {
  const int first = first_key<C>(tile, i) + static_cast<int>(row), head = key_head(params, tile);
  const unsigned short* const any = row_of(source, 0, head, 0);
#pragma unroll
  for (int n = 0; n < Count; ++n) {
    const int key = first + Rows::beyond(n);
    const bool there = key < tile.sequence.keys && (brought_columns(Rows::kElements) == Rows::kElements ||
                                                    static_cast<int>(piece) * kPiece < Rows::kElements);
    const PagePlace at = page_place(params, tile.sequence.number, there ? key : 0);
    dev::load_global(there ? row_of(source, at.page, head, at.row) + piece * kPiece : any, words[n]);
#pragma unroll
    for (int w = 0; w < 4; ++w) words[n][w] = there ? words[n][w] : 0u;
  }
}

/// The block's pieces of a thread whose first row is `row`; zeros of rows past the last, in whose place the block's
/// first is read. What is the same for all threads is added first.
template <class C, class Rows, int Count, class Variant>
TJ_DEVICE void load_block(const Source& source, const Params& params, const Tile& tile, int i, u32 row, u32 piece,
                          u32 (&words)[Count][4], Variant) {
  if constexpr (kPaged<C>) return load_pages<C, Rows>(source, params, tile, i, row, piece, words);
  const int first = first_key<C>(tile, i);
  const unsigned short* const block = row_of(source, tile.batch, key_head(params, tile), keys_begin<C>(tile) + first);
  const long long mine = static_cast<int>(row) * source.stride_row + piece * kPiece;
#pragma unroll
  for (int n = 0; n < Count; ++n) {
    const unsigned short* const from = block + Rows::beyond(n) * source.stride_row + mine;
    const bool there =
        (Variant::kFast || first + static_cast<int>(row) + Rows::beyond(n) < mask_of<C>(params, tile).keys) &&
        (brought_columns(Rows::kElements) == Rows::kElements || static_cast<int>(piece) * kPiece < Rows::kElements);
    dev::load_global(there ? from : block, words[n]);
#pragma unroll
    for (int w = 0; w < 4; ++w) words[n][w] = there ? words[n][w] : 0u;
  }
}
template <class C, class Variant>
TJ_DEVICE void load_k(Loader<C>& loader, const Tile& tile, int i, Variant variant) {
  const KeyShare<C> share;
  load_block<C, KeyRows<C>>(loader.params.k_rows, loader.params, tile, i, share.key_row, share.piece, loader.k,
                            variant);
}
template <class C, class Variant>
TJ_DEVICE void load_v(Loader<C>& loader, const Tile& tile, int i, Variant variant) {
  const ValueShare<C> share;
  // A thread's places are as many as a power of two, from a multiple of that on: no bit of the first meets one of those
  // beyond it.
  load_block<C, ValueRows<C>>(loader.params.v_rows, loader.params, tile, i, dev::row_at(share.value_row), share.piece,
                              loader.v, variant);
}

template <class C>
TJ_DEVICE void put_k(Loader<C>& loader, const Tile&, int, u32 slot) {
  const KeyShare<C> share;
#pragma unroll
  for (int n = 0; n < kKeyLoads<C>; ++n)
    dev::put_piece<C::kRowPadding>(
        slot + (share.key_row + static_cast<u32>(n * KeyShare<C>::kRows)) * kKeyStride<C> + share.piece * 16,
        loader.k[n]);
}

/// The address at which the values of sixteen keys begin in the rows of sixteen elements of the output.
template <class C>
TJ_DEVICE u32 value_place(u32 slot, u32 sixteen, u32 block) {
  return dev::column_place<C::kBlockN / kMatrix>(slot, kValueStride<C>, sixteen, block);
}
/// kValueLoads rows of eight columns become eight rows: 2, 4 or 8 keys at once.
template <class C>
TJ_DEVICE void put_v(Loader<C>& loader, const Tile&, int, u32 slot) {
  static_assert(kValueLoads<C> <= 16, "at most sixteen keys a thread");
  const ValueShare<C> share;
  const u32 key = share.value_row, element = share.piece * kPiece;
  dev::put_columns<C::kRowPadding>(
      value_place<C>(slot, element / kMatrix, key / kMatrix) + element % kMatrix * kValueStride<C> + key % kMatrix * 2,
      kValueStride<C>, loader.v);
}

}  // namespace tj::ops::fmha
