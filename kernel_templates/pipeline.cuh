// Rings between roles and a block's walk over tiles, in terms of an arch's primitives. Included by the emitted unit
// after the arch file.
//
// Decides which tiles a block does, and how a sequence number becomes slot, barrier and parity. Depths, bytes and
// arrival counts come from the emitted ring descriptions; the emitted calls say when to wait and when to release. A
// ring that several blocks of a cluster fill together has the same place in each of them. A slot is free once the
// consumers of all of them have released it. Invariant: the n-th filling of a ring (n counts over all tiles of a block)
// uses slot n % kSlots and phase n / kSlots.
#pragma once

namespace tj::dev {

/// Tags that choose between variants of a node body.
struct General {
  static constexpr bool kFast = false;
};
struct Fast {
  static constexpr bool kFast = true;
};

// A block's walk: it does the tile at its own place in the grid, then those a whole grid further on. Where tiles are
// drawn, walk.cuh says which come then. An op says which tile stands at a place, by `Tile tile_at<Config>(params,
// place)` beside its Params. Tile::index is that place, Tile::valid is false behind the last tile. The op's namespace
// says `using dev::first_tile; using dev::next_tile; using dev::tile_count;`, as the unit looks for them there; an op
// that begins, goes on or counts in another way has functions of these names instead.
// Never called: C++17 reads `tile_at<C>(...)` as a call only where a template of that name is in sight.
template <class C>
TJ_DEVICE void tile_at();
template <class C, class Params>
TJ_DEVICE auto first_tile(const Params& params) {
  return tile_at<C>(params, static_cast<int>(block_index()));
}
template <class C, class Params, class Tile>
TJ_DEVICE Tile next_tile(const Params& params, const Tile& tile) {
  return tile_at<C>(params, tile.index + static_cast<int>(grid_blocks()));
}

/// Completes a tile, at the one place of a role through which all its tiles come. An op whose `tile_at` leaves
/// something out has `void complete_tile(Config, const Params&, Tile&)`. A walk asks for tiles in two places: what
/// `tile_at` does stands twice in the machine code.
template <class C, class Params, class Tile>
TJ_DEVICE auto complete(const Params& params, Tile& tile, int) -> decltype(complete_tile(C{}, params, tile)) {
  complete_tile(C{}, params, tile);
}
template <class C, class Params, class Tile>
TJ_DEVICE void complete(const Params&, Tile&, long) {}
template <class C, class Params, class Tile>
TJ_DEVICE void complete(const Params& params, Tile& tile) {
  complete<C>(params, tile, 0);
}

/// A tile with what tile_at() left out, for walks that complete it at each of their places.
template <class C, class Params, class Tile>
TJ_DEVICE Tile completed(const Params& params, Tile tile) {
  if (tile.valid) complete<C>(params, tile);
  return tile;
}

/// Places that have a tile: those before this one. All roles of all blocks must get the same number.
template <class C, class Params>
TJ_DEVICE int tile_count(const Params& params) {
  return params.tiles;
}

// A ring description R has these members. kSlots, kSlotBytes, kCopiedBytes (bytes that bulk copies bring into a slot).
// kData, kFull, kEmpty (byte offsets from the shared base). kFullArrivals, kEmptyArrivals. kSharers (blocks of the
// cluster that fill a slot together), and where there are several kSharerStride (how far their ranks are apart).

/// This block's part of a slot that several fill together: the part-th of kParts, copied to every block in `mask`.
template <int Parts>
struct Share {
  static constexpr int kParts = Parts;
  u32 part = 0, mask = 1;
};
/// The lowest rank among the blocks that fill this block's slots.
template <class R>
TJ_DEVICE u32 first_sharer(u32 rank) {
  return rank - rank / R::kSharerStride % R::kSharers * R::kSharerStride;
}
template <class R>
TJ_DEVICE Share<R::kSharers> share() {
  u32 mask = 0;
#pragma unroll
  for (u32 i = 0; i < R::kSharers; ++i) mask |= 1u << i * R::kSharerStride;
  u32 rank = cluster_rank();
  hold(rank);  // read once: to read it takes longer than to issue a copy
  return {rank / R::kSharerStride % R::kSharers, mask << first_sharer<R>(rank)};
}

template <class R>
TJ_DEVICE u32 slot_address(u32 shared, u32 sequence) {
  return shared + R::kData + (sequence % R::kSlots) * R::kSlotBytes;
}
template <class R>
TJ_DEVICE u32 full_barrier(u32 shared, u32 sequence) {
  return shared + R::kFull + (sequence % R::kSlots) * 8u;
}
template <class R>
TJ_DEVICE u32 empty_barrier(u32 shared, u32 sequence) {
  return shared + R::kEmpty + (sequence % R::kSlots) * 8u;
}

// Roles that do the same side by side may fill a ring each. Such rings lie one behind the other. R is the first, and
// these give what stands for `shared` where the ring of the member-th role is meant.
template <class R>
TJ_DEVICE u32 slots_of(u32 shared, u32 member) {
  return shared + member * (R::kSlots * R::kSlotBytes);
}
template <class R>
TJ_DEVICE u32 barriers_of(u32 shared, u32 member) {
  return shared + member * (R::kSlots * 16u);
}

// Declared for archs that lack it. Nothing calls it there.
template <int Site>
TJ_DEVICE void mbarrier_phase_done();

template <class R>
TJ_DEVICE void ring_init(u32 shared) {
  for (u32 slot = 0; slot < R::kSlots; ++slot) {
    mbarrier_init(full_barrier<R>(shared, slot), R::kFullArrivals);
    mbarrier_init(empty_barrier<R>(shared, slot), R::kEmptyArrivals);
  }
}

/// Consumer: the filling has arrived.
template <int Site, class R>
TJ_DEVICE void wait_full(u32 shared, u32 sequence) {
  mbarrier_wait_phase<Site>(full_barrier<R>(shared, sequence), sequence / R::kSlots);
}
/// Consumer: would the wait with this site be over at once?
template <int Site, class R>
TJ_DEVICE bool is_full(u32 shared, u32 sequence) {
  return mbarrier_phase_done<Site>(full_barrier<R>(shared, sequence), sequence / R::kSlots);
}
/// Producer: every consumer has released the filling before; the phase before the first lets the first round pass.
template <int Site, class R>
TJ_DEVICE void wait_empty(u32 shared, u32 sequence) {
  mbarrier_wait_phase<Site>(empty_barrier<R>(shared, sequence), sequence / R::kSlots - 1u);
}
/// Producer of a ring that blocks share, after its last filling, of which there were `sequence`. Every consumer of
/// every block has released it: nobody arrives at this block's barriers any more, and it may end.
template <int Site, class R>
TJ_DEVICE void wait_drained(u32 shared, u32 sequence) {
#pragma unroll 1
  for (u32 slot = 0; slot < R::kSlots; ++slot) wait_empty<Site, R>(shared, sequence + slot);
}
/// Producer by bulk copy, one thread: announces the bytes that the copies of this filling will complete. Bytes from
/// other blocks are included: their copies may come before.
template <int Site, class R>
TJ_DEVICE void expect_full(u32 shared, u32 sequence) {
  mbarrier_expect<Site>(full_barrier<R>(shared, sequence), R::kCopiedBytes);
}
/// Producer by ordinary stores, whole warps, each of which has met since: one arrival a warp.
template <int Site, class R>
TJ_DEVICE void publish(u32 shared, u32 sequence) {
  if (lane_index() == 0) mbarrier_arrive<Site>(full_barrier<R>(shared, sequence));
}
/// Producer by copies of its threads, each of them: it arrives when the copies that it has issued are done.
template <int Site, class R>
TJ_DEVICE void publish_copies(u32 shared, u32 sequence) {
  copy_async_arrive<Site>(full_barrier<R>(shared, sequence));
}
/// Consumer of one thread: it reads the filling no more.
template <int Site, class R>
TJ_DEVICE void release_alone(u32 shared, u32 sequence) {
  const u32 barrier = empty_barrier<R>(shared, sequence);
  if constexpr (R::kSharers > 1) {
    const u32 first = first_sharer<R>(cluster_rank());
#pragma unroll
    for (u32 i = 0; i < R::kSharers; ++i) mbarrier_arrive_at<Site>(barrier, first + i * R::kSharerStride);
  } else {
    mbarrier_arrive<Site>(barrier);
  }
}
/// Consumer: this warp, which has met since, reads the filling no more; one arrival a warp, at every block that may
/// copy into the slot.
template <int Site, class R>
TJ_DEVICE void release(u32 shared, u32 sequence) {
  const u32 barrier = empty_barrier<R>(shared, sequence);
  if constexpr (R::kSharers > 1) {
    if (lane_index() < R::kSharers)
      mbarrier_arrive_at<Site>(barrier, first_sharer<R>(cluster_rank()) + lane_index() * R::kSharerStride);
  } else {
    if (lane_index() == 0) mbarrier_arrive<Site>(barrier);
  }
}
/// Consumer: the matrix unit has done what this group of four warps has asked for, and reads the filling no more. One
/// arrival for the group at each block that may copy into the slot: a product is one instruction of its warps, and done
/// for all of them at once. No branch: behind one, ptxas (13.0) waits for each product of kernels in slices.
template <int Site, class R>
TJ_DEVICE void release_by_group(u32 shared, u32 sequence) {
  constexpr u32 kGroupThreads = 128;
  const u32 barrier = empty_barrier<R>(shared, sequence), thread = thread_index() % kGroupThreads;
  if constexpr (R::kSharers > 1)
    mbarrier_arrive_at_if<Site>(thread < R::kSharers, barrier,
                                first_sharer<R>(cluster_rank()) + thread % R::kSharers * R::kSharerStride);
  else
    mbarrier_arrive_if<Site>(thread == 0, barrier);
}

}  // namespace tj::dev
