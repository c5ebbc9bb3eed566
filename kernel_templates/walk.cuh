// Tiles that blocks draw: the counter of a launch, and the place that a role hands on. Included by units whose graph
// has a dynamic or a split walk, after pipeline.cuh.
//
// Decides which place a number of the counter stands for, and when the counter goes back to 0. The unit decides which
// role draws, and when the others look. An op says how many places have a tile, by `int tile_count<Config>(params)`. It
// may read that in device memory, where nothing changes during the launch.
// Invariant: each place is drawn once in a launch; whoever draws the last number leaves the counter at 0.
#pragma once

namespace tj::dev {

/// The begin of a walk that draws, behind the kernel's own parameter; src/support/walk_param.hpp has the same for the
/// host.
struct alignas(64) Walk {
  u32* counter;   ///< in global memory, 0 between launches; in a split walk the first of many
  float* pieces;  ///< of a split walk: where blocks leave sums
  u32 blocks;     ///< of the grid
};

/// Tiles of clusters, where so many places have a tile: blocks of the last one may have none of their own.
template <int Cluster>
TJ_DEVICE int cluster_tiles(int places) {
  return (places + Cluster - 1) / Cluster;
}

/// One thread of a block, or of a cluster: the next place that nobody has, of the cluster's first block. The first
/// places are those of the grid, so that a launch of t tiles draws t numbers in all: each cluster that has a tile draws
/// until it gets a place behind the last one.
template <int Reset, int Cluster>
TJ_DEVICE int draw_place(const Walk& walk, int tiles) {
  const u32 drawn = draw_global(walk.counter);
  if (drawn + 1u == static_cast<u32>(cluster_tiles<Cluster>(tiles))) reset_global<Reset>(walk.counter);
  return static_cast<int>(walk.blocks + drawn * Cluster);
}

/// The thread that has drawn: hands the place to the readers of its block.
template <int Site, class R>
TJ_DEVICE void hand_place(u32 shared, u32 sequence, int place) {
  store_shared(slot_address<R>(shared, sequence), static_cast<u32>(place));
  mbarrier_arrive<Site>(full_barrier<R>(shared, sequence));
}
/// The same in a block that syncs instead.
template <class R>
TJ_DEVICE void leave_place(u32 shared, u32 sequence, int place) {
  store_shared(slot_address<R>(shared, sequence), static_cast<u32>(place));
}
/// A reader: the place has been handed on.
template <class R>
TJ_DEVICE int place_in(u32 shared, u32 sequence) {
  return static_cast<int>(load_shared<u32>(slot_address<R>(shared, sequence)));
}

}  // namespace tj::dev
