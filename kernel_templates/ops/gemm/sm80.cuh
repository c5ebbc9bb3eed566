// Matrix product on matrix instructions of a warp: the bodies of the graph's nodes.
//
// Decides what one node computes for one tile and iteration. Order, waits, slots and roles come from the emitted unit.
// A block owns a kBlockM x kBlockN tile of d, which its warps share as kWarpsM x kWarpsN pieces; iteration i handles
// kBlockK of K. What a warp loads of a piece's rows serves all of its columns, and the other way round. Invariant: a
// body touches registers of its own context and the slots that it is given, nothing else.
#pragma once

#include "ops/gemm/tile.cuh"
#include "tiles.cuh"

namespace tj::ops::gemm {

inline constexpr int kMatrix = 16;  ///< rows, columns and depth of what four matrices of shared memory make

/// Rows that a warp has of a tile, in blocks of sixteen, and columns.
template <class C>
inline constexpr int kWarpRows = C::kBlockM / C::kWarpsM / kMatrix;
template <class C>
inline constexpr int kWarpColumns = C::kBlockN / C::kWarpsN;

/// Scales of an iteration's block of K for a thread: of its rows, and of each of its columns or all of them together.
template <class C, bool = kScaled<C>>
struct Factors {};
template <class C>
struct Factors<C, true> {
  static constexpr int kRightScales = C::kScales == kScaledRows ? kWarpColumns<C> / 4 : 1;
  float left_scales[2 * kWarpRows<C>], right_scales[kRightScales];
};
/// The further registers of e4m3: an iteration's sums of half of a warp's columns, and alpha times the scales of all of
/// a and b.
template <class C, bool = kPromotes<C>>
struct Partial {};
template <class C>
struct Partial<C, true> : Factors<C> {
  float partial[kWarpRows<C>][kWarpColumns<C> / 16][4];
  float factor;
};

/// The warps of the block, each with its piece of the tile. A thread holds rows lane / 4 and lane / 4 + 8 of each
/// sixteen, columns 8j + 2(lane % 4) + {0, 1}.
template <class C_>
struct Consumer : Partial<C_> {
  using C = C_;
  static constexpr int kRowBlocks = kWarpRows<C>, kColumns = kWarpColumns<C>;
  const Params& params;
  const int warp;
  int lane;
  float sums[kRowBlocks][kColumns / 8][4];
  u32 left[kRowBlocks][4], right[2][4];  ///< between the two halves of an iteration
  TJ_DEVICE Consumer(const Params& p, int)
      : params(p),
        warp(static_cast<int>(dev::warp_index() % (C::kWarpsM * C::kWarpsN))),
        lane(static_cast<int>(dev::lane_index())) {}
  TJ_DEVICE int row(int block) const { return (warp % C::kWarpsM * kRowBlocks + block) * kMatrix; }
  TJ_DEVICE int column() const { return warp / C::kWarpsM * kColumns; }
  TJ_DEVICE float sum(int block, int at) const { return sums[block][at / 4][at % 4]; }
  TJ_DEVICE void bring(int) {}
  TJ_DEVICE void finished() {}
  /// Each row computes anew what follows from the lane: values kept over rows and tiles would take registers from the
  /// products.
  static constexpr bool kKeepsRows = false;
  TJ_DEVICE void afresh() { dev::hold(lane); }
};

/// The factor of the sums.
template <class C>
TJ_DEVICE float product_factor(const Consumer<C>& consumer) {
  if constexpr (kPromotes<C>)
    return consumer.factor;
  else
    return consumer.params.alpha;
}

template <int Rows, int Groups>
TJ_DEVICE void clear(float (&sums)[Rows][Groups][4]) {
#pragma unroll
  for (int block = 0; block < Rows; ++block) {
#pragma unroll
    for (int at = 0; at < 4 * Groups; ++at) sums[block][at / 4][at % 4] = 0.0f;
  }
}
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile& tile) {
  if constexpr (kPromotes<C>) consumer.factor = tensor_factor<C>(consumer.params, tile);
  clear(consumer.sums);
}
template <class Tag>
TJ_DEVICE void multiply_words(Tag tag, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (dev::kElementBytes<Tag> == 1)
    dev::mma_m16n8k32(tag, d, a, b0, b1);
  else
    dev::mma_m16n8k16(tag, d, a, b0, b1);
}

/// Steps of 32 bytes of K in an iteration.
template <class C>
inline constexpr int kSteps = C::kBlockK * dev::kElementBytes<typename C::Element> / (2 * kMatrix);

/// The places of an operand's blocks of 16 of M or N by 32 bytes of K for a warp; k counts pairs of bytes. The slot has
/// room for `Rows` of M or N, of which the warp has `Own`. A lane names a row of 16 bytes in each block: a row of M or
/// N in a K-major operand, else a row of K.
template <class C, bool MnMajor, int Rows, int Own>
struct Blocks {
  static constexpr int kBytes = kRowBytes<C, MnMajor>, kColumns = kBytes / 2,
                       kPitch = (MnMajor ? C::kBlockK : Rows) * kBytes;
  const u32 slot, row, piece;  ///< the latter this lane's
  const int begin;             ///< of the warp's
  const u32 first;

  TJ_DEVICE Blocks(u32 in, int mn, u32 lane_row, u32 lane_piece)
      : slot(in), row(lane_row), piece(lane_piece), begin(mn), first(address(MnMajor ? mn : 0, MnMajor ? 0 : mn)) {}
  TJ_DEVICE u32 address(int across, int down) const {
    return dev::piece_address<kBytes>(slot + static_cast<u32>(across / kColumns * kPitch), static_cast<u32>(down) + row,
                                      static_cast<u32>(across % kColumns / 8) + piece);
  }
  /// A piece that is an even number of pieces further in a row lies at the first one's place with that number's bits
  /// flipped, as long as the row does not end between them.
  TJ_DEVICE u32 at(int block, int k) const {
    const int across = MnMajor ? block * kMatrix : k, down = MnMajor ? k : block * kMatrix;
    if constexpr (MnMajor && kColumns % Own != 0)
      return address(begin + across, down);
    else
      return (first ^ static_cast<u32>(across % kColumns * 2)) +
             static_cast<u32>(across / kColumns * kPitch + down * kBytes);
  }
};
template <class C>
using LeftBlocks = Blocks<C, C::kLeftMn, C::kBlockM, C::kBlockM / C::kWarpsM>;
template <class C>
using RightBlocks = Blocks<C, C::kRightMn, C::kBlockN, C::kBlockN / C::kWarpsN>;

template <class C>
TJ_DEVICE void load_left(const LeftBlocks<C>& a, int block, int k, u32 (&words)[4]) {
  if constexpr (C::kLeftMn)
    dev::load_matrices_transposed(a.at(block, k), words);
  else
    dev::load_matrices(a.at(block, k), words);
}
template <class C>
TJ_DEVICE void load_right(const RightBlocks<C>& b, int block, int k, u32 (&words)[4]) {
  if constexpr (C::kRightMn)
    dev::load_matrices_transposed(b.at(block, k), words);
  else
    dev::load_matrices(b.at(block, k), words);
}

/// Steps `First` to `Last` - 1 of 32 bytes of K, and `Across` sixteens of columns from the `From`-th on.
template <int First, int Last, int From, int Across>
struct Span {
  static constexpr int kFirst = First, kLast = Last, kFrom = From, kAcross = Across;
};
/// sums += a b^T for a span. While sixteen columns are multiplied, the next sixteen are loaded. Rows of the next step
/// take the place of those before as soon as these have met the last columns. Another call may multiply that step. So
/// little is under way at once that a thread has room for its sums.
template <class S, class C>
TJ_DEVICE void multiply(Consumer<C>& consumer, float (&sums)[kWarpRows<C>][2 * S::kAcross][4], u32 slot) {
  constexpr int kFrom = S::kFrom, kAcross = S::kAcross, kRows = Consumer<C>::kRowBlocks;
  const LeftBlocks<C> a(slot, consumer.row(0), C::kLeftMn ? dev::across_row() : dev::down_row(),
                        C::kLeftMn ? dev::across_piece() : dev::down_piece());
  const RightBlocks<C> b(slot + kLeftBytes<C>, consumer.column(), C::kRightMn ? dev::down_row() : dev::across_row(),
                         C::kRightMn ? dev::down_piece() : dev::across_piece());
  const typename C::Element tag{};
  u32(&left)[kRows][4] = consumer.left;
  u32(&right)[2][4] = consumer.right;
  if constexpr (S::kFirst == 0) {
    load_right<C>(b, kFrom, 0, right[0]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) load_left<C>(a, r, 0, left[r]);
  }
#pragma unroll
  for (int at = S::kFirst * kAcross; at < S::kLast * kAcross; ++at) {
    const int step = at / kAcross, j = at % kAcross, next = at + 1;
    if (next < kSteps<C> * kAcross) load_right<C>(b, kFrom + next % kAcross, next / kAcross * kMatrix, right[next % 2]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      multiply_words(tag, sums[r][2 * j], left[r], right[at % 2][0], right[at % 2][1]);
      multiply_words(tag, sums[r][2 * j + 1], left[r], right[at % 2][2], right[at % 2][3]);
      if (j + 1 == kAcross && step + 1 < kSteps<C>) load_left<C>(a, r, (step + 1) * kMatrix, left[r]);
    }
  }
}
/// Sixteens of columns of a warp.
template <class C>
inline constexpr int kAcross = kWarpColumns<C> / kMatrix;

/// An iteration in two nodes, so that the schedule can place what else the warps issue in its middle.
template <class C>
TJ_DEVICE void mma_first(Consumer<C>& consumer, const Tile&, int, u32 slot) {
  multiply<Span<0, kSteps<C> / 2, 0, kAcross<C>>>(consumer, consumer.sums, slot);
}
/// Follows mma_first of the same iteration, which has loaded what it begins with.
template <class C>
TJ_DEVICE void mma_second(Consumer<C>& consumer, const Tile&, int, u32 slot) {
  multiply<Span<kSteps<C> / 2, kSteps<C>, 0, kAcross<C>>>(consumer, consumer.sums, slot);
}

}  // namespace tj::ops::gemm

#include "ops/gemm/store.cuh"
