// Tensor memory of sm_100a and the matrix instruction that works on it. The model has the same names.
//
// Decides which instruction serves which primitive; no op and no schedule. Every synchronising primitive takes a site
// id first, so that the model can switch it off; here it is unused. Blocks: 1, or 2 for a pair of blocks of a cluster
// (ranks 2n and 2n + 1); all of these take the same number throughout a kernel. The number is an immediate ("n"): the
// compiler writes it out where it stands, in the middle of an instruction's name as well. Source of the encodings: PTX
// ISA 8.7 and 9.0, "TensorCore 5th Generation Family Instructions". None of it has run on a device.
#pragma once

namespace tj::dev {

// ---- allocation: by one warp, all of its lanes ----------------------------------------------------------------------
/// So many columns (32 to 512, a power of two, never more than allocated before); their address is written to shared
/// memory. Waits until they are free: another block on the SM may have them.
template <int Blocks = 1>
TJ_DEVICE void tensor_allocate(u32 place, u32 columns) {
  detail::check_blocks<Blocks>();
  asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(place), "r"(columns),
               "n"(Blocks)
               : "memory");
}
/// This block allocates no more: another may.
template <int Blocks = 1>
TJ_DEVICE void tensor_relinquish() {
  detail::check_blocks<Blocks>();
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(Blocks) : "memory");
}
/// Frees the allocation at this address, before the block ends and after everything that uses it.
template <int Blocks = 1>
TJ_DEVICE void tensor_free(u32 tensor, u32 columns) {
  detail::check_blocks<Blocks>();
  asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(tensor), "r"(columns), "n"(Blocks)
               : "memory");
}

// ---- order between what works on tensor memory: nothing of it is in order by itself but products on the same sums
// ------------------
/// Before an arrival or a sync. Work that this thread has waited for here comes before others' work after theirs. A
/// commit does it itself.
template <int Site>
TJ_DEVICE void tensor_before_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
/// After a wait or a sync. Others' work before theirs comes before this thread's work from now on.
template <int Site>
TJ_DEVICE void tensor_after_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
/// Returns once this warp's loads have arrived; before, their registers may be neither read nor written.
template <int Site>
TJ_DEVICE void tensor_load_wait() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}
/// Returns once this warp's stores are in tensor memory.
template <int Site>
TJ_DEVICE void tensor_store_wait() {
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

// ---- registers from tensor memory and back: all lanes of a warp, at an address in the lanes that it reaches
// (tensor_lanes) ----------

// That many registers, and the place holder behind them.
#define TJ_TENSOR_1 "%0"
#define TJ_TENSOR_2 TJ_TENSOR_1 ", %1"
#define TJ_TENSOR_4 TJ_TENSOR_2 ", %2, %3"
#define TJ_TENSOR_8 TJ_TENSOR_4 ", %4, %5, %6, %7"
#define TJ_TENSOR_16 TJ_TENSOR_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TJ_TENSOR_32 TJ_TENSOR_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TJ_LIST1(c, v, k) c(v[k])
#define TJ_LIST2(c, v, k) TJ_LIST1(c, v, k), TJ_LIST1(c, v, k + 1)
#define TJ_LIST4(c, v, k) TJ_LIST2(c, v, k), TJ_LIST2(c, v, k + 2)
#define TJ_LIST8(c, v, k) TJ_LIST4(c, v, k), TJ_LIST4(c, v, k + 4)
#define TJ_LIST16(c, v, k) TJ_LIST8(c, v, k), TJ_LIST8(c, v, k + 8)
#define TJ_LIST32(c, v, k) TJ_LIST16(c, v, k), TJ_LIST16(c, v, k + 16)

// Shape and how often it is repeated for N registers.
#define TJ_TENSOR_MOVES(N, shape, times, name)                                                      \
  TJ_DEVICE void name##_load(u32 tensor, u32* v) {                                                  \
    asm volatile("tcgen05.ld.sync.aligned." shape ".x" times ".b32 {" TJ_TENSOR_##N "}, [%" #N "];" \
                 : TJ_LIST##N("=r", v, 0)                                                           \
                 : "r"(tensor)                                                                      \
                 : "memory");                                                                       \
  }                                                                                                 \
  TJ_DEVICE void name##_store(u32 tensor, const u32* v) {                                           \
    asm volatile("tcgen05.st.sync.aligned." shape ".x" times ".b32 [%" #N "], {" TJ_TENSOR_##N      \
                 "};" ::TJ_LIST##N("r", v, 0),                                                      \
                 "r"(tensor)                                                                        \
                 : "memory");                                                                       \
  }

namespace detail {
TJ_TENSOR_MOVES(1, "32x32b", "1", rows_1)
TJ_TENSOR_MOVES(2, "32x32b", "2", rows_2)
TJ_TENSOR_MOVES(4, "32x32b", "4", rows_4)
TJ_TENSOR_MOVES(8, "32x32b", "8", rows_8)
TJ_TENSOR_MOVES(16, "32x32b", "16", rows_16)
TJ_TENSOR_MOVES(32, "32x32b", "32", rows_32)
TJ_TENSOR_MOVES(2, "16x128b", "1", operand_2)
TJ_TENSOR_MOVES(4, "16x128b", "2", operand_4)
TJ_TENSOR_MOVES(8, "16x128b", "4", operand_8)
TJ_TENSOR_MOVES(16, "16x128b", "8", operand_16)
TJ_TENSOR_MOVES(32, "16x128b", "16", operand_32)
TJ_TENSOR_MOVES(4, "16x256b", "1", fragment_4)
TJ_TENSOR_MOVES(8, "16x256b", "2", fragment_8)
TJ_TENSOR_MOVES(16, "16x256b", "4", fragment_16)
TJ_TENSOR_MOVES(32, "16x256b", "8", fragment_32)

template <int N>
TJ_DEVICE void load_rows(u32 tensor, u32* v) {
  check_rows<N>();
  if constexpr (N == 1)
    rows_1_load(tensor, v);
  else if constexpr (N == 2)
    rows_2_load(tensor, v);
  else if constexpr (N == 4)
    rows_4_load(tensor, v);
  else if constexpr (N == 8)
    rows_8_load(tensor, v);
  else if constexpr (N == 16)
    rows_16_load(tensor, v);
  else {
#pragma unroll
    for (int i = 0; i < N; i += 32) rows_32_load(tensor + static_cast<u32>(i), v + i);
  }
}
template <int N>
TJ_DEVICE void store_rows(u32 tensor, const u32* v) {
  check_rows<N>();
  if constexpr (N == 1)
    rows_1_store(tensor, v);
  else if constexpr (N == 2)
    rows_2_store(tensor, v);
  else if constexpr (N == 4)
    rows_4_store(tensor, v);
  else if constexpr (N == 8)
    rows_8_store(tensor, v);
  else if constexpr (N == 16)
    rows_16_store(tensor, v);
  else {
#pragma unroll
    for (int i = 0; i < N; i += 32) rows_32_store(tensor + static_cast<u32>(i), v + i);
  }
}
template <int N>
TJ_DEVICE void load_fragment(u32 tensor, u32* v) {
  check_fragment<N>();
  if constexpr (N == 4)
    fragment_4_load(tensor, v);
  else if constexpr (N == 8)
    fragment_8_load(tensor, v);
  else if constexpr (N == 16)
    fragment_16_load(tensor, v);
  else {
#pragma unroll
    for (int i = 0; i < N; i += 32) fragment_32_load(tensor + static_cast<u32>(2 * i), v + i);
  }
}
template <int N>
TJ_DEVICE void store_fragment(u32 tensor, const u32* v) {
  check_fragment<N>();
  if constexpr (N == 4)
    fragment_4_store(tensor, v);
  else if constexpr (N == 8)
    fragment_8_store(tensor, v);
  else if constexpr (N == 16)
    fragment_16_store(tensor, v);
  else {
#pragma unroll
    for (int i = 0; i < N; i += 32) fragment_32_store(tensor + static_cast<u32>(2 * i), v + i);
  }
}
template <int N>
TJ_DEVICE void load_operand(u32 tensor, u32* v) {
  check_operand<N>();
  if constexpr (N == 2)
    operand_2_load(tensor, v);
  else if constexpr (N == 4)
    operand_4_load(tensor, v);
  else if constexpr (N == 8)
    operand_8_load(tensor, v);
  else if constexpr (N == 16)
    operand_16_load(tensor, v);
  else
    operand_32_load(tensor, v);
}
template <int N>
TJ_DEVICE void store_operand(u32 tensor, const u32* v) {
  check_operand<N>();
  if constexpr (N == 2)
    operand_2_store(tensor, v);
  else if constexpr (N == 4)
    operand_4_store(tensor, v);
  else if constexpr (N == 8)
    operand_8_store(tensor, v);
  else if constexpr (N == 16)
    operand_16_store(tensor, v);
  else
    operand_32_store(tensor, v);
}
}  // namespace detail

/// Rows: thread l of the warp holds lane l of the 32, v[i] is column i from the address on. T is u32 or float.
template <class T, int N>
TJ_DEVICE void tensor_load(u32 tensor, T (&v)[N]) {
  static_assert(sizeof(T) == 4, "one word");
  detail::load_rows<N>(tensor, reinterpret_cast<u32*>(v));
}
template <class T, int N>
TJ_DEVICE void tensor_store(u32 tensor, const T (&v)[N]) {
  static_assert(sizeof(T) == 4, "one word");
  detail::store_rows<N>(tensor, reinterpret_cast<const u32*>(v));
}
/// The fragment of sums that a warp's matrix instruction has, for 16 of the lanes (the lower or the upper ones) and 2N
/// columns. v[4j + e] of thread l is lane l / 4 + 8(e / 2), column 8j + 2(l % 4) + e % 2.
template <class T, int N>
TJ_DEVICE void tensor_load_fragment(u32 tensor, T (&v)[N]) {
  static_assert(sizeof(T) == 4, "one word");
  detail::load_fragment<N>(tensor, reinterpret_cast<u32*>(v));
}
template <class T, int N>
TJ_DEVICE void tensor_store_fragment(u32 tensor, const T (&v)[N]) {
  static_assert(sizeof(T) == 4, "one word");
  detail::store_fragment<N>(tensor, reinterpret_cast<const u32*>(v));
}
/// The fragment of a left operand of 16-bit elements that a warp's matrix instruction has, two of them a word, for 16
/// of the lanes and 2N columns. v[2j + e] of thread l is lane l / 4 + 8e, column 4j + l % 4.
template <int N>
TJ_DEVICE void tensor_load_operand(u32 tensor, u32 (&v)[N]) {
  detail::load_operand<N>(tensor, v);
}
template <int N>
TJ_DEVICE void tensor_store_operand(u32 tensor, const u32 (&v)[N]) {
  detail::store_operand<N>(tensor, v);
}

}  // namespace tj::dev
