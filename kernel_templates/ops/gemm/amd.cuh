// Matrix product on matrix instructions of a wave whose operands are rows with K in order: the bodies of the graph's
// nodes.
//
// Decides what one node computes for one tile and iteration. Order, barriers, slots and when loads begin come from the
// emitted unit. A block owns a kBlockM x kBlockN tile of d, which its waves share as kWarpsM x kWarpsN pieces. Products
// are transposed: rows of them are columns of d, so that a lane ends with neighbours of one row of d. Iteration i
// handles the i-th last kBlockK of K: what may be short comes first. Invariant: a body touches registers of its own
// context and the slots that it is given; nothing outside a and b is read.
#pragma once

#include "ops/gemm/tile.cuh"
#include "pieces.cuh"

namespace tj::ops::gemm {

inline constexpr int kMatrix = 16;  ///< rows, columns and K of a product
inline constexpr int kPiece = 8;    ///< elements of 16 bytes

template <class C>
inline constexpr int kThreads = C::kWarpsM * C::kWarpsN * static_cast<int>(dev::kWave);
/// Rows of M or N have an iteration's K; between rows there is room, so that the same place of eight rows lies in
/// different banks.
template <class C>
inline constexpr u32 kRowStride = C::kBlockK * 2 + C::kRowPadding;
/// Pieces of an operand with so many rows that a thread loads.
template <class C>
inline constexpr int kLoads(int rows) {
  return rows * C::kBlockK / kPiece / kThreads<C>;
}

/// Both operands on their way through registers.
template <class C_>
struct Reader {
  using C = C_;
  const Params& params;
  u32 a[kLoads<C>(C::kBlockM)][4], b[kLoads<C>(C::kBlockN)][4];
  TJ_DEVICE Reader(const Params& p, int) : params(p) {}
};

/// The waves of the block, each with its piece of the tile.
template <class C_>
struct Consumer {
  using C = C_;
  static constexpr int kRowBlocks = C::kBlockM / C::kWarpsM / kMatrix,
                       kColumnBlocks = C::kBlockN / C::kWarpsN / kMatrix;
  const Params& params;
  const int warp;
  float sums[kRowBlocks][kColumnBlocks][dev::kSums];
  TJ_DEVICE Consumer(const Params& p, int)
      : params(p), warp(static_cast<int>(dev::warp_index() % (C::kWarpsM * C::kWarpsN))) {}
  /// The place in the tile at which the wave's sixteen rows or columns begin.
  TJ_DEVICE int row(int block) const { return (warp % C::kWarpsM * kRowBlocks + block) * kMatrix; }
  TJ_DEVICE int column(int block) const { return (warp / C::kWarpsM * kColumnBlocks + block) * kMatrix; }
};

// ---- operands -------------------------------------------------------------------------------------------------------
template <class C>
TJ_DEVICE Depth depth_from_end(const Tile& tile, int i) {
  return depth_of<C>(tile, tile.trip_count - 1 - i);
}
/// Whole tiles have all of K but, in the first iteration, its end.
template <class C>
TJ_DEVICE int fast_begin(const Reader<C>& reader, const Tile& tile) {
  return tile.row + C::kBlockM <= reader.params.m && tile.column + C::kBlockN <= reader.params.n ? 1 : tile.trip_count;
}

/// Eight elements of a row of which `there` are the operand's, zeros after them; none where that is not positive.
TJ_DEVICE void read_eight(const unsigned short* eight, int there, u32 (&words)[4]) {
#pragma unroll
  for (u32& word : words) word = 0;
  if (there >= kPiece) return dev::load_global(eight, words);
#pragma unroll 1  // rare, and long when written out
  for (int e = there - 1; e >= 0; --e) {
    words[3] = words[3] << 16 | words[2] >> 16;
    words[2] = words[2] << 16 | words[1] >> 16;
    words[1] = words[1] << 16 | words[0] >> 16;
    words[0] = words[0] << 16 | dev::load_global_u16(eight + e);
  }
}

/// The pieces of an operand with `Rows` of M or N that a thread brings: neighbours have neighbouring pieces of a row in
/// memory. The rows of a K-major operand are kApart apart. Otherwise rows are K's, and a thread has so many below each
/// other that it can make words of columns.
template <class C, int Rows, bool MnMajor>
struct Share {
  static constexpr int kCount = kLoads<C>(Rows), kPieces = (MnMajor ? Rows : C::kBlockK) / kPiece,
                       kApart = MnMajor ? 1 : kThreads<C> / kPieces;
  static_assert(kThreads<C> % kPieces == 0 && kCount >= 1, "whole rows at once");
  int piece, down;  ///< down: the first row in memory
  TJ_DEVICE Share()
      : piece(static_cast<int>(dev::thread_index()) % kPieces),
        down(static_cast<int>(dev::thread_index()) / kPieces * (MnMajor ? kCount : 1)) {}
};

template <class C, int Rows, bool MnMajor, class Variant>
TJ_DEVICE void read_operand(const Operand& operand, int batch, int mn, const Depth& k, u32 (&words)[kLoads<C>(Rows)][4],
                            Variant) {
  using S = Share<C, Rows, MnMajor>;
  const S share;
  const int down = MnMajor ? k.begin : mn, across = MnMajor ? mn : k.begin,
            end = MnMajor ? depth_end<C>(operand.down, k) : operand.down;
  const unsigned short* const block = static_cast<const unsigned short*>(operand.data) + batch * operand.stride_batch +
                                      down * operand.stride_down + across;
  const long long mine = share.down * operand.stride_down + share.piece * kPiece;
#pragma unroll
  for (int n = 0; n < S::kCount; ++n) {
    const unsigned short* const eight = block + n * S::kApart * operand.stride_down + mine;
    if constexpr (Variant::kFast)
      dev::load_global(eight, words[n]);
    else
      read_eight(eight, down + share.down + n * S::kApart < end ? operand.across - across - share.piece * kPiece : 0,
                 words[n]);
  }
}
template <class C, class Variant>
TJ_DEVICE void read_ab(Reader<C>& reader, const Tile& tile, int i, Variant variant) {
  const Params& params = reader.params;
  const Depth k = depth_from_end<C>(tile, i);
  read_operand<C, C::kBlockM, C::kLeftMn>(params.operands.a, tile.batch, tile.row, k, reader.a, variant);
  read_operand<C, C::kBlockN, C::kRightMn>(params.operands.b, tile.batch, tile.column, k, reader.b, variant);
}

/// Rows of M or N with K in order, whichever way they came.
template <class C, int Rows, bool MnMajor>
TJ_DEVICE void put_operand(const u32 (&loaded)[kLoads<C>(Rows)][4], u32 slot) {
  using S = Share<C, Rows, MnMajor>;
  const S share;
  if constexpr (!MnMajor) {
#pragma unroll
    for (int n = 0; n < S::kCount; ++n)
      dev::put_piece<C::kRowPadding>(
          slot + static_cast<u32>(share.down + n * S::kApart) * kRowStride<C> + static_cast<u32>(share.piece) * 16,
          loaded[n]);
  } else {
    dev::put_columns<C::kRowPadding>(
        slot + static_cast<u32>(share.piece * kPiece) * kRowStride<C> + static_cast<u32>(share.down) * 2, kRowStride<C>,
        loaded);
  }
}
template <class C>
TJ_DEVICE void put_ab(Reader<C>& reader, const Tile&, int, u32 slot) {
  put_operand<C, C::kBlockM, C::kLeftMn>(reader.a, slot);
  put_operand<C, C::kBlockN, C::kRightMn>(reader.b, slot + C::kBlockM * kRowStride<C>);
}

// ---- a wave's products ----------------------------------------------------------------------------------------------
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile&) {
#pragma unroll
  for (int r = 0; r < Consumer<C>::kRowBlocks; ++r) {
#pragma unroll
    for (int c = 0; c < Consumer<C>::kColumnBlocks; ++c) {
#pragma unroll
      for (int s = 0; s < dev::kSums; ++s) consumer.sums[r][c][s] = 0.0f;
    }
  }
}

/// sums += a b^T.
template <class C>
TJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int, u32 slot) {
  const u32 lane = dev::operand_row() * kRowStride<C> + dev::operand_k() * 2;
  const u32 a = dev::one_address(slot + static_cast<u32>(consumer.row(0)) * kRowStride<C> + lane);
  const u32 b = dev::one_address(slot + static_cast<u32>(C::kBlockM + consumer.column(0)) * kRowStride<C> + lane);
#pragma unroll
  for (u32 k = 0; k < C::kBlockK / kMatrix; ++k) {
    dev::hold_back();
    u32 right[Consumer<C>::kRowBlocks][dev::kOperandWords];
#pragma unroll
    for (u32 r = 0; r < Consumer<C>::kRowBlocks; ++r)
      dev::load_shared(a + r * kMatrix * kRowStride<C> + k * kMatrix * 2, right[r]);
#pragma unroll
    for (u32 c = 0; c < Consumer<C>::kColumnBlocks; ++c) {
      u32 left[dev::kOperandWords];
      dev::load_shared(b + c * kMatrix * kRowStride<C> + k * kMatrix * 2, left);
#pragma unroll
      for (u32 r = 0; r < Consumer<C>::kRowBlocks; ++r)
        dev::mma_m16n16k16(typename C::Element{}, consumer.sums[r][c], left, right[r]);
    }
  }
}

}  // namespace tj::ops::gemm

#include "ops/gemm/amd_store.cuh"
