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
template <class C>
inline constexpr int kBytes = dev::kElementBytes<typename C::Element>;
template <class C>
inline constexpr int kPiece = 16 / kBytes<C>;  ///< elements of 16 bytes

template <class C>
inline constexpr int kThreads = C::kWarpsM * C::kWarpsN * static_cast<int>(dev::kWave);
/// Rows of M or N have an iteration's K; between rows there is room, so that the same place of eight rows lies in
/// different banks.
template <class C>
inline constexpr u32 kRowStride = C::kBlockK * kBytes<C> + C::kRowPadding;
/// Pieces of an operand with so many rows that a thread loads.
template <class C>
inline constexpr int kLoads(int rows) {
  return rows * C::kBlockK / kPiece<C> / kThreads<C>;
}

/// Both operands on their way through registers.
template <class C_>
struct Reader {
  using C = C_;
  const Params& params;
  u32 a[kLoads<C>(C::kBlockM)][4], b[kLoads<C>(C::kBlockN)][4];
  TJ_DEVICE Reader(const Params& p, int) : params(p) {}
};

/// Sixteens of rows and of columns that a wave has of a tile.
template <class C>
inline constexpr int kWaveRows = C::kBlockM / C::kWarpsM / kMatrix;
template <class C>
inline constexpr int kWaveColumns = C::kBlockN / C::kWarpsN / kMatrix;

/// Scales of an iteration's block of K for a lane: of its rows, and of each of its columns or all of them together.
template <class C, bool = kScaled<C>>
struct Factors {};
template <class C>
struct Factors<C, true> {
  static constexpr int kRightScales = C::kScales == kScaledRows ? dev::kSums : 1;
  float left_scales[kWaveRows<C>], right_scales[kRightScales > 1 ? kWaveColumns<C> : 1][kRightScales];
};
/// The further registers of e4m3: an iteration's sums of half of a wave's columns, and alpha times the scales of all of
/// a and b.
template <class C, bool = kPromotes<C>>
struct Partial {};
template <class C>
struct Partial<C, true> : Factors<C> {
  float partial[kWaveRows<C>][kWaveColumns<C> / 2][dev::kSums];
  float factor;
};

/// The waves of the block, each with its piece of the tile.
template <class C_>
struct Consumer : Partial<C_> {
  using C = C_;
  static constexpr int kRowBlocks = kWaveRows<C>, kColumnBlocks = kWaveColumns<C>;
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

/// An element in memory: its size alone counts. Places in elements leave the compiler more scalar registers than those
/// in bytes.
template <int Bytes>
struct Stored {
  using Type = unsigned short;
};
template <>
struct Stored<1> {
  using Type = unsigned char;
};
template <class C>
using Unit = typename Stored<kBytes<C>>::Type;

/// 16 bytes of a row of which `there` elements are the operand's, zeros after them; none where that is not positive.
template <class C>
TJ_DEVICE void read_piece(const Unit<C>* piece, int there, u32 (&words)[4]) {
  constexpr int kBits = 8 * kBytes<C>;
#pragma unroll
  for (u32& word : words) word = 0;
  if (there >= kPiece<C>) return dev::load_global(piece, words);
#pragma unroll 1  // rare, and long when written out
  for (int e = there - 1; e >= 0; --e) {
    words[3] = words[3] << kBits | words[2] >> (32 - kBits);
    words[2] = words[2] << kBits | words[1] >> (32 - kBits);
    words[1] = words[1] << kBits | words[0] >> (32 - kBits);
    if constexpr (kBytes<C> == 1)
      words[0] = words[0] << kBits | dev::load_global_u8(piece + e);
    else
      words[0] = words[0] << kBits | dev::load_global_u16(piece + e);
  }
}

/// The pieces of an operand with `Rows` of M or N that a thread brings: neighbours have neighbouring pieces of a row in
/// memory. The rows of a K-major operand are kApart apart. Otherwise rows are K's, and a thread has so many below each
/// other that it can make words of columns.
template <class C, int Rows, bool MnMajor>
struct Share {
  static constexpr int kCount = kLoads<C>(Rows), kPieces = (MnMajor ? Rows : C::kBlockK) / kPiece<C>,
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
  const Unit<C>* const block =
      static_cast<const Unit<C>*>(operand.data) + batch * operand.stride_batch + down * operand.stride_down + across;
  const long long mine = share.down * operand.stride_down + share.piece * kPiece<C>;
#pragma unroll
  for (int n = 0; n < S::kCount; ++n) {
    const Unit<C>* const piece = block + n * S::kApart * operand.stride_down + mine;
    if constexpr (Variant::kFast)
      dev::load_global(piece, words[n]);
    else
      read_piece<C>(piece,
                    down + share.down + n * S::kApart < end ? operand.across - across - share.piece * kPiece<C> : 0,
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
        slot + static_cast<u32>(share.piece * kPiece<C>) * kRowStride<C> + static_cast<u32>(share.down) * 2,
        kRowStride<C>, loaded);
  }
}
template <class C>
TJ_DEVICE void put_ab(Reader<C>& reader, const Tile&, int, u32 slot) {
  put_operand<C, C::kBlockM, C::kLeftMn>(reader.a, slot);
  put_operand<C, C::kBlockN, C::kRightMn>(reader.b, slot + C::kBlockM * kRowStride<C>);
}

// ---- a wave's products ----------------------------------------------------------------------------------------------
/// The factor of the sums.
template <class C>
TJ_DEVICE float product_factor(const Consumer<C>& consumer) {
  if constexpr (kPromotes<C>)
    return consumer.factor;
  else
    return consumer.params.alpha;
}
template <int Rows, int Columns>
TJ_DEVICE void clear(float (&sums)[Rows][Columns][dev::kSums]) {
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
#pragma unroll
      for (int s = 0; s < dev::kSums; ++s) sums[r][c][s] = 0.0f;
    }
  }
}
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile& tile) {
  if constexpr (kPromotes<C>) consumer.factor = tensor_factor<C>(consumer.params, tile);
  clear(consumer.sums);
}

/// Products of words that hold 32 bytes of K; wave_e4m3.cuh has those of 8-bit elements, where there are any.
template <class Tag>
struct Words {
  TJ_DEVICE static void multiply(float (&d)[dev::kSums], const u32 (&a)[dev::kOperandWords],
                                 const u32 (&b)[dev::kOperandWords]) {
    dev::mma_m16n16k16(Tag{}, d, a, b);
  }
};

/// sums += a b^T, for `Columns` sixteens of columns from the wave's `From`-th on.
template <int From, int Columns, class C>
TJ_DEVICE void multiply(const Consumer<C>& consumer, float (&sums)[kWaveRows<C>][Columns][dev::kSums], u32 slot) {
  constexpr u32 kStep = 2 * kMatrix;  // bytes of K
  const u32 lane = dev::operand_row() * kRowStride<C> + dev::operand_k() * 2;
  const u32 a = dev::one_address(slot + static_cast<u32>(consumer.row(0)) * kRowStride<C> + lane);
  const u32 b = dev::one_address(slot + static_cast<u32>(C::kBlockM + consumer.column(From)) * kRowStride<C> + lane);
#pragma unroll
  for (u32 k = 0; k < C::kBlockK * kBytes<C> / kStep; ++k) {
    dev::hold_back();
    u32 right[kWaveRows<C>][dev::kOperandWords];
#pragma unroll
    for (u32 r = 0; r < kWaveRows<C>; ++r) dev::load_shared(a + r * kMatrix * kRowStride<C> + k * kStep, right[r]);
#pragma unroll
    for (u32 c = 0; c < Columns; ++c) {
      u32 left[dev::kOperandWords];
      dev::load_shared(b + c * kMatrix * kRowStride<C> + k * kStep, left);
#pragma unroll
      for (u32 r = 0; r < kWaveRows<C>; ++r) Words<typename C::Element>::multiply(sums[r][c], left, right[r]);
    }
  }
}
template <class C>
TJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int, u32 slot) {
  multiply<0, kWaveColumns<C>>(consumer, consumer.sums, slot);
}

}  // namespace tj::ops::gemm

#include "ops/gemm/amd_store.cuh"
