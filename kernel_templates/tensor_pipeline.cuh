// Rings in tensor memory, and arrivals of the matrix unit by itself, in terms of an arch's primitives. Included by
// emitted units that use them, after pipeline.cuh.
//
// Decides how a sequence number becomes columns. The emitted calls say when to wait and when to arrive; columns come
// from the emitted ring descriptions. Invariant: as in pipeline.cuh, the n-th filling of a ring uses slot n % kSlots
// and phase n / kSlots.
#pragma once

namespace tj::dev {

// A ring description R has more beside its barriers. kColumn counts from the first of the block's columns;
// kSlotColumns; kMemberColumns is from a role's ring to the ring of the next role that does the same.

template <class R>
TJ_DEVICE u32 slot_columns(u32 tensor, u32 sequence) {
  return tensor + R::kColumn + (sequence % R::kSlots) * R::kSlotColumns;
}
template <class R>
TJ_DEVICE u32 columns_of(u32 tensor, u32 member) {
  return tensor + member * R::kMemberColumns;
}

/// One warp, before the block's first sync: its columns, whose place it leaves at `place` in shared memory. The block
/// asks for no more. Blocks: 2 in a kernel of pairs of blocks.
template <u32 Columns, int Blocks = 1>
TJ_DEVICE void tensor_begin(u32 place) {
  tensor_allocate<Blocks>(place, Columns);
  tensor_relinquish<Blocks>();
}

/// Producer, the thread that asked for the products: the unit arrives when all of them are done.
template <int Site, class R>
TJ_DEVICE void publish_products(u32 shared, u32 sequence) {
  matrix_commit<Site>(full_barrier<R>(shared, sequence));
}
/// Consumer, likewise: what they read is read; it arrives at every block that may copy into the slot.
template <int Site, class R>
TJ_DEVICE void release_products(u32 shared, u32 sequence) {
  if constexpr (R::kSharers > 1)
    matrix_commit_multicast<Site>(empty_barrier<R>(shared, sequence), share<R>().mask);
  else
    matrix_commit<Site>(empty_barrier<R>(shared, sequence));
}

// Pairs of blocks: the lower one's thread asks for the products of both. Operands say full at its barriers, for both
// blocks' halves; the unit arrives in both; and both hand the sums back to it.

/// Is this the block that asks?
TJ_DEVICE bool first_of_pair() { return (cluster_rank() & 1u) == 0; }
TJ_DEVICE u32 pair_mask() { return 3u << (cluster_rank() & ~1u); }

template <int Site, class R>
TJ_DEVICE void publish_products_to_pair(u32 shared, u32 sequence) {
  matrix_commit_multicast<Site, 2>(full_barrier<R>(shared, sequence), pair_mask());
}
template <int Site, class R>
TJ_DEVICE void release_products_to_pair(u32 shared, u32 sequence) {
  matrix_commit_multicast<Site, 2>(empty_barrier<R>(shared, sequence), pair_mask());
}
/// Consumer of sums: this warp, which has met since, reads the filling no more; one arrival a warp, at the block that
/// asks.
template <int Site, class R>
TJ_DEVICE void release_to_first(u32 shared, u32 sequence) {
  if (lane_index() == 0) mbarrier_arrive_at<Site>(empty_barrier<R>(shared, sequence), cluster_rank() & ~1u);
}

}  // namespace tj::dev
