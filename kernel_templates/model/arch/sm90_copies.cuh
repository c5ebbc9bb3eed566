// Bulk tensor copies and stores of sm_90 and later on the CPU: the names, signatures and meanings of the device's file,
// for the CPU model.
//
// Decides nothing: the library's model copies. Included by the files of archs that have them.
#pragma once

namespace tj::dev {

TJ_DEVICE void prefetch_map(const TensorMap*) {}
TJ_DEVICE void prefetch_global(const void*) {}
/// One box of a rank-4 tensor into shared memory; its bytes complete on the barrier. One thread issues it.
TJ_DEVICE void copy_box_4d(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3) {
  const int coordinates[4] = {c0, c1, c2, c3};
  detail::api.copy_box(destination, map, barrier, coordinates, 4);
}

/// The same of a rank-5 tensor.
TJ_DEVICE void copy_box_5d(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3, int c4) {
  const int coordinates[5] = {c0, c1, c2, c3, c4};
  detail::api.copy_box(destination, map, barrier, coordinates, 5);
}

/// A box of a rank-4 or a rank-5 tensor. The model has no L2, and looks at no hint.
template <class Hint>
TJ_DEVICE void copy_box_4d(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3, Hint) {
  copy_box_4d(destination, map, barrier, c0, c1, c2, c3);
}
template <class Hint>
TJ_DEVICE void copy_box_5d(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3, int c4,
                           Hint) {
  copy_box_5d(destination, map, barrier, c0, c1, c2, c3, c4);
}

/// Copies a box to the same place in every block of the cluster whose rank's bit is set in `mask`. Its bytes complete
/// on the barrier at the same place there.
TJ_DEVICE void copy_box_4d_multicast(u32 destination, const TensorMap* map, u32 barrier, u32 mask, int c0, int c1,
                                     int c2, int c3) {
  const int coordinates[4] = {c0, c1, c2, c3};
  detail::api.copy_box_multicast(destination, map, barrier, mask, coordinates, 4);
}
/// Counts announced bytes that no copy brings, at Count places that are `pitch` apart. Those are as undefined as if a
/// copy of unknown contents had come.
template <int Count = 1>
TJ_DEVICE void copy_nothing(u32 destination, u32 bytes, u32 barrier, u32 pitch = 0) {
  for (u32 at = 0; at < Count; ++at) detail::api.copy_nothing(destination + at * pitch, bytes, barrier);
}
/// One box of shared memory into a rank-4 tensor, nothing outside it. One thread issues it, and commits and waits for
/// its own.
TJ_DEVICE void store_box_4d(const TensorMap* map, u32 source, int c0, int c1, int c2, int c3) {
  const int coordinates[4] = {c0, c1, c2, c3};
  detail::api.store_box(map, source, coordinates, 4);
}
/// The same of a rank-5 tensor.
TJ_DEVICE void store_box_5d(const TensorMap* map, u32 source, int c0, int c1, int c2, int c3, int c4) {
  const int coordinates[5] = {c0, c1, c2, c3, c4};
  detail::api.store_box(map, source, coordinates, 5);
}
template <int Site>
TJ_DEVICE void store_commit() {
  detail::api.store_commit(Site);
}
/// Returns once at most `Pending` of this thread's newest groups of stores have still to read shared memory.
template <int Site, int Pending>
TJ_DEVICE void store_wait() {
  detail::api.store_wait(Site, Pending);
}

}  // namespace tj::dev
