// Matrix product on warpgroup matrix instructions: the bodies of the graph's nodes.
//
// Decides what one node computes for one tile and iteration. Order, waits, slots and roles come from the emitted unit.
// A block owns a kBlockM x kBlockN tile of d, kRowsPerConsumer rows for each consumer; iteration i handles kBlockK of K. An
// operand lies in shared memory as blocks that are 128 bytes wide along its contiguous dimension.
// Of e4m3 the matrix unit keeps 13 bits of fraction (launch/model_matrix_e4m3.cpp names who measured it): its sums grow over one
// block of 128 bytes only, promote() adds them to others in f32.
// Invariant: a body touches registers of its own context and the slots that it is given, nothing else.
#pragma once

#include "ops/gemm_params.cuh"

namespace tj::ops::gemm {

using dev::u32;
using dev::u64;

inline constexpr int kSwizzleRowBytes = 128;
inline constexpr u32 kSwizzleAtomBytes = 1024;
inline constexpr int kMatrixK = 16;           ///< of 16-bit elements
inline constexpr int kMatrixBytes = 32;       ///< of K, of any elements

/// Elements of a or b in a block's row.
template <class C>
inline constexpr int kBlockColumns = kSwizzleRowBytes / dev::kElementBytes<typename C::Element>;
template <class C>
inline constexpr bool kPromotes = dev::kElementBytes<typename C::Element> == 1;

/// The work of one block.
struct Tile {
  int index;
  bool valid;
  int row, column, batch;
  int matrix;      ///< of d: the batch's, or that of a part of K
  int first;       ///< iteration of K with which this tile's begin
  int trip_count;
};

/// Blocks of a cluster take a tile's parts: kClusterM below each other, kClusterN beside each other. One that lies outside the matrix
/// takes part in the copies of the others and stores nothing.
template <class C>
inline constexpr int kBlocks = C::kClusterM * C::kClusterN;

template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  Tile tile;
  tile.index = index;
  tile.valid = index < params.tiles;
  if (!tile.valid) return tile;
  // Down group_rows tiles, then one to the right: blocks that run together share rows of a and of b in L2.
  const int per_batch = params.row_tiles * params.column_tiles;
  tile.batch = index / per_batch;
  const int place = index - tile.batch * per_batch;
  const int group = place / (params.group_rows * params.column_tiles);
  const int first_row = group * params.group_rows;
  const int rows = min(params.group_rows, params.row_tiles - first_row);
  const int inside = place - group * params.group_rows * params.column_tiles;
  const int column = inside / rows;
  tile.row = (first_row + inside - column * rows) * C::kClusterM * C::kBlockM;
  tile.column = column * C::kClusterN * C::kBlockN;
  if constexpr (kBlocks<C> > 1) {
    const int rank = static_cast<int>(dev::cluster_rank());
    tile.row += rank / C::kClusterN * C::kBlockM;
    tile.column += rank % C::kClusterN * C::kBlockN;
  }
  tile.matrix = tile.batch;
  tile.first = 0;
  tile.trip_count = params.k_blocks;
  if constexpr (C::kParts) {
    const int part = tile.matrix / params.batches;
    tile.batch -= part * params.batches;
    tile.first = part * params.part_blocks;
    tile.trip_count = min(params.part_blocks, params.k_blocks - tile.first);
  }
  return tile;
}
template <class C>
TJ_DEVICE Tile first_tile(const Params& params) {
  return tile_at<C>(params, static_cast<int>(dev::block_index()) / kBlocks<C>);
}
template <class C>
TJ_DEVICE Tile next_tile(const Params& params, const Tile& tile) {
  return tile_at<C>(params, tile.index + static_cast<int>(dev::grid_blocks()) / kBlocks<C>);
}

/// Issues the copies; no state of its own.
template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {
    dev::prefetch_map(&p.a);
    dev::prefetch_map(&p.b);
  }
};

/// What a consumer of e4m3 has besides: the matrix unit's sums over each block of an iteration, and alpha times both scales.
template <class C, bool = kPromotes<C>>
struct Partial {};
template <class C>
struct Partial<C, true> {
  float partial[C::kBlockK / kBlockColumns<C>][C::kBlockN / 2];
  float factor;
};

/// One warpgroup's 64 rows. A thread holds rows row0 and row0 + 8, columns 8j + 2(lane % 4) + {0, 1}.
template <class C_>
struct Consumer : Partial<C_> {
  using C = C_;
  const Params& params;
  const int copy;           ///< which 64 rows of the block's tile
  const int row0, column0;  ///< of this thread's fragments, inside the 64 rows and 8 columns
  float sums[C::kBlockN / 2];
  TJ_DEVICE Consumer(const Params& p, int which)
      : params(p), copy(which),
        row0(static_cast<int>((dev::warp_index() & 3u) * 16u + dev::lane_index() / 4u)),
        column0(static_cast<int>(dev::lane_index() & 3u) * 2) {}
};

/// Brings to d what a consumer has left in shared memory.
template <class C_>
struct Writer {
  using C = C_;
  const Params& params;
  const int copy;  ///< the consumer's
  TJ_DEVICE Writer(const Params& p, int which) : params(p), copy(which) {
    if constexpr (C::kStore == kCopied) dev::prefetch_map(&p.d);
  }
};

// ---- loads ----------------------------------------------------------------------------------------------------------
/// Rows of a that a slot has room for: those of all consumers, also where fewer are copied; sums of the others are never stored.
template <class C>
inline constexpr int kSlotRows = C::kBlockM < kRowsPerConsumer ? kRowsPerConsumer : C::kBlockM;

/// An operand's block in a slot: rows of a or b, those that the slot has room for, elements of K.
template <bool MnMajor, int Rows, int SlotRows, int Depth>
struct Block {
  static constexpr int kAcross = MnMajor ? Rows : Depth, kDown = MnMajor ? Depth : Rows;
  static constexpr int kPitch = (MnMajor ? Depth : SlotRows) * kSwizzleRowBytes;  // of 128 bytes across
  static constexpr bool kMnMajor = MnMajor;
  static constexpr int kDepth = Depth;
};
/// This block's share of it: all that is across, part of what goes down.
template <class C, class B, class Share>
TJ_DEVICE void load_operand(const TensorMap* map, int row, int i, int batch, u32 slot, u32 full, Share share) {
  constexpr int kDown = B::kDown / Share::kParts;
  static_assert(kDown * Share::kParts == B::kDown && kDown * kSwizzleRowBytes % kSwizzleAtomBytes == 0, "parts are whole swizzle patterns");
  const int skipped = static_cast<int>(share.part) * kDown;
  const int across = B::kMnMajor ? row : i * B::kDepth, down = (B::kMnMajor ? i * B::kDepth : row) + skipped;
#pragma unroll  // rolled, a short iteration waits for the thread that issues its copies: 433 cycles instead of 345 for tiles of 16 x 32
  for (int at = 0; at < B::kAcross; at += kBlockColumns<C>) {
    const u32 place = slot + at / kBlockColumns<C> * B::kPitch + skipped * kSwizzleRowBytes;
    if constexpr (Share::kParts > 1) dev::copy_box_4d_multicast(place, map, full, share.mask, across + at, down, batch, 0);
    else dev::copy_box_4d(place, map, full, across + at, down, batch, 0);
  }
}
template <class C, class Share = dev::Share<1>>
TJ_DEVICE void load_a(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full, Share share = {}) {
  const Params& params = loader.params;
  load_operand<C, Block<C::kLeftMn, C::kBlockM, kSlotRows<C>, C::kBlockK>>(&params.a, tile.row, tile.first + i, tile.batch * params.a_batched, slot, full, share);
}
template <class C, class Share = dev::Share<1>>
TJ_DEVICE void load_b(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full, Share share = {}) {
  const Params& params = loader.params;
  load_operand<C, Block<C::kRightMn, C::kBlockN, C::kBlockN, C::kBlockK>>(&params.b, tile.column, tile.first + i, tile.batch * params.b_batched, slot, full, share);
}

// ---- one consumer ---------------------------------------------------------------------------------------------------
/// Early, so that the tile's end does not wait for them. Without iterations the scales are no more read than a and b are.
template <class C>
TJ_DEVICE void read_scales(Consumer<C>& consumer, const Tile& tile) {
  const Params& params = consumer.params;
  consumer.factor = params.alpha;
  if (tile.trip_count == 0) return;
  if (params.scale_a != nullptr) consumer.factor *= dev::load_global(params.scale_a);
  if (params.scale_b != nullptr) consumer.factor *= dev::load_global(params.scale_b);
}
/// What the sums are multiplied by.
template <class C>
TJ_DEVICE float product_factor(const Consumer<C>& consumer) {
  if constexpr (kPromotes<C>) return consumer.factor;
  else return consumer.params.alpha;
}

/// The first product of a tile overwrites the sums, but for those of promote(); a tile without any has to clear them.
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile& tile) {
  if constexpr (kPromotes<C>) read_scales(consumer, tile);
  else if (tile.trip_count > 0) return;
#pragma unroll
  for (float& sum : consumer.sums) sum = 0.0f;
}

/// sums (+)= a b^T: 64 x kBlockN. The group before may still be adding to the same sums: nothing here touches them.
/// Of e4m3: each block's product into its own partial sums.
template <class C>
TJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int i, u32 a, u32 b) {
  constexpr int kOrder = (C::kLeftMn ? dev::kLeftMn : 0) | (C::kRightMn ? dev::kRightMn : 0);
  constexpr int kSteps = kSwizzleRowBytes / kMatrixBytes;
  constexpr int kLeftStep = C::kLeftMn ? kMatrixK * kSwizzleRowBytes : kMatrixBytes;
  constexpr int kRightStep = C::kRightMn ? kMatrixK * kSwizzleRowBytes : kMatrixBytes;
  using Steps = dev::MatrixSteps<kSteps, kLeftStep, kRightStep, kOrder>;
  // What one consumer's rows are apart: a block of their own, or rows of a block.
  constexpr int kCopyBytes = (C::kLeftMn ? C::kBlockK : kRowsPerConsumer) * kSwizzleRowBytes;
  constexpr int kLeftBlock = (C::kLeftMn ? kSwizzleColumns : kSlotRows<C>) * kSwizzleRowBytes;  // to the next of K
  constexpr int kRightBlock = (C::kRightMn ? kSwizzleColumns : C::kBlockN) * kSwizzleRowBytes;
  const u64 left = dev::matrix_operand(a + consumer.copy * kCopyBytes, 16, kSwizzleAtomBytes);
  const u64 right = dev::matrix_operand(b, C::kRightMn ? C::kBlockK * kSwizzleRowBytes : 16, kSwizzleAtomBytes);
#pragma unroll
  for (int block = 0; block < C::kBlockK / kBlockColumns<C>; ++block) {
    const u64 a_block = dev::operand_advance(left, block * kLeftBlock), b_block = dev::operand_advance(right, block * kRightBlock);
    if constexpr (kPromotes<C>) {
      dev::hold(consumer.partial[block]);
      dev::matrix_multiply<Steps>(typename C::Element{}, consumer.partial[block], a_block, b_block, false);
    } else {
      dev::matrix_multiply<Steps>(typename C::Element{}, consumer.sums, a_block, b_block, i != 0 || block != 0);
    }
  }
}
/// Of 16-bit elements nothing is to be done between groups; store() looks at the sums first, after the last.
template <class C>
TJ_DEVICE void mma_done(Consumer<C>& consumer) {
  if constexpr (kPromotes<C>) {
#pragma unroll
    for (int block = 0; block < C::kBlockK / kBlockColumns<C>; ++block) dev::hold(consumer.partial[block]);
  }
}

/// The sums of an iteration's blocks, each of 128 products, to those in f32.
template <class C>
TJ_DEVICE void promote(Consumer<C>& consumer, const Tile&, int) {
#pragma unroll
  for (int block = 0; block < C::kBlockK / kBlockColumns<C>; ++block) {
#pragma unroll
    for (int s = 0; s < C::kBlockN / 2; ++s) consumer.sums[s] += consumer.partial[block][s];
  }
}

}  // namespace tj::ops::gemm

#include "ops/gemm_store.cuh"
