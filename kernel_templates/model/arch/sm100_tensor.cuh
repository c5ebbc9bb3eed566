// Tensor memory of sm_100a on the CPU: the names, signatures and meanings of the device's file, for the CPU model.
//
// Decides nothing: the library's model keeps tensor memory. Invariant: a unit that compiles for the device compiles
// here.
#pragma once

namespace tj::dev {

// ---- allocation: by one warp, all of its lanes ----------------------------------------------------------------------
/// So many columns (32 to 512, a power of two, never more than allocated before); their address is written to shared
/// memory. Waits until they are free.
template <int Blocks = 1>
TJ_DEVICE void tensor_allocate(u32 place, u32 columns) {
  detail::check_blocks<Blocks>();
  detail::api.tensor_allocate(place, columns, Blocks);
}
/// This block allocates no more.
template <int Blocks = 1>
TJ_DEVICE void tensor_relinquish() {
  detail::check_blocks<Blocks>();
  detail::api.tensor_relinquish(Blocks);
}
/// Frees the allocation at this address, before the block ends and after everything that uses it.
template <int Blocks = 1>
TJ_DEVICE void tensor_free(u32 tensor, u32 columns) {
  detail::check_blocks<Blocks>();
  detail::api.tensor_free(tensor, columns, Blocks);
}

// ---- order between what works on tensor memory ----------------------------------------------------------------------
/// Before an arrival or a sync. Work that this thread has waited for here comes before others' work after theirs. A
/// commit does it itself.
template <int Site>
TJ_DEVICE void tensor_before_sync() {
  detail::api.tensor_fence(Site, 0);
}
/// After a wait or a sync. Others' work before theirs comes before this thread's work from now on.
template <int Site>
TJ_DEVICE void tensor_after_sync() {
  detail::api.tensor_fence(Site, 1);
}
/// Returns once this warp's loads have arrived; before, their registers hold NaN.
template <int Site>
TJ_DEVICE void tensor_load_wait() {
  detail::api.tensor_wait(Site, 0);
}
/// Returns once this warp's stores are in tensor memory.
template <int Site>
TJ_DEVICE void tensor_store_wait() {
  detail::api.tensor_wait(Site, 1);
}

// ---- registers from tensor memory and back: all lanes of a warp, at an address in the lanes that it reaches
// (tensor_lanes) ----------
/// Rows: thread l of the warp holds lane l of the 32, v[i] is column i from the address on. T is u32 or float.
template <class T, int N>
TJ_DEVICE void tensor_load(u32 tensor, T (&v)[N]) {
  static_assert(sizeof(T) == 4, "one word");
  detail::check_rows<N>();
  detail::api.tensor_load(tensor, reinterpret_cast<u32*>(v), N, TJ_MODEL_ROWS);
}
template <class T, int N>
TJ_DEVICE void tensor_store(u32 tensor, const T (&v)[N]) {
  static_assert(sizeof(T) == 4, "one word");
  detail::check_rows<N>();
  detail::api.tensor_store(tensor, reinterpret_cast<const u32*>(v), N, TJ_MODEL_ROWS);
}
/// The fragment of sums that a warp's matrix instruction has, for 16 of the lanes (the lower or the upper ones) and 2N
/// columns. v[4j + e] of thread l is lane l / 4 + 8(e / 2), column 8j + 2(l % 4) + e % 2.
template <class T, int N>
TJ_DEVICE void tensor_load_fragment(u32 tensor, T (&v)[N]) {
  static_assert(sizeof(T) == 4, "one word");
  detail::check_fragment<N>();
  detail::api.tensor_load(tensor, reinterpret_cast<u32*>(v), N, TJ_MODEL_FRAGMENT);
}
template <class T, int N>
TJ_DEVICE void tensor_store_fragment(u32 tensor, const T (&v)[N]) {
  static_assert(sizeof(T) == 4, "one word");
  detail::check_fragment<N>();
  detail::api.tensor_store(tensor, reinterpret_cast<const u32*>(v), N, TJ_MODEL_FRAGMENT);
}
/// The fragment of a left operand of 16-bit elements that a warp's matrix instruction has, two of them a word, for 16
/// of the lanes and 2N columns. v[2j + e] of thread l is lane l / 4 + 8e, column 4j + l % 4.
template <int N>
TJ_DEVICE void tensor_load_operand(u32 tensor, u32 (&v)[N]) {
  detail::check_operand<N>();
  detail::api.tensor_load(tensor, v, N, TJ_MODEL_OPERAND);
}
template <int N>
TJ_DEVICE void tensor_store_operand(u32 tensor, const u32 (&v)[N]) {
  detail::check_operand<N>();
  detail::api.tensor_store(tensor, v, N, TJ_MODEL_OPERAND);
}

}  // namespace tj::dev
