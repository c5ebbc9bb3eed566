// Bulk tensor copies and stores of sm_90 and later: boxes of rank-4 tensors to shared memory and back. The model has
// the same names.
//
// Decides which instruction serves which primitive; no op and no schedule. Included by the files of archs that have
// them. Source of the encodings: PTX ISA 8.7, "cp.async.bulk.tensor" and
// "mbarrier.complete_tx".
#pragma once

namespace tj::dev {

/// Asks for the line of an address to be brought to L2.
TJ_DEVICE void prefetch_global(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }
TJ_DEVICE void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<u64>(map)) : "memory");
}
/// One box of a rank-4 tensor into shared memory; its bytes complete on the barrier. One thread issues it.
TJ_DEVICE void copy_box_4d(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(destination),
      "l"(reinterpret_cast<u64>(map)), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

/// The same of a rank-5 tensor.
TJ_DEVICE void copy_box_5d(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2];" ::"r"(destination),
      "l"(reinterpret_cast<u64>(map)), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

/// The policy of L2 that a hint stands for.
TJ_DEVICE u64 cache_policy(EvictFirst) {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
TJ_DEVICE u64 cache_policy(EvictLast) {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// A box of a rank-4 or a rank-5 tensor whose lines L2 keeps as the hint says.
TJ_DEVICE void copy_box_4d(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3, NoHint) {
  copy_box_4d(destination, map, barrier, c0, c1, c2, c3);
}
template <class Hint>
TJ_DEVICE void copy_box_4d(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3,
                           Hint hint) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
      "%4, %5, %6}], [%2], %7;" ::"r"(destination),
      "l"(reinterpret_cast<u64>(map)), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(cache_policy(hint))
      : "memory");
}
TJ_DEVICE void copy_box_5d(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3, int c4,
                           NoHint) {
  copy_box_5d(destination, map, barrier, c0, c1, c2, c3, c4);
}
template <class Hint>
TJ_DEVICE void copy_box_5d(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3, int c4,
                           Hint hint) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
      "%4, %5, %6, %7}], [%2], %8;" ::"r"(destination),
      "l"(reinterpret_cast<u64>(map)), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4),
      "l"(cache_policy(hint))
      : "memory");
}

/// Copies a box to the same place in every block of the cluster whose rank's bit is set in `mask`. Its bytes complete
/// on the barrier at the same place there.
TJ_DEVICE void copy_box_4d_multicast(u32 destination, const TensorMap* map, u32 barrier, u32 mask, int c0, int c1,
                                     int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(destination),
      "l"(reinterpret_cast<u64>(map)), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3),
      "h"(static_cast<unsigned short>(mask))
      : "memory");
}
/// Counts announced bytes that no copy brings, at Count places that are `pitch` apart. Those are as undefined as if a
/// copy of unknown contents had come.
template <int Count = 1>
TJ_DEVICE void copy_nothing(u32, u32 bytes, u32 barrier, u32 = 0) {
  asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes * Count)
               : "memory");
}
/// One box of shared memory into a rank-4 tensor, nothing outside it. One thread issues it, and commits and waits for
/// its own.
TJ_DEVICE void store_box_4d(const TensorMap* map, u32 source, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
                   reinterpret_cast<u64>(map)),
               "r"(source), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
/// The same of a rank-5 tensor.
TJ_DEVICE void store_box_5d(const TensorMap* map, u32 source, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(
                   reinterpret_cast<u64>(map)),
               "r"(source), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}
template <int Site>
TJ_DEVICE void store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Returns once at most `Pending` of this thread's newest groups of stores have still to read shared memory.
template <int Site, int Pending>
TJ_DEVICE void store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

}  // namespace tj::dev
