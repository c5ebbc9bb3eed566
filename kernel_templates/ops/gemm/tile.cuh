// Tiles of d, and which of them a block works on: for every family of a matrix product's node bodies.
//
// Decides the order of tiles, and how K is cut for them. Invariant: all blocks of a cluster walk tiles with the same
// trip counts, but where they do one tile together.
#pragma once

#include "ops/gemm/params.cuh"
#include "piece.cuh"

namespace tj::ops::gemm {

using dev::cut_tile;
using dev::first_tile;
using dev::u32;
using dev::u64;

inline constexpr int kSwizzleRowBytes = 128;
inline constexpr u32 kSwizzleAtomBytes = 1024;

/// Elements of a or b in a block's row.
template <class C>
inline constexpr int kBlockColumns = kSwizzleRowBytes / dev::kElementBytes<typename C::Element>;

/// Bytes of a row in a block of an operand: 128, or all of an iteration's K where that is less.
template <class C, bool MnMajor>
inline constexpr int kRowBytes =
    MnMajor || C::kBlockK >= kBlockColumns<C> ? kSwizzleRowBytes : C::kBlockK * dev::kElementBytes<typename C::Element>;

/// Bytes of the left operand: the right one begins behind them in a slot that holds both.
template <class C>
inline constexpr u32 kLeftBytes = C::kSlotRows * C::kBlockK * dev::kElementBytes<typename C::Element>;

/// Do blocks share tiles?
template <class C, class = void>
inline constexpr bool kSplits = false;
template <class C>
inline constexpr bool kSplits<C, decltype(void(C::kSplit))> = C::kSplit;

/// Do blocks of a cluster do a tile together, each a slice of K?
template <class C, class = void>
inline constexpr bool kSliced = false;
template <class C>
inline constexpr bool kSliced<C, decltype(void(C::kSliced))> = C::kSliced;

/// Are rows of a matrix instruction columns of d, and its columns rows of d? Then b's rows come first in a product, and
/// rows of d in steps of 8.
template <class C, class = void>
inline constexpr bool kSwapped = false;
template <class C>
inline constexpr bool kSwapped<C, decltype(void(C::kSwapped))> = C::kSwapped;
/// Columns of a block's sums.
template <class C>
inline constexpr int kSumColumns = kSwapped<C> ? C::kBlockM : C::kBlockN;

/// The activation of a tile's first half of sums, times which the second half is d's. 0: there is no gate.
template <class C, class = void>
inline constexpr int kGate = 0;
template <class C>
inline constexpr int kGate<C, decltype(void(C::kGate))> = C::kGate;
/// Columns of b's halves that a tile has: none, or one for the gate and one for what it multiplies.
template <class C>
inline constexpr int kHalves = kGate<C> == 0 ? 1 : 2;
/// Columns of d that a tile has.
template <class C>
inline constexpr int kTileColumns = C::kBlockN / kHalves<C>;

/// The type of c: d's, or f32 beside a d of 16 bits.
template <class C, class = void>
struct AddendElement {
  using Type = typename C::Output;
};
template <class C>
struct AddendElement<C, decltype(void(C::kAddF32))> {
  using Type = dev::F32;
};
template <class C>
using Addend = typename AddendElement<C>::Type;

/// The type of bias: that of d, or what d would have if it were not quantised.
template <class Element, class Output>
struct AddedElement {
  using Type = Output;
};
template <class Element>
struct AddedElement<Element, dev::E4m3> {
  using Type = Element;
};
template <>
struct AddedElement<dev::E4m3, dev::E4m3> {
  using Type = dev::Bf16;
};
template <class C>
using Added = typename AddedElement<typename C::Element, typename C::Output>::Type;

/// Are sums of some of K added to others in f32? Matrix units keep 13 bits of fraction of sums of 8-bit products.
template <class C>
inline constexpr bool kPromotes = dev::kElementBytes<typename C::Element> == 1;
/// Are an iteration's sums multiplied by scales of blocks?
template <class C, class = void>
inline constexpr bool kScaled = false;
template <class C>
inline constexpr bool kScaled<C, decltype(void(C::kScales))> = true;
/// Are those exponents of two, of 8 bits, four blocks' in a word?
template <class C, class = void>
inline constexpr bool kPacked = false;
template <class C>
inline constexpr bool kPacked<C, decltype(void(C::kPackedScales))> = C::kPackedScales;

/// How rows are told which matrix of b is theirs: groups.cuh has the kinds but none.
template <class C, class = void>
inline constexpr int kGroups = kNoGroups;
template <class C>
inline constexpr int kGroups<C, decltype(void(C::kGroups))> = C::kGroups;
/// Do tiles follow each other group after group?
template <class C>
inline constexpr bool kWalksGroups = kGroups<C> == kGroupEnds || kGroups<C> == kGroupCounts;

/// Do boxes of K end with their group? Groups of 8-bit elements begin at multiples of 128 of K.
template <class C>
inline constexpr bool kEndsDepths = kGroups<C> == kGroupDepths && dev::kElementBytes<typename C::Element> == 2;

/// A group, and the tiles of those before it.
struct GroupPlace {
  int group = 0, before = 0;
};

/// The work of one block.
struct Tile {
  int index;  ///< of the block that does it, were there a block for each part of each tile
  bool valid;
  int row, column, batch;
  int matrix;  ///< of d: the batch's, or that of a part of K
  int first;   ///< iteration of K with which this tile's begin
  int trip_count;
  int left_batch, right_batch;  ///< matrices of a and b
  int left_rows, right_rows;    ///< of kernels that skip boxes outside a and b: those that boxes bring, of each half
  int left_box, right_box;      ///< rows of their boxes
  dev::Piece piece;             ///< of kernels that split tiles
  int row_end;                  ///< of kernels with groups: the row behind the last that is stored
  GroupPlace place;             ///< likewise: where the search for the next tile's group begins
  int depth_begin, depth_end;   ///< of kernels with kGroupDepths: the group's part of K
};

/// The factor of a tile's sums: alpha and the scales of all of a and of b. To be asked for early, so that the tile's
/// end does not wait. Without iterations scales are no more read than a and b are.
template <class C>
TJ_DEVICE float tensor_factor(const Params& params, const Tile& tile) {
  float factor = params.alpha;
  if (kScaled<C> || tile.trip_count == 0) return factor;
  if (params.scale_a != nullptr) factor *= dev::load_global(params.scale_a);
  if (params.scale_b != nullptr) factor *= dev::load_global(params.scale_b);
  return factor;
}
/// The scale of block `block` of K in its word of exponents. 0 is 2^-127, whose bits are those of a fraction alone, and
/// 255 a NaN.
TJ_DEVICE float packed_scale(u32 word, int block) {
  const u32 exponent = word >> block % kPackedBlocks * 8 & 0xffu;
  return dev::number_of(exponent << 23 | (exponent % 255u == 0 ? 1u << 22 : 0u));
}

/// The row behind the last one of d that the tile's rows may be.
template <class C>
TJ_DEVICE int rows_end(const Params& params, const Tile& tile) {
  if constexpr (kGroups<C> != kNoGroups)
    return tile.row_end;
  else
    return params.m;
}

/// Blocks of a cluster, or of one slice of it, take a tile's parts: kClusterM below each other, kClusterN beside each
/// other. One that lies outside the matrix takes part in the copies of the others and stores nothing.
template <class C>
inline constexpr int kBlocks = C::kClusterM * C::kClusterN;

/// Do copies leave out boxes that lie outside a or b? What is in a slot in their place adds to no element of d.
template <class C, class = void>
inline constexpr bool kSkips = false;
template <class C>
inline constexpr bool kSkips<C, decltype(void(C::kSkips))> = C::kSkips;

/// Rows of a that boxes bring to a block: where M is contiguous they are 64 wide.
template <class C>
inline constexpr int kLeftRows =
    C::kLeftMn ? (C::kBlockM + kBlockColumns<C> - 1) / kBlockColumns<C> * kBlockColumns<C> : C::kBlockM;

/// Rows that boxes bring of a block of Block, of which `inside` lie in the matrix: `most` of a whole one, `last` where
/// it is partly inside.
template <int Block>
TJ_DEVICE int boxed_rows(int inside, int last, int most) {
  return inside >= Block ? most : inside > 0 ? last : 0;
}

/// The place of a cluster's tile in the order of tiles. Clusters with neighbouring numbers go to groups of
/// multiprocessors in turn. Those of one group get neighbouring places of their wave: what several multiprocessors of a
/// group read at once, L2 gives once.
TJ_DEVICE int dealt_place(const Params& params, int cluster) {
  if (params.dealt_over == 0) return cluster;
  const int first = cluster < params.wave ? 0 : divided(cluster, params.by_wave) * params.wave;
  const int count = min(params.wave, params.tiles - first), number = cluster - first;
  const int turn = divided(number, params.by_dealt), group = number - turn * params.dealt_over;
  const int each = divided(count, params.by_dealt), rest = count - each * params.dealt_over;
  return first + group * each + min(group, rest) + turn;
}

// Never called, as tile_at() of pipeline.cuh; groups.cuh has them.
template <class C>
TJ_DEVICE void group_tile();
template <class C>
TJ_DEVICE void group_tiles();
template <class C>
TJ_DEVICE void name_group();
template <class C>
TJ_DEVICE void find_depths();

template <class C>
TJ_DEVICE int tile_count(const Params& params) {
  if constexpr (kWalksGroups<C>)
    return group_tiles<C>(params) * kBlocks<C>;
  else
    return params.tiles * kBlocks<C>;
}

template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int block, const GroupPlace& from = {}) {
  if constexpr (kWalksGroups<C>) return group_tile<C>(params, block, from);
  Tile tile;
  tile.index = block;
  tile.valid = block / kBlocks<C> < params.tiles;
  return tile;
}
template <class C>
TJ_DEVICE void complete_tile(C, const Params& params, Tile& tile) {
  if constexpr (kWalksGroups<C>) return;
  int index = tile.index / kBlocks<C>;
  if constexpr (kBlocks<C> > 1 || kSliced<C>) index = dealt_place(params, index);
  // Down group_rows tiles, then one to the right: blocks that run together share rows of a and of b in L2.
  const int per_batch = params.row_tiles * params.column_tiles;
  tile.batch = divided(index, params.by_matrix);
  const int place = index - tile.batch * per_batch;
  const int group = divided(place, params.by_group);
  const int first_row = group * params.group_rows;
  const int rows = min(params.group_rows, params.row_tiles - first_row);
  const int inside = place - group * params.group_rows * params.column_tiles;
  const int column = divided(inside, rows == params.group_rows ? params.by_rows : params.by_last_rows);
  tile.row = (first_row + inside - column * rows) * C::kClusterM * C::kBlockM;
  tile.column = column * C::kClusterN * kTileColumns<C>;
  if constexpr (kBlocks<C> > 1) {
    int rank = static_cast<int>(dev::cluster_rank());
    if constexpr (kSliced<C>) rank %= kBlocks<C>;
    tile.row += rank / C::kClusterN * C::kBlockM;
    tile.column += rank % C::kClusterN * kTileColumns<C>;
  }
  if constexpr (kSkips<C>) {
    tile.left_box = params.a_box;
    tile.right_box = params.b_box;
    tile.left_rows = boxed_rows<C::kBlockM>(params.m - tile.row, params.a_last, kLeftRows<C>);
    tile.right_rows = boxed_rows<kTileColumns<C>>(params.n - tile.column, params.b_last, kTileColumns<C>);
  } else {
    tile.left_box = tile.left_rows = C::kBlockM;
    tile.right_box = tile.right_rows = kTileColumns<C>;
  }
  tile.matrix = tile.batch;
  tile.first = 0;
  tile.trip_count = params.k_blocks;
  if constexpr (C::kParts) {
    const int part = divided(tile.matrix, params.by_batches);
    tile.batch -= part * params.batches;
    tile.first = part * params.part_blocks;
    tile.trip_count = min(params.part_blocks, params.k_blocks - tile.first);
  }
  tile.left_batch = tile.batch * params.a_batched;
  tile.right_batch = tile.batch * params.b_batched;
  if constexpr (kGroups<C> == kGroupOfRow) name_group<C>(params, tile);
  if constexpr (kGroups<C> == kGroupDepths) find_depths<C>(params, tile);
}
template <class C>
TJ_DEVICE Tile next_tile(const Params& params, const Tile& tile) {
  const int next = tile.index + static_cast<int>(dev::grid_blocks());
  if constexpr (kWalksGroups<C>)
    return tile_at<C>(params, next, tile.place);
  else
    return tile_at<C>(params, next);
}

/// An iteration's place in K, and where its group ends, of kernels with kEndsDepths.
struct Depth {
  int begin, end;
};
template <class C>
TJ_DEVICE Depth depth_of(const Tile& tile, int i) {
  if constexpr (kEndsDepths<C>)
    return {tile.depth_begin + i * C::kBlockK, tile.depth_end};
  else
    return {(tile.first + i) * C::kBlockK, 0};
}

/// Behind the last row of K of an operand that counts: the group's, or all of them.
template <class C>
TJ_DEVICE int depth_end(int all, const Depth& depth) {
  if constexpr (kEndsDepths<C>)
    return min(all, depth.end);
  else
    return all;
}

template <class C>
TJ_DEVICE int tile_iterations(const Params& params) {
  return params.k_blocks;
}
/// Does this block finish the tile, and not only leave sums for another one?
template <class C>
TJ_DEVICE bool finishes(const Tile& tile) {
  if constexpr (kSplits<C>)
    return tile.piece.last;
  else
    return true;
}

}  // namespace tj::ops::gemm
