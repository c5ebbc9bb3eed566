// Matrix product on warpgroup matrix instructions: the bodies of the graph's nodes.
//
// Decides what one node computes for one tile and iteration. Order, waits, slots and roles come from the emitted unit.
// A block owns a kBlockM x kBlockN tile of d, kConsumerRows rows for each consumer; iteration i handles kBlockK of K.
// In swapped tiles a consumer owns so many columns of d instead. The matrix unit keeps 13 bits of fraction of sums of
// e4m3 (model/matrix_e4m3.cpp names who measured it). So its sums grow over one block of 128 bytes only, and promote()
// adds them to others in f32. Invariant: a body touches registers of its own context and the slots that it is given,
// nothing else.
#pragma once

#include "ops/gemm/load.cuh"

namespace tj::ops::gemm {

inline constexpr int kMatrixK = 16;      ///< of 16-bit elements
inline constexpr int kMatrixBytes = 32;  ///< of K, of any elements

/// Pieces of a consumer's columns: each is a product of its own, whose sums are added while the next one multiplies.
template <class C, class = void>
inline constexpr int kPieces = 1;
template <class C>
inline constexpr int kPieces<C, decltype(void(C::kPieces))> = C::kPieces;
/// Do pieces follow each other with one set of sums, each once the other's are added?
template <class C, class = void>
inline constexpr bool kInTurn = false;
template <class C>
inline constexpr bool kInTurn<C, decltype(void(C::kInTurn))> = C::kInTurn;
/// The registers of a consumer for an iteration's scales of blocks: for each block of K and each part of its columns
/// that has one scale of b, the factors of a thread's two rows. Where each column has a scale, the rows' scales alone.
template <class C, bool = kScaled<C>>
struct Factors {};
template <class C>
struct Factors<C, true> {
  static constexpr int kPartColumns = C::kScales == kScaledRows ? C::kBlockN : scale_columns(kTileColumns<C>),
                       kFactorParts = C::kBlockN / kPartColumns;
  static constexpr int kScaleBlocks = C::kBlockK / kBlockColumns<C>;
  float factors[kScaleBlocks][kFactorParts][2];
};
/// The further registers of a consumer of e4m3: the matrix unit's sums over each block of an iteration, in pieces or of
/// the one that has its turn, and alpha times both scales.
template <class C, bool = kPromotes<C>>
struct Partial {};
template <class C>
struct Partial<C, true> : Factors<C> {
  static constexpr int kPieceSums = kSumColumns<C> / 2 / kPieces<C>, kSets = kInTurn<C> ? 1 : kPieces<C>;
  float partial[C::kBlockK / kBlockColumns<C> * kSets][kPieceSums];
  float factor;
  template <int Piece>
  static TJ_DEVICE constexpr int set_of(int block) {
    return block * kSets + (kInTurn<C> ? 0 : Piece);
  }
};

/// Rows of sums that a consumer has: those of one product, or of two in the widest swapped tiles.
template <class C>
inline constexpr int kConsumerRows =
    kSwapped<C> && C::kBlockN >= kWideColumns ? 2 * kRowsPerConsumer : kRowsPerConsumer;

/// The rows of a warpgroup's sums: of each 64 a warp has sixteen, and all columns of the block's sums.
template <class C_>
struct Consumer : Partial<C_> {
  using C = C_;
  static constexpr int kRowBlocks = kConsumerRows<C> / kRowsPerConsumer, kColumns = kSumColumns<C>;
  static constexpr int kMergedPlaces = 4;  ///< of a piece's sums that are loaded together: 32 registers
  const Params& params;
  const int copy;  ///< which rows of the block's sums
  const int lane;
  float sums[kRowBlocks][kSumColumns<C> / 2];
  TJ_DEVICE Consumer(const Params& p, int which) : params(p), copy(which), lane(static_cast<int>(dev::lane_index())) {}
  TJ_DEVICE int row(int block) const {
    return copy * kConsumerRows<C> + block * kRowsPerConsumer + static_cast<int>(dev::warp_index() & 3u) * 16;
  }
  TJ_DEVICE int column() const { return 0; }
  TJ_DEVICE float sum(int block, int at) const { return sums[block][at]; }
  /// The last group's wait is behind: no read may move ahead of it.
  TJ_DEVICE void bring(int) {}
  TJ_DEVICE void finished() {
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) dev::hold(sums[block]);
  }
  static constexpr bool kKeepsRows = true;
  TJ_DEVICE void afresh() {}
};

// ---- one consumer ---------------------------------------------------------------------------------------------------
/// The factor of the sums.
template <class C>
TJ_DEVICE float product_factor(const Consumer<C>& consumer) {
  if constexpr (kPromotes<C>)
    return consumer.factor;
  else
    return consumer.params.alpha;
}

/// The first product of a tile overwrites the sums, but for those of promote(), and a tile may be without any. Each
/// tile clears them. Under a condition the compiler carried them from tile to tile, and chose for each, in twice as
/// many instructions.
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile& tile) {
  if constexpr (C::kAddC) prefetch_addends(consumer, tile);
  if constexpr (kPromotes<C>) consumer.factor = tensor_factor<C>(consumer.params, tile);
#pragma unroll
  for (int block = 0; block < Consumer<C>::kRowBlocks; ++block) {
#pragma unroll
    for (int s = 0; s < kSumColumns<C> / 2; ++s) consumer.sums[block][s] = 0.0f;
  }
}

/// An operand in shared memory: the one that gives a product its rows, or its columns.
template <class C, bool Rows>
struct Side {
  static constexpr bool kIsA = Rows != kSwapped<C>;
  static constexpr bool kMnMajor = kIsA ? C::kLeftMn : C::kRightMn;
  static constexpr int kSlotRows = kIsA ? C::kSlotRows : C::kSlotColumns;
  static constexpr int kStep = kMnMajor ? kMatrixK * kSwizzleRowBytes : kMatrixBytes;
  static constexpr int kBlock = (kMnMajor ? kSwizzleColumns : kSlotRows) * kSwizzleRowBytes;  // to the next of K
};

/// Products of 8-bit elements: each block's goes into partial sums of its own.
template <int Piece, class C>
TJ_DEVICE void multiply_piece(Consumer<C>& consumer, u32 a, u32 b) {
  using Steps = dev::MatrixSteps<kSwizzleRowBytes / kMatrixBytes, kMatrixBytes, kMatrixBytes, 0>;
  using Left = Side<C, true>;
  using Right = Side<C, false>;
  constexpr int kColumns = kSumColumns<C> / kPieces<C>;
  const u64 left = dev::matrix_operand((Left::kIsA ? a : b) + consumer.copy * kRowsPerConsumer * kSwizzleRowBytes, 16,
                                       kSwizzleAtomBytes),
            right =
                dev::matrix_operand((Left::kIsA ? b : a) + Piece * kColumns * kSwizzleRowBytes, 16, kSwizzleAtomBytes);
#pragma unroll
  for (int block = 0; block < C::kBlockK / kBlockColumns<C>; ++block) {
    auto& partial = consumer.partial[Consumer<C>::template set_of<Piece>(block)];
    dev::hold(partial);
    dev::matrix_multiply<Steps>(typename C::Element{}, partial, dev::operand_advance(left, block * Left::kBlock),
                                dev::operand_advance(right, block * Right::kBlock), false);
  }
}
template <int Piece, class C>
TJ_DEVICE void piece_done(Consumer<C>& consumer) {
#pragma unroll
  for (int block = 0; block < C::kBlockK / kBlockColumns<C>; ++block)
    dev::hold(consumer.partial[Consumer<C>::template set_of<Piece>(block)]);
}

/// sums (+)= a b^T, or in swapped tiles b a^T: 64 x kSumColumns for each block of rows. The group before may still be
/// adding to the same sums: nothing here touches them.
template <class C>
TJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int i, u32 a, u32 b) {
  if constexpr (kPromotes<C>) return multiply_piece<0>(consumer, a, b);
  using Left = Side<C, true>;
  using Right = Side<C, false>;
  constexpr int kOrder = (Left::kMnMajor ? dev::kLeftMn : 0) | (Right::kMnMajor ? dev::kRightMn : 0);
  constexpr int kSteps = kSwizzleRowBytes / kMatrixBytes;
  using Steps = dev::MatrixSteps<kSteps, Left::kStep, Right::kStep, kOrder>;
  // The distance between the rows of two products: a block of their own, or rows of a block.
  constexpr int kRowBlocks = Consumer<C>::kRowBlocks,
                kRowBytes = (Left::kMnMajor ? C::kBlockK : kRowsPerConsumer) * kSwizzleRowBytes;
  const u64 left =
      dev::matrix_operand((Left::kIsA ? a : b) + consumer.copy * kRowBlocks * kRowBytes, 16, kSwizzleAtomBytes);
  const u64 right =
      dev::matrix_operand(Left::kIsA ? b : a, Right::kMnMajor ? C::kBlockK * kSwizzleRowBytes : 16, kSwizzleAtomBytes);
#pragma unroll
  for (int block = 0; block < C::kBlockK / kBlockColumns<C>; ++block) {
    const u64 a_block = dev::operand_advance(left, block * Left::kBlock),
              b_block = dev::operand_advance(right, block * Right::kBlock);
#pragma unroll
    for (int row = 0; row < kRowBlocks; ++row)
      dev::matrix_multiply<Steps>(typename C::Element{}, consumer.sums[row],
                                  dev::operand_advance(a_block, row * kRowBytes), b_block, i != 0 || block != 0);
  }
}
/// Nothing is to be done between groups of 16-bit elements: store() is the first to look at the sums, after the last
/// group.
template <class C>
TJ_DEVICE void mma_done(Consumer<C>& consumer) {
  if constexpr (kPromotes<C>) piece_done<0>(consumer);
}

/// A piece's sums of an iteration's blocks, each of 128 products, to those in f32; times the scales of their rows and
/// columns where there are scales of blocks.
template <int Piece, class C>
TJ_DEVICE void promote_piece(Consumer<C>& consumer) {
  constexpr int kSums = Consumer<C>::kPieceSums;
#pragma unroll
  for (int block = 0; block < C::kBlockK / kBlockColumns<C>; ++block) {
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      const float partial = consumer.partial[Consumer<C>::template set_of<Piece>(block)][s];
      float& sum = consumer.sums[0][Piece * kSums + s];
      if constexpr (kScaled<C>)
        sum = dev::multiply_add(
            partial, consumer.factors[block][2 * (Piece * kSums + s) / Factors<C>::kPartColumns][s / 2 % 2], sum);
      else
        sum += partial;
    }
  }
}
template <class C>
TJ_DEVICE void promote(Consumer<C>& consumer, const Tile&, int) {
  promote_piece<0>(consumer);
}

}  // namespace tj::ops::gemm

#include "ops/gemm/addends.cuh"
#include "ops/gemm/staging.cuh"
