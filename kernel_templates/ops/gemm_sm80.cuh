// Matrix product on matrix instructions of a warp: the bodies of the graph's nodes.
//
// Decides what one node computes for one tile and iteration. Order, waits, slots and roles come from the emitted unit.
// A block owns a kBlockM x kBlockN tile of d, which its warps share as kWarpsM x kWarpsN pieces; iteration i handles kBlockK of K. What a
// warp loads of a piece's rows serves all of its columns, and the other way round.
// Invariant: a body touches registers of its own context and the slots that it is given, nothing else.
#pragma once

#include "ops/gemm_tile.cuh"
#include "tiles.cuh"

namespace tj::ops::gemm {

inline constexpr int kMatrix = 16;  ///< rows, columns and depth of what four matrices of shared memory make

/// All warps of the block, each with its piece of the tile. A thread holds rows lane / 4 and lane / 4 + 8 of each sixteen, columns
/// 8j + 2(lane % 4) + {0, 1}.
template <class C_>
struct Consumer {
  using C = C_;
  static constexpr int kRowBlocks = C::kBlockM / C::kWarpsM / kMatrix, kColumns = C::kBlockN / C::kWarpsN;
  const Params& params;
  const int warp;
  float sums[kRowBlocks][kColumns / 8][4];
  TJ_DEVICE Consumer(const Params& p, int) : params(p), warp(static_cast<int>(dev::warp_index() % (C::kWarpsM * C::kWarpsN))) {}
  TJ_DEVICE int row(int block) const { return (warp % C::kWarpsM * kRowBlocks + block) * kMatrix; }
  TJ_DEVICE int column() const { return warp / C::kWarpsM * kColumns; }
  TJ_DEVICE float sum(int block, int at) const { return sums[block][at / 4][at % 4]; }
  TJ_DEVICE void finished() {}
};

/// What the sums are multiplied by.
template <class C>
TJ_DEVICE float product_factor(const Consumer<C>& consumer) {
  return consumer.params.alpha;
}

template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile&) {
#pragma unroll
  for (auto& rows : consumer.sums) {
#pragma unroll
    for (auto& columns : rows) {
#pragma unroll
      for (float& sum : columns) sum = 0.0f;
    }
  }
}

/// Where an operand's block of 16 of M or N by 16 of K, of which this lane names a row of eight elements, begins in a slot with room for
/// `Rows` of M or N. K-major its rows are M's or N's, else K's; `row` and `piece` are this lane's in the block.
template <class C, bool MnMajor, int Rows>
TJ_DEVICE u32 block_address(u32 slot, int mn, int k, u32 row, u32 piece) {
  constexpr int kBytes = kRowBytes<C, MnMajor>, kColumns = kBytes / 2, kPitch = (MnMajor ? C::kBlockK : Rows) * kBytes;
  const int across = MnMajor ? mn : k, down = MnMajor ? k : mn;
  return dev::piece_address<kBytes>(slot + static_cast<u32>(across / kColumns * kPitch), static_cast<u32>(down) + row,
                                    static_cast<u32>(across % kColumns / 8) + piece);
}

/// The operands of a warp's products over 16 of K.
template <class C>
struct Fragments {
  u32 left[Consumer<C>::kRowBlocks][4], right[Consumer<C>::kColumns / kMatrix][4];
};
template <class C>
TJ_DEVICE void load_fragments(const Consumer<C>& consumer, u32 a, u32 b, int k, Fragments<C>& fragments) {
#pragma unroll
  for (int r = 0; r < Consumer<C>::kRowBlocks; ++r) {
    if constexpr (C::kLeftMn)
      dev::load_matrices_transposed(block_address<C, true, C::kBlockM>(a, consumer.row(r), k, dev::across_row(), dev::across_piece()), fragments.left[r]);
    else dev::load_matrices(block_address<C, false, C::kBlockM>(a, consumer.row(r), k, dev::down_row(), dev::down_piece()), fragments.left[r]);
  }
#pragma unroll
  for (int j = 0; j < Consumer<C>::kColumns / kMatrix; ++j) {
    const int column = consumer.column() + j * kMatrix;
    if constexpr (C::kRightMn)
      dev::load_matrices_transposed(block_address<C, true, C::kBlockN>(b, column, k, dev::down_row(), dev::down_piece()), fragments.right[j]);
    else dev::load_matrices(block_address<C, false, C::kBlockN>(b, column, k, dev::across_row(), dev::across_piece()), fragments.right[j]);
  }
}

/// sums += a b^T. Operands of the next 16 of K are under way while those before are multiplied.
template <class C>
TJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int, u32 a) {
  const u32 b = a + kLeftBytes<C>;
  constexpr int kSteps = C::kBlockK / kMatrix;
  const typename C::Element tag{};
  Fragments<C> fragments[2];
  load_fragments(consumer, a, b, 0, fragments[0]);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (step + 1 < kSteps) load_fragments(consumer, a, b, (step + 1) * kMatrix, fragments[(step + 1) % 2]);
    const Fragments<C>& now = fragments[step % 2];
#pragma unroll
    for (int r = 0; r < Consumer<C>::kRowBlocks; ++r) {
#pragma unroll
      for (int j = 0; j < Consumer<C>::kColumns / kMatrix; ++j) {
        dev::mma_m16n8k16(tag, consumer.sums[r][2 * j], now.left[r], now.right[j][0], now.right[j][1]);
        dev::mma_m16n8k16(tag, consumer.sums[r][2 * j + 1], now.left[r], now.right[j][2], now.right[j][3]);
      }
    }
  }
}

}  // namespace tj::ops::gemm

#include "ops/gemm_store.cuh"
