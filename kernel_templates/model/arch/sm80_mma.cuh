// Copies by threads, matrices from shared memory and the matrix instruction of a warp, for the CPU model: the device's
// names, signatures and meanings.
//
// Decides nothing: the library's model copies, loads and multiplies. Included by the files of archs whose kernels use
// them, after arch/nvidia.cuh.
#pragma once

namespace tj::dev {

// ---- copies by threads ----------------------------------------------------------------------------------------------
/// The first `present` of `Bytes` (4, 8 or 16) of global memory to shared memory, some time later; the rest becomes
/// zero.
template <int Bytes>
TJ_DEVICE void copy_async(u32 destination, const void* source, u32 present) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "a thread copies 4, 8 or 16 bytes");
  detail::api.copy_async(destination, source, Bytes, present);
}
template <int Bytes>
TJ_DEVICE void copy_async(u32 destination, const void* source) {
  copy_async<Bytes>(destination, source, Bytes);
}
/// This thread's copies since its last commit form a group.
template <int Site>
TJ_DEVICE void copy_async_commit() {
  detail::api.copy_async_commit(Site);
}
/// Returns once at most `Pending` of this thread's newest groups are unfinished.
template <int Site, int Pending>
TJ_DEVICE void copy_async_wait() {
  detail::api.copy_async_wait(Site, Pending);
}
/// One arrival on the barrier once all copies that this thread has issued before are done; returns at once.
template <int Site>
TJ_DEVICE void copy_async_arrive(u32 barrier) {
  detail::api.copy_async_arrive(Site, barrier);
}

/// Returns once all copies of this thread are done.
template <int Site>
TJ_DEVICE void copy_async_drain() {
  detail::api.copy_async_commit(Site);
  detail::api.copy_async_wait(Site, 0);
}

// ---- matrices from shared memory ------------------------------------------------------------------------------------
/// `Count` (1, 2 or 4) 8x8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of matrix l / 8, a
/// multiple of 16. It gets, in words[m], elements 2(l % 4) and on of row l / 4 of matrix m. Lanes from 8 * Count on
/// name nothing. All lanes take part.
template <int Count>
TJ_DEVICE void load_matrices(u32 address, u32 (&words)[Count]) {
  static_assert(Count == 1 || Count == 2 || Count == 4, "one, two or four matrices");
  detail::api.load_matrices(address, words, Count, 0);
}
/// Loads the matrices' transposes: lane l gets elements 2(l % 4) and on of column l / 4.
template <int Count>
TJ_DEVICE void load_matrices_transposed(u32 address, u32 (&words)[Count]) {
  static_assert(Count == 1 || Count == 2 || Count == 4, "one, two or four matrices");
  detail::api.load_matrices(address, words, Count, 1);
}

// ---- the matrix instruction of a warp -------------------------------------------------------------------------------
/// d += a b, sums in f32; fragments as on the device. All lanes of the warp take part.
template <class Tag>
TJ_DEVICE void mma_m16n8k16(Tag tag, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  static_assert(kElementBytes<Tag> == 2, "elements of 16 bits");
  const tj_model_mma instruction = {detail::element(tag), d, a, {b0, b1}};
  detail::api.mma(&instruction);
}

/// The same of e4m3, with 32 of K: fragments as on the device.
TJ_DEVICE void mma_m16n8k32(E4m3 tag, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  const tj_model_mma instruction = {detail::element(tag), d, a, {b0, b1}};
  detail::api.mma(&instruction);
}

/// On devices, what follows from the value is computed after this.
TJ_DEVICE void hold(int&) {}

}  // namespace tj::dev
