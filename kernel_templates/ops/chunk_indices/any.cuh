// The list of all chunks of sequences that follow each other: the bodies of the graph's nodes, for every family.
//
// Decides how one block finds the places of its sequences' chunks: it counts the chunks of all sequences before its
// own, so that no block waits for another. Invariant: nothing is read but cu_seqlens, nothing is written behind the
// capacity, whatever the lengths say, and no chunk takes another one's row: counts stop at 2^32 - 1.
#pragma once

#include "ops/chunk_indices/params.cuh"

namespace tj::ops::chunk_indices {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;

/// kWarps * 32 sequences; an iteration counts kBatch of those before them.
struct Tile {
  int index;
  bool valid;
  int first;
  int trip_count;
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  const int first = index * (C::kWarps * 32);
  return {index, index < params.tiles, first, (first + C::kBatch - 1) / C::kBatch};
}

template <class C_>
struct Lister {
  using C = C_;
  const Params& params;
  u32 before = 0;  ///< chunks that this lane has counted
  TJ_DEVICE Lister(const Params& p, int) : params(p) {}
};

/// The chunks of a sequence: none for an end at or before the beginning.
template <class C>
TJ_DEVICE u32 chunks_of(const Params& params, int sequence) {
  const u32 begin = dev::load_global_u32(params.cu_seqlens + sequence),
            end = dev::load_global_u32(params.cu_seqlens + sequence + 1);
  return static_cast<int>(end) > static_cast<int>(begin) ? (end - begin - 1) / C::kChunk + 1 : 0;
}

/// Lengths of a list that falls may have any sum.
TJ_DEVICE u32 sum_of(u32 chunks, u32 others) { return chunks + min(others, ~chunks); }

template <class C>
TJ_DEVICE void begin(Lister<C>& lister, const Tile&) {
  lister.before = 0;
}

/// The index of a lane's unit in the block: 32 lanes are a unit, whatever number a warp has.
template <class C>
TJ_DEVICE int unit_index() {
  return static_cast<int>(dev::warp_index() * static_cast<u32>(C::kLanes / 32) + dev::lane_index() / 32u);
}
TJ_DEVICE int lane_of_unit() { return static_cast<int>(dev::lane_index() % 32u); }
/// The value of lane `lane` of these 32; all lanes of the warp take part.
TJ_DEVICE u32 from_unit(u32 value, int lane) {
  return dev::shuffle_from(value, static_cast<int>(dev::lane_index() / 32u) * 32 + lane);
}

/// Every 32 lanes count all: the loads of a lane do not depend on each other.
template <class C>
TJ_DEVICE void count_chunks(Lister<C>& lister, const Tile& tile, int i) {
  const int at = i * C::kBatch + lane_of_unit();
#pragma unroll
  for (int k = 0; k < C::kBatch; k += 32) {
    const u32 chunks =
        chunks_of<C>(lister.params, min(at + k, tile.first - 1));  // no load waits for the question whether it counts
    if (at + k < tile.first) lister.before = sum_of(lister.before, chunks);
  }
}

/// 32 sequences for 32 lanes: where the chunks of each begin in the list, then the chunks one sequence after the other.
template <class C>
TJ_DEVICE void list_chunks(Lister<C>& lister, const Tile& tile) {
  const Params& params = lister.params;
  const int lane = lane_of_unit(), unit = unit_index<C>();
  u32 all_before = lister.before;
  for (int u = 0; u < unit; ++u) {
    const int sequence = tile.first + u * 32 + lane;
    if (sequence < params.sequences) all_before = sum_of(all_before, chunks_of<C>(params, sequence));
  }
  const int first = tile.first + unit * 32, first_of_warp = first - unit % (C::kLanes / 32) * 32;
  const u32 own = first + lane < params.sequences ? chunks_of<C>(params, first + lane) : 0;
  u32 own_before = 0, of_warp = own;
#pragma unroll
  for (int bit = 1; bit < 32; bit *= 2) {  // sums over aligned groups of 2, 4, ... lanes
    all_before = sum_of(all_before, dev::shuffle_xor(all_before, bit));
    const u32 neighbours = dev::shuffle_xor(of_warp, bit);
    if ((lane & bit) != 0) own_before = sum_of(own_before, neighbours);
    of_warp = sum_of(of_warp, neighbours);
  }
  if (tile.index == params.tiles - 1 && unit == C::kWarps - 1 && lane == 0)
    dev::store_global(params.total, sum_of(all_before, of_warp));
#pragma unroll 1
  for (int s = 0; s < 32 && first_of_warp + s < params.sequences;
       ++s) {  // s is the same in all of a warp; a lane without such a sequence has no chunk of it
    const u32 place = from_unit(sum_of(all_before, own_before), s),
              room = place < static_cast<u32>(params.capacity) ? static_cast<u32>(params.capacity) - place : 0;
    const u32 chunks = min(from_unit(own, s), room);
    for (u32 c = static_cast<u32>(lane); c < chunks; c += 32)
      dev::store_global(params.indices + (place + c) * params.row_stride, static_cast<u32>(first + s), c);
  }
}

}  // namespace tj::ops::chunk_indices
