// Rings between roles, in terms of an arch's primitives. Included by the emitted unit after the arch file.
//
// Decides how a sequence number becomes slot, barrier and parity. Depths, bytes and arrival counts come from the emitted
// ring descriptions; when to wait and when to release comes from the emitted calls.
// Invariant: the n-th filling of a ring (n counts over all tiles of a block) uses slot n % kSlots and phase n / kSlots.
#pragma once

namespace tj::dev {

/// Tags that choose between variants of a node body.
struct General {
  static constexpr bool kFast = false;
};
struct Fast {
  static constexpr bool kFast = true;
};

// A ring description R has: kSlots, kSlotBytes, kCopiedBytes (what bulk copies bring into a slot), kData, kFull, kEmpty (byte
// offsets from the shared base), kFullArrivals, kEmptyArrivals.
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
  mbarrier_wait<Site>(full_barrier<R>(shared, sequence), (sequence / R::kSlots) & 1u);
}
/// Producer: every consumer has released the filling before. Inverted parity lets the first round pass.
template <int Site, class R>
TJ_DEVICE void wait_empty(u32 shared, u32 sequence) {
  mbarrier_wait<Site>(empty_barrier<R>(shared, sequence), ((sequence / R::kSlots) & 1u) ^ 1u);
}
/// Producer by bulk copy, one thread: announces the bytes that the copies of this filling will complete.
template <int Site, class R>
TJ_DEVICE void expect_full(u32 shared, u32 sequence) {
  mbarrier_expect<Site>(full_barrier<R>(shared, sequence), R::kCopiedBytes);
}
/// Producer by ordinary stores, whole warps: one arrival a warp.
template <int Site, class R>
TJ_DEVICE void publish(u32 shared, u32 sequence) {
  warp_sync();
  if (lane_index() == 0) mbarrier_arrive<Site>(full_barrier<R>(shared, sequence));
}
/// Consumer of one thread: it reads the filling no more.
template <int Site, class R>
TJ_DEVICE void release_alone(u32 shared, u32 sequence) {
  mbarrier_arrive<Site>(empty_barrier<R>(shared, sequence));
}
/// Consumer: this warp reads the filling no more; one arrival a warp.
template <int Site, class R>
TJ_DEVICE void release(u32 shared, u32 sequence) {
  warp_sync();
  if (lane_index() == 0) mbarrier_arrive<Site>(empty_barrier<R>(shared, sequence));
}

}  // namespace tj::dev
