// Tiles of attention: the queries and keys that a block works on, and which of them see each other. They are the same
// for every family.
//
// Decides tiles, the keys of an iteration, from which iteration on nothing is hidden, and how a hidden score is told.
// Does not decide which keys a row sees (mask.cuh), nor where registers hold its scores. Iteration i handles the
// i-th block of the tile's keys from its end, so that blocks which need masking come first. Invariant: touches no
// memory.
#pragma once

#include "ops/fmha/mods.cuh"
#include "ops/fmha/sequences.cuh"

namespace tj::ops::fmha {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;
using dev::u64;

/// The work of one block: a query tile of one head, and which blocks of keys it sees.
struct Tile {
  int index;
  bool valid;
  int row, head, batch;  ///< batch: the sequence's number, with kVarlen
  int first_block;  ///< of kBlockN keys, the first that some row sees: a constant 0 where every row sees the first key
  int trip_count;
  int part;           ///< of the keys that its rows see, with kPacked
  Sequence sequence;  ///< of kernels with kVarlen
  int all0, all1;     ///< with kKeyRange: the text says that every row sees these keys
};

/// The mask of a tile's sequence, or of all.
template <class C>
TJ_DEVICE Mask mask_of(const Params& params, const Tile& tile) {
  Mask mask = mask_of<C>(params);
  if constexpr (Varlen<C>::kOn) {
    mask.queries = tile.sequence.queries << mask.shift;
    mask.keys = tile.sequence.keys;
    mask.facing = params.top_left != 0 ? mask.keys : tile.sequence.queries;
  }
  return mask;
}
/// The rows of tensors at which the tile's queries and keys begin.
template <class C>
TJ_DEVICE int queries_begin(const Tile& tile) {
  if constexpr (Varlen<C>::kOn)
    return tile.sequence.first_query;
  else
    return 0;
}
template <class C>
TJ_DEVICE int keys_begin(const Tile& tile) {
  if constexpr (Varlen<C>::kOn)
    return tile.sequence.first_key;
  else
    return 0;
}

/// Leaves a tile the blocks of keys that a text says some of its rows see. The walk is one range of blocks, so it keeps
/// those between the first and the last.
template <class C>
TJ_DEVICE void take_range(const Params& params, Tile& tile) {
  tile.all0 = tile.all1 = 0;
  const Mask mask = mask_of<C>(params, tile);
  if (tile.trip_count <= 0) return;
  const int last = min(tile.row + C::kRowsPerBlock, mask.queries) - 1;
  const QueryPlaces queries = {mask.place_of(tile.row), mask.place_of(last) + 1};
  const int heads = Packed<C>::kOn ? params.group : 1, head = tile.head * heads;
  const KeyRanges ranges = ranges_of_heads<C>(params, tile.batch, head, head + heads, queries, mask.keys);
  const bool some = ranges.k0 < ranges.k1;
  const int end = min(tile.first_block + tile.trip_count, some ? (ranges.k1 - 1) / C::kBlockN + 1 : 0);
  tile.first_block = max(tile.first_block, some ? ranges.k0 / C::kBlockN : 0);
  tile.trip_count = max(0, end - tile.first_block);
  tile.all0 = max(0, min(ranges.all0, mask.keys));                 // a text may say anything
  tile.all1 = ranges.all1 < mask.keys ? ranges.all1 : 0x7fffffff;  // a block may reach behind the last key
}
/// Does a text mask_mod have to be asked for the keys of an iteration?
template <class C>
TJ_DEVICE bool asks_mask_mod(const Tile& tile, int from) {
  if constexpr (KeyRange<C>::kOn)
    return from < tile.all0 || from + C::kBlockN > tile.all1;
  else
    return true;
}

/// Leaves a tile the blocks of keys of its part. Parts are of equal length but for the last ones, which may be empty.
TJ_DEVICE void take_part(const Params& params, Tile& tile) {
  const int each = (tile.trip_count + params.parts - 1) / params.parts, from = min(each * tile.part, tile.trip_count);
  tile.first_block += from;
  tile.trip_count = min(each, tile.trip_count - from);
}

template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  Tile tile;
  tile.index = index;
  tile.valid = index < params.tiles;
  if (!tile.valid) return tile;
  if constexpr (Packed<C>::kOn) {  // parts of a tile stand next to each other
    tile.part = index % params.parts;
    index /= params.parts;
  }
  // Query tiles of a section's heads run next to each other, so that their keys and values stay in L2. The longest goes
  // first: those that come last are short, and all blocks end at about the same time. The last section has more heads.
  const bool differ = mask_of<C>(params).tiles_differ();
  const int section = min(params.last_section, index / (params.section_heads * params.row_blocks));
  const int first_head = section * params.section_heads;
  const int heads = section == params.last_section ? params.heads * params.batches - first_head : params.section_heads;
  const int inside = index - first_head * params.row_blocks;
  const int block = inside / heads;
  const int head_index = first_head + inside - block * heads;
  const int row_block = differ ? params.row_blocks - 1 - block : block;
  tile.row = row_block * C::kRowsPerBlock;
  tile.batch = head_index / params.heads;
  tile.head = head_index - tile.batch * params.heads;
  if constexpr (Varlen<C>::kOn) {
    tile.sequence = sequence_at<C>(params, row_block, tile.row);
    tile.batch = tile.sequence.number;
  }
  const Keys blocks = mask_of<C>(params, tile).blocks_of(tile.row, C::kRowsPerBlock, C::kBlockN);
  tile.first_block = blocks.first;
  tile.trip_count = blocks.end - blocks.first;
  if constexpr (Varlen<C>::kOn) {
    if (tile.row >= mask_of<C>(params, tile).queries) tile.trip_count = 0;
  }
  if constexpr (KeyRange<C>::kOn) take_range<C>(params, tile);
  if constexpr (Packed<C>::kOn) take_part(params, tile);
  return tile;
}

/// A row of a tile: its query, and its head of all.
struct RowPlace {
  int query, head;
  bool inside;  ///< there is such a row
};
/// Packed rows of a query are those of its heads for the same keys, rounded up to a power of two.
template <class C>
TJ_DEVICE RowPlace row_place(const Params& params, const Tile& tile, int row) {
  const bool inside = row < mask_of<C>(params, tile).queries;
  if constexpr (Packed<C>::kOn) {
    const int head = row & ((1 << params.group_shift) - 1);
    return {row >> params.group_shift, tile.head * params.group + min(head, params.group - 1),
            inside && head < params.group};
  } else {
    return {row, tile.head, inside};
  }
}

/// The first key of an iteration.
template <class C>
TJ_DEVICE int first_key(const Tile& tile, int i) {
  return (tile.first_block + tile.trip_count - 1 - i) * C::kBlockN;
}
TJ_DEVICE int key_head(const Params& params, const Tile& tile) { return tile.head / params.heads_per_kv_head; }

/// Iterations before this one need masking for `first_row` or a row below it, and no later one does. Where ranges begin
/// behind the first key there is no such iteration: each asks whether it masks, and has one variant.
template <class C>
TJ_DEVICE int unmasked_from(const Params& params, const Tile& tile, int first_row) {
  const Mask mask = mask_of<C>(params, tile);
  return max(0, tile.first_block + tile.trip_count - mask.end_of(first_row) / C::kBlockN);
}

/// Iterations of a tile, `end` is behind the last.
struct Iterations {
  int first, end;
};
/// Iterations in which all rows from `first_row` to `last_row` see all keys, and no text has to be asked: of kernels
/// with kKeyRange, whose text says so besides.
template <class C>
TJ_DEVICE Iterations seen_by_all(const Params& params, const Tile& tile, int first_row, int last_row) {
  const Mask mask = mask_of<C>(params, tile);
  const int from = max(mask.keys_of(min(last_row, mask.queries - 1)).first, tile.all0),
            to = min(mask.keys_of(first_row).end, tile.all1), behind = tile.first_block + tile.trip_count;
  return {max(0, behind - max(0, to) / C::kBlockN), behind - (from + C::kBlockN - 1) / C::kBlockN};
}

/// Is an iteration to mask the rows from `row` to `last_row`? All threads that hold some of them
/// agree, so that most iterations of a window pay for the question alone.
template <class C>
TJ_DEVICE bool masks(const Params& params, const Tile& tile, int i, int row, int last_row) {
  const Mask mask = mask_of<C>(params, tile);
  const int from = first_key<C>(tile, i);
  return mask.from_first_key() || mask.hides(row, last_row, from, from + C::kBlockN);
}

/// The mask of one row, its keys counted from `from` on.
template <class C>
class RowMask {
 public:
  TJ_DEVICE RowMask(const Params& params, const Tile& tile, int row, int from) : mask_(mask_of<C>(params, tile)) {
    const Keys keys = mask_.keys_of(row);
    seen_ = {keys.first - from, keys.end - from};
  }
  /// The score of a key, -inf where it is hidden. A negative scale's sign was applied before.
  TJ_DEVICE float of(float score, int key) const {
    const bool seen = key < seen_.end && (mask_.from_first_key() || key >= seen_.first);
    return seen ? score : dev::minus_infinity();
  }

 private:
  Mask mask_;
  Keys seen_;
};

}  // namespace tj::ops::fmha
