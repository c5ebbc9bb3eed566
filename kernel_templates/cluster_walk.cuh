// Tiles that a cluster of blocks draws: one block draws for all of them, and the place reaches each block's ring of
// places. Included by units whose graph has a dynamic walk in clusters.
//
// Decides how a place comes to other blocks' shared memory, and where they say that they have read it: in the first
// block, whose thread writes them all. Invariant: a block of rank r gets the cluster's first place plus r.
#pragma once

#include "walk.cuh"

namespace tj::dev {

/// The thread of the first block that has drawn: hands each block its place.
template <int Site, int Cluster, class R>
TJ_DEVICE void hand_place_to_cluster(u32 shared, u32 sequence, int place) {
#pragma unroll 1
  for (u32 rank = 0; rank < Cluster; ++rank)
    store_shared_at<Site>(slot_address<R>(shared, sequence), static_cast<u32>(place) + rank,
                          full_barrier<R>(shared, sequence), rank);
}
/// One thread of each block, before its first reader waits: announces the bytes of the place that comes.
template <int Site, class R>
TJ_DEVICE void expect_place(u32 shared, u32 sequence) {
  mbarrier_expect<Site>(full_barrier<R>(shared, sequence), R::kSlotBytes);
}
/// A reader of one thread, or a warp that has met since: it reads the place no more.
template <int Site, class R>
TJ_DEVICE void release_place_alone(u32 shared, u32 sequence) {
  mbarrier_arrive_at<Site>(empty_barrier<R>(shared, sequence), 0);
}
template <int Site, class R>
TJ_DEVICE void release_place(u32 shared, u32 sequence) {
  if (lane_index() == 0) release_place_alone<Site, R>(shared, sequence);
}

}  // namespace tj::dev
