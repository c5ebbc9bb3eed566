// Primitives that sm_80 brought and every later GPU has. Threads issue copies and do not wait for them; matrices come
// from shared memory; a warp has a matrix instruction. The model has the same names.
//
// Decides which instruction serves which primitive; no op and no schedule. Included by the files of archs whose kernels
// use them, after arch/nvidia.cuh. Every synchronising primitive takes a site id first, so that the model can switch it
// off; here it is unused. Source of the encodings: PTX ISA 8.7, "cp.async", "cp.async.mbarrier.arrive", "ldmatrix",
// "mma.m16n8k16".
#pragma once

namespace tj::dev {

// ---- copies by threads ----------------------------------------------------------------------------------------------
/// `Bytes` (4, 8 or 16) of global memory to shared memory, some time later; both addresses are multiples of it. 16
/// bytes pass by L1.
template <int Bytes>
TJ_DEVICE void copy_async(u32 destination, const void* source) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "a thread copies 4, 8 or 16 bytes");
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(destination), "l"(__cvta_generic_to_global(source))
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(destination), "l"(__cvta_generic_to_global(source)),
                 "n"(Bytes)
                 : "memory");
}
/// Copies the first `present` bytes, at most `Bytes`. Bytes after them become zero and are not read; `present` may be
/// 0.
template <int Bytes>
TJ_DEVICE void copy_async(u32 destination, const void* source, u32 present) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "a thread copies 4, 8 or 16 bytes");
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination),
                 "l"(__cvta_generic_to_global(source)), "r"(present)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(destination),
                 "l"(__cvta_generic_to_global(source)), "n"(Bytes), "r"(present)
                 : "memory");
}
/// This thread's copies since its last commit form a group.
template <int Site>
TJ_DEVICE void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Returns once at most `Pending` of this thread's newest groups are unfinished. It sees what its own copies brought;
/// other threads do after a barrier.
template <int Site, int Pending>
TJ_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
/// One arrival on the barrier once all copies that this thread has issued before are done; returns at once. The
/// barrier's count has one for each thread that says this.
template <int Site>
TJ_DEVICE void copy_async_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/// Returns once all copies of this thread are done.
template <int Site>
TJ_DEVICE void copy_async_drain() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// ---- matrices from shared memory ------------------------------------------------------------------------------------
/// `Count` (1, 2 or 4) 8x8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of matrix l / 8, a
/// multiple of 16. It gets, in words[m], elements 2(l % 4) and on of row l / 4 of matrix m. Lanes from 8 * Count on
/// name nothing. All lanes take part.
template <int Count>
TJ_DEVICE void load_matrices(u32 address, u32 (&words)[Count]) {
  static_assert(Count == 1 || Count == 2 || Count == 4, "one, two or four matrices");
  if constexpr (Count == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(words[0]) : "r"(address) : "memory");
  else if constexpr (Count == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
}
/// Loads the matrices' transposes: lane l gets elements 2(l % 4) and on of column l / 4.
template <int Count>
TJ_DEVICE void load_matrices_transposed(u32 address, u32 (&words)[Count]) {
  static_assert(Count == 1 || Count == 2 || Count == 4, "one, two or four matrices");
  if constexpr (Count == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(words[0])
                 : "r"(address)
                 : "memory");
  else if constexpr (Count == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
}

// ---- the matrix instruction of a warp -------------------------------------------------------------------------------
// Fragments, for lane l, g = l / 4, q = l % 4. A word has two elements, the lower index in the low half:
// - a, 16 x 16: a[0] row g, a[1] row g + 8, both k 2q and 2q + 1; a[2], a[3] the same rows, k 2q + 8 and 2q + 9.
// - b, 16 x 8: b0 k 2q and 2q + 1, b1 k 2q + 8 and 2q + 9, both column g.
// - d, 16 x 8: d[0], d[1] row g, d[2], d[3] row g + 8, columns 2q and 2q + 1.
// So d of two neighbouring blocks of eight columns, rounded to pairs, is an a of these 16 columns.
/// d += a b, sums in f32. All lanes of the warp take part; the result is there when it returns.
TJ_DEVICE void mma_m16n8k16(F16, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
TJ_DEVICE void mma_m16n8k16(Bf16, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The same of e4m3, with 32 of K: a word has four elements, from k 4q on, or from 4q + 16 on. For sm_89 and later.
TJ_DEVICE void mma_m16n8k32(E4m3, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The value is unchanged, but the compiler knows nothing of it any more: everything that follows from it is computed
/// after this.
TJ_DEVICE void hold(int& value) { asm volatile("" : "+r"(value)); }

}  // namespace tj::dev
