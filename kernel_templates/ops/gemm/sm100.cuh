// Matrix product on the matrix unit that works in tensor memory: the bodies of the graph's nodes.
//
// Decides what one node computes for one tile and iteration. Order, waits, slots, columns and roles come from the
// emitted unit. A block owns a kBlockM x kBlockN tile of d, in products of 128 rows; iteration i handles kBlockK of K.
// Pairs of blocks multiply together: 256 rows, of which each has half, by kBlockN columns, of which each has brought
// half. Invariant: a body touches registers of its own context, the slots and the columns that it is given, nothing
// else.
#pragma once

#include "ops/gemm/load.cuh"

namespace tj::ops::gemm {

/// Rows of one product: 128, or all of a tile of 64.
template <class C>
inline constexpr int kProductRows = C::kBlockM < 128 ? C::kBlockM : 128;
inline constexpr int kMatrixK = 16;

template <>
struct PairCopy<true> {
  TJ_DEVICE static void box(u32 place, const TensorMap* map, u32 full, int across, int down, int batch) {
    dev::copy_box_4d_for_pair(place, map, full, across, down, batch, 0);
  }
};

/// Asks the matrix unit; no state of its own.
template <class C_>
struct Product {
  using C = C_;
  const int copy;  ///< which rows of the block's tile
  TJ_DEVICE Product(const Params&, int which) : copy(which) {}
};

/// sums (+)= a b^T: kProductRows x kBlockN; of a pair of blocks, as many rows in each.
template <class C>
TJ_DEVICE void mma(Product<C>& product, const Tile&, int i, u32 a, u32 b, u32 sums) {
  constexpr int kOrder = (C::kLeftMn ? dev::kLeftMn : 0) | (C::kRightMn ? dev::kRightMn : 0);
  constexpr int kSteps = kSwizzleRowBytes / (kMatrixK * 2);
  using Steps = dev::MatrixSteps<kSteps, C::kLeftMn ? kMatrixK * kSwizzleRowBytes : kMatrixK * 2,
                                 C::kRightMn ? kMatrixK * kSwizzleRowBytes : kMatrixK * 2>;
  // The distance between the rows of two products: blocks of 64 rows, or rows of a block.
  constexpr int kCopyBytes =
      (C::kLeftMn ? C::kBlockK * (kProductRows<C> / kSwizzleColumns) : kProductRows<C>)*kSwizzleRowBytes;
  constexpr int kLeftBlock = (C::kLeftMn ? kSwizzleColumns : C::kSlotRows) * kSwizzleRowBytes;  // to the next of K
  constexpr int kRightBlock = (C::kRightMn ? kSwizzleColumns : C::kSlotColumns) * kSwizzleRowBytes;
  constexpr int kBlocks = C::kPairs ? 2 : 1;
  constexpr u32 kInstruction =
      dev::matrix_instruction<kBlocks * kProductRows<C>, C::kBlockN, kOrder>(typename C::Element{});
  const u64 left = dev::matrix_operand(a + product.copy * kCopyBytes, C::kLeftMn ? C::kBlockK * kSwizzleRowBytes : 16,
                                       kSwizzleAtomBytes);
  const u64 right = dev::matrix_operand(b, C::kRightMn ? C::kBlockK * kSwizzleRowBytes : 16, kSwizzleAtomBytes);
#pragma unroll
  for (int block = 0; block < C::kBlockK / kBlockColumns<C>; ++block)
    dev::matrix_multiply_steps<Steps, kBlocks>(sums, dev::operand_advance(left, block * kLeftBlock),
                                               dev::operand_advance(right, block * kRightBlock), kInstruction,
                                               i != 0 || block != 0);
}

template <class C>
inline constexpr int kConsumerRows = kProductRows<C>;

/// Columns that one load of sums brings.
template <class C, class = void>
inline constexpr int kLoadColumns = 32;
template <class C>
inline constexpr int kLoadColumns<C, decltype(void(C::kLoadColumns))> = C::kLoadColumns;

/// Four warps that bring a product's rows of sums to d, a quarter each, 32 columns at a time.
template <class C_>
struct Consumer {
  using C = C_;
  static constexpr int kRowBlocks = kProductRows<C_> / 64, kColumns = C::kBlockN;
  const Params& params;
  const int copy;  ///< which rows of the block's tile
  const int lane;
  u32 columns;  ///< of tensor memory, in the lanes of this warp
  bool empty;   ///< a tile without iterations has no sums
  float sums[kRowBlocks][16];
  TJ_DEVICE Consumer(const Params& p, int which) : params(p), copy(which), lane(static_cast<int>(dev::lane_index())) {}
  TJ_DEVICE int row(int block) const {
    return copy * kProductRows<C> + static_cast<int>(dev::warp_index() & 3u) * (16 * kRowBlocks) + block * 16;
  }
  TJ_DEVICE int column() const { return 0; }
  TJ_DEVICE float sum(int block, int at) const { return sums[block][at % 16]; }
  TJ_DEVICE void begin(const Tile& tile, u32 at) {
    columns = dev::tensor_lanes(at);
    empty = tile.trip_count == 0;
  }
  TJ_DEVICE void finished() {}
  static constexpr bool kKeepsRows = !C::kAddC;  ///< beside c the compiler would take a third longer
  TJ_DEVICE void afresh() {}
  /// The sums of a part of the columns.
  TJ_DEVICE void bring(int part) {
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      if (empty) {
#pragma unroll
        for (int i = 0; i < 16; ++i) sums[block][i] = 0.0f;
      } else {
        constexpr int kWords = kLoadColumns<C> / 2;
#pragma unroll
        for (int i = 0; i < 16; i += kWords)
          dev::tensor_load_fragment(dev::tensor_place(columns, block * 16, part * 32 + 2 * i),
                                    reinterpret_cast<float(&)[kWords]>(sums[block][i]));
      }
    }
    dev::tensor_load_wait<0>();
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) dev::hold(sums[block]);
  }
};

/// The factor of the sums.
template <class C>
TJ_DEVICE float product_factor(const Consumer<C>& consumer) {
  return consumer.params.alpha;
}

}  // namespace tj::ops::gemm

#include "ops/gemm/staging.cuh"

namespace tj::ops::gemm {

template <class C>
TJ_DEVICE void store(Consumer<C>& consumer, const Tile& tile, u32 sums) {
  consumer.begin(tile, sums);
  store(consumer, tile);
}
template <class C>
TJ_DEVICE void stage_rows(Consumer<C>& consumer, const Tile& tile, u32 sums, u32 slot) {
  consumer.begin(tile, sums);
  stage_rows(consumer, tile, slot);
}

}  // namespace tj::ops::gemm
