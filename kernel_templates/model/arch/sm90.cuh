// Primitives of sm_90a on the CPU: the names, signatures and meanings of the device's file, for the CPU model.
//
// Decides what a thread can do alone (arithmetic, where it is, plain stores) and hands everything else to the library
// through the table of abi.h. No op and no schedule. Invariant: a unit that compiles for the device compiles here.
#pragma once

#include "../abi.h"
#include "types.cuh"

#define TJ_DEVICE inline
#define TJ_MODEL_EXPORT extern "C" __attribute__((visibility("default")))
#define TJ_KERNEL(symbol, block_threads, Params, params)                                                             \
  static void symbol##_body(const Params& params);                                                                   \
  TJ_MODEL_EXPORT void symbol(const void* params) { symbol##_body(*static_cast<const Params*>(params)); }            \
  TJ_MODEL_EXPORT const tj_model_kernel symbol##_model;                                                              \
  const tj_model_kernel symbol##_model = {TJ_MODEL_ABI_VERSION, block_threads, sizeof(Params), alignof(Params), symbol, \
                                          tj::dev::bind_model};                                                      \
  static void symbol##_body(const Params& params)

// CUDA has these without qualification.
inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }

namespace tj::dev {

using u32 = unsigned;
using u64 = unsigned long long;

/// Tags of the element types.
struct F16 {};
struct Bf16 {};
struct E4m3 {};
struct F32 {};
template <class Tag>
inline constexpr int kElementBytes = 2;
template <>
inline constexpr int kElementBytes<E4m3> = 1;
template <>
inline constexpr int kElementBytes<F32> = 4;

namespace detail {
inline tj_model_api api;  // set once, before any thread runs
inline tj_model_element element(F16) { return TJ_MODEL_F16; }
inline tj_model_element element(Bf16) { return TJ_MODEL_BF16; }
inline tj_model_element element(E4m3) { return TJ_MODEL_E4M3; }
inline void check_aligned(const void* address, u32 bytes) {
  if ((reinterpret_cast<u64>(address) & (bytes - 1u)) != 0) api.misaligned(address, bytes);
}
}  // namespace detail

inline void bind_model(const tj_model_api* api) { detail::api = *api; }

// ---- where this thread is -------------------------------------------------------------------------------------------
TJ_DEVICE u32 thread_index() { return detail::api.self()->thread; }
TJ_DEVICE u32 block_index() { return detail::api.self()->block; }
TJ_DEVICE u32 grid_blocks() { return detail::api.self()->grid_blocks; }
TJ_DEVICE u32 lane_index() { return thread_index() & 31u; }
TJ_DEVICE u32 warp_index() { return thread_index() / 32u; }

/// True in exactly one lane of a converged warp.
TJ_DEVICE bool elect_one() { return lane_index() == 0; }

/// First byte of the block's dynamic shared memory, a multiple of 1024.
TJ_DEVICE u32 shared_base() { return detail::api.self()->shared_base; }

// ---- grids of one stream: they run one after the other --------------------------------------------------------------
TJ_DEVICE void next_grid_may_start() {}
TJ_DEVICE void wait_for_grids_before() {}

// ---- synchronisation inside a block ---------------------------------------------------------------------------------
TJ_DEVICE void block_sync() { detail::api.block_sync(); }
TJ_DEVICE void warp_sync() { detail::api.warp_sync(); }

/// Barriers 1 to 15; `threads` counts those that sync and those that only arrive.
template <int Site>
TJ_DEVICE void named_sync(u32 id, u32 threads) {
  detail::api.named_barrier(Site, id, threads, 1);
}
template <int Site>
TJ_DEVICE void named_arrive(u32 id, u32 threads) {
  detail::api.named_barrier(Site, id, threads, 0);
}

// ---- mbarriers ------------------------------------------------------------------------------------------------------
TJ_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) { detail::api.mbarrier_init(barrier, arrivals); }
/// After all inits, before the block_sync that publishes them: makes them visible to the copy engine too.
TJ_DEVICE void mbarrier_init_done() { detail::api.mbarrier_init_done(); }
template <int Site>
TJ_DEVICE void mbarrier_arrive(u32 barrier) {
  detail::api.mbarrier_arrive(Site, barrier);
}
/// One arrival that also announces `bytes` of copies.
template <int Site>
TJ_DEVICE void mbarrier_expect(u32 barrier, u32 bytes) {
  detail::api.mbarrier_expect(Site, barrier, bytes);
}
/// Returns once the phase with this parity has completed.
template <int Site>
TJ_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  detail::api.mbarrier_wait(Site, barrier, parity);
}
/// Orders this thread's ordinary shared-memory writes before later reads by the copy engine and the matrix unit.
template <int Site>
TJ_DEVICE void proxy_fence() {
  detail::api.proxy_fence(Site);
}

// ---- clusters: blocks that run together and reach into each other's shared memory -------------------------------------------
/// This block's place in its cluster.
TJ_DEVICE u32 cluster_rank() { return detail::api.self()->cluster_rank; }
/// All threads of all blocks of the cluster that have not ended. Barriers whose initialisation mbarrier_init_done has announced are
/// seen after it; it orders no other memory.
template <int Site>
TJ_DEVICE void cluster_sync() {
  detail::api.cluster_sync(Site);
}
/// An arrival on the barrier that lies at this address in the block of that rank: says that this thread's reads are done. What it
/// has written is not ordered by it.
template <int Site>
TJ_DEVICE void mbarrier_arrive_at(u32 barrier, u32 rank) {
  detail::api.mbarrier_arrive_at(Site, barrier, rank);
}

// ---- registers of a role (executed by every warp of a warpgroup) -----------------------------------------------------
template <int Site, int Registers>
TJ_DEVICE void registers_shrink() {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0, "24 to 256 in steps of 8");
  detail::api.registers(Site, Registers, 0);
}
template <int Site, int Registers>
TJ_DEVICE void registers_grow() {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0, "24 to 256 in steps of 8");
  detail::api.registers(Site, Registers, 1);
}

// ---- ordinary accesses to shared memory; addresses are multiples of the access's size -------------------------------
/// T is u32 or float.
template <class T>
TJ_DEVICE T load_shared(u32 address) {
  static_assert(sizeof(T) == 4, "one word");
  T value;
  detail::api.shared_load(address, &value, 4);
  return value;
}
TJ_DEVICE u32 load_shared_u16(u32 address) {
  unsigned short value;
  detail::api.shared_load(address, &value, 2);
  return value;
}
TJ_DEVICE void load_shared(u32 address, float (&values)[4]) { detail::api.shared_load(address, values, 16); }
TJ_DEVICE void store_shared(u32 address, u32 value) { detail::api.shared_store(address, &value, 4); }
TJ_DEVICE void store_shared(u32 address, float value) { detail::api.shared_store(address, &value, 4); }
TJ_DEVICE void store_shared(u32 address, const float (&values)[4]) { detail::api.shared_store(address, values, 16); }

TJ_DEVICE void store_shared(u32 address, const u32 (&values)[4]) { detail::api.shared_store(address, values, 16); }
/// Four 8x8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8 and holds, in words[m], elements
/// 2(l % 4) and on of row l / 4 of matrix m: the fragments of a matrix instruction. Rows are 16 bytes.
TJ_DEVICE void store_matrices(u32 address, const u32 (&words)[4]) {
  for (u32 m = 0; m < 4; ++m) {
    const u32 row = detail::api.shuffle(address, 8 * m + lane_index() / 4);
    store_shared(row + lane_index() % 4 * 4, words[m]);
  }
}

// ---- warpgroup matrix instructions ----------------------------------------------------------------------------------
template <int Site>
TJ_DEVICE void matrix_fence() {
  detail::api.matrix_fence(Site);
}
template <int Site>
TJ_DEVICE void matrix_commit() {
  detail::api.matrix_commit(Site);
}
/// Returns once at most `Pending` of the newest committed groups are unfinished.
template <int Site, int Pending>
TJ_DEVICE void matrix_wait() {
  detail::api.matrix_wait(Site, Pending);
}

/// Shared-memory operand with 128-byte swizzle. Bits 0-13 address >> 4, 16-29 leading offset >> 4, 32-45 stride offset
/// >> 4, 62-63 swizzle mode 1 (128 bytes).
TJ_DEVICE u64 matrix_operand(u32 address, u32 leading_bytes, u32 stride_bytes) {
  return (u64{1} << 62) | (u64{(stride_bytes >> 4) & 0x3fffu} << 32) | (u64{(leading_bytes >> 4) & 0x3fffu} << 16) |
         u64{(address >> 4) & 0x3fffu};
}
/// The operand `bytes` further on, inside one swizzle atom row or at a multiple of 1024.
TJ_DEVICE u64 operand_advance(u64 operand, u32 bytes) { return operand + (bytes >> 4); }

/// Which operands of a matrix instruction are stored MN-major in shared memory (rows of one k), instead of K-major.
inline constexpr int kRightMn = 1, kLeftMn = 2;

/// d (+)= a b, both operands in shared memory; MnMajor (kLeftMn, kRightMn or both) says which is stored so. The whole
/// warpgroup executes it. Until the wait that covers it, d holds NaN.
template <int MnMajor, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], u64 a, u64 b, bool accumulate) {
  static_assert(kElementBytes<Tag> == 2 || MnMajor == 0, "operands of 8 bits are K-major");
  const tj_model_matrix instruction = {detail::element(tag), 2 * Half, (MnMajor & kLeftMn) != 0, (MnMajor & kRightMn) != 0, accumulate, d, nullptr, a, b};
  detail::api.matrix_multiply(&instruction);
}
/// The same with a in registers: a[0..3] is the 64x16 fragment of this thread.
template <int MnMajor, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], const u32* a, u64 b, bool accumulate) {
  static_assert((MnMajor & kLeftMn) == 0, "registers have one order");
  static_assert(kElementBytes<Tag> == 2, "operands of 8 bits come from shared memory");
  const tj_model_matrix instruction = {detail::element(tag), 2 * Half, 0, MnMajor == kRightMn, accumulate, d, a, 0, b};
  detail::api.matrix_multiply(&instruction);
}
/// How far a multiplication goes: `Steps` steps of 32 bytes of K; each moves the operands in shared memory on by the bytes given.
/// MnMajor: which operands in shared memory are stored so.
template <int Steps, int LeftBytes, int RightBytes, int MnMajor>
struct MatrixSteps {
  static constexpr int kSteps = Steps, kLeftBytes = LeftBytes, kRightBytes = RightBytes;
  static constexpr int kMnMajor = MnMajor;
};
/// Several steps of either form; a in registers moves on by four a step.
template <class S, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], u64 a, u64 b, bool accumulate) {
  for (u32 step = 0; step < S::kSteps; ++step)
    matrix_multiply<S::kMnMajor>(tag, d, operand_advance(a, step * S::kLeftBytes), operand_advance(b, step * S::kRightBytes), accumulate || step > 0);
}
template <class S, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], const u32* a, u64 b, bool accumulate) {
  for (u32 step = 0; step < S::kSteps; ++step)
    matrix_multiply<S::kMnMajor>(tag, d, a + 4 * step, operand_advance(b, step * S::kRightBytes), accumulate || step > 0);
}

/// The device's compiler needs this around registers that the matrix unit owns; here they are memory.
template <int N>
TJ_DEVICE void hold(float (&)[N]) {}
template <int N>
TJ_DEVICE void hold(u32 (&)[N]) {}

// ---- arithmetic -----------------------------------------------------------------------------------------------------
/// 2^x, results below 2^-126 are zero.
TJ_DEVICE float exp2_approx(float x) { return x < -126.0f ? 0.0f : __builtin_exp2f(x); }
/// log2(x); log2(0) = -inf, denormals count as 0.
TJ_DEVICE float log2_approx(float x) { return __builtin_log2f(x >= 0.0f && x < 0x1p-126f ? 0.0f : x); }
/// x / y.
TJ_DEVICE float divide_approx(float x, float y) { return x / y; }
TJ_DEVICE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
/// NaN loses against any number.
TJ_DEVICE float maximum(float a, float b) { return a > b || b != b ? a : b; }
TJ_DEVICE float minus_infinity() { return -__builtin_inff(); }

/// The value of the lane whose index differs by `mask`; all lanes of the warp take part.
TJ_DEVICE u32 shuffle_xor(u32 value, int mask) { return detail::api.shuffle_xor(value, static_cast<u32>(mask)); }
TJ_DEVICE float shuffle_xor(float value, int mask) {
  return __builtin_bit_cast(float, shuffle_xor(__builtin_bit_cast(u32, value), mask));
}
/// The value of lane `lane`; all lanes of the warp take part.
TJ_DEVICE u32 shuffle_from(u32 value, int lane) { return detail::api.shuffle(value, static_cast<u32>(lane)); }
TJ_DEVICE float shuffle_from(float value, int lane) { return __builtin_bit_cast(float, shuffle_from(__builtin_bit_cast(u32, value), lane)); }
template <int Bit>
TJ_DEVICE void trade(u32& low, u32& high) {
  const bool upper = (lane_index() & static_cast<u32>(Bit)) != 0;
  const u32 got = shuffle_xor(upper ? low : high, Bit);
  (upper ? low : high) = got;
}
/// True in every lane when it is true in any.
TJ_DEVICE bool any_in_warp(bool value) { return detail::api.any_in_warp(value) != 0; }

/// Two values rounded to nearest even, the first in the low half.
TJ_DEVICE u32 pack(F16, float low, float high) {
  typedef float Four __attribute__((vector_size(16)));
  const auto halves = __builtin_ia32_vcvtps2ph(Four{low, high, 0.0f, 0.0f}, 0);
  return static_cast<u32>(static_cast<unsigned short>(halves[0])) |
         static_cast<u32>(static_cast<unsigned short>(halves[1])) << 16;
}
TJ_DEVICE u32 pack(Bf16, float low, float high) {
  const auto round = [](float value) {
    const u32 bits = __builtin_bit_cast(u32, value);
    return value != value ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  };
  return round(low) | round(high) << 16;
}

/// The other way, exact: the low half first.
TJ_DEVICE void unpack(F16, u32 packed, float& low, float& high) {
  typedef short Eight __attribute__((vector_size(16)));
  const auto values = __builtin_ia32_vcvtph2ps(Eight{static_cast<short>(packed), static_cast<short>(packed >> 16)});
  low = values[0];
  high = values[1];
}
TJ_DEVICE void unpack(Bf16, u32 packed, float& low, float& high) {
  low = __builtin_bit_cast(float, packed << 16);
  high = __builtin_bit_cast(float, packed & 0xffff0000u);
}

// ---- global memory: addresses are multiples of the access's size ----------------------------------------------------
TJ_DEVICE float load_global(const float* address) {
  detail::check_aligned(address, 4);
  return *address;
}
TJ_DEVICE void load_global(const float* address, float& a, float& b) {
  detail::check_aligned(address, 8);
  a = address[0];
  b = address[1];
}
TJ_DEVICE void load_global(const void* address, u32 (&words)[4]) {
  detail::check_aligned(address, 16);
  __builtin_memcpy(words, address, sizeof(words));
}
TJ_DEVICE void load_global(const void* address, u32 (&words)[2]) {
  detail::check_aligned(address, 8);
  __builtin_memcpy(words, address, sizeof(words));
}
TJ_DEVICE void load_global(const float* address, float (&v)[4]) {
  detail::check_aligned(address, 16);
  __builtin_memcpy(v, address, sizeof(v));
}
TJ_DEVICE u32 load_global_u8(const void* address) { return *static_cast<const unsigned char*>(address); }
TJ_DEVICE u32 load_global_u32(const void* address) {
  detail::check_aligned(address, 4);
  return *static_cast<const u32*>(address);
}
TJ_DEVICE u32 load_global_u16(const void* address) {
  detail::check_aligned(address, 2);
  unsigned short half;
  __builtin_memcpy(&half, address, sizeof(half));
  return half;
}
TJ_DEVICE void store_global(void* address, u32 a, u32 b, u32 c, u32 d) {
  detail::check_aligned(address, 16);
  const u32 words[4] = {a, b, c, d};
  __builtin_memcpy(address, words, sizeof(words));
}
TJ_DEVICE void store_global(void* address, u32 a, u32 b) {
  detail::check_aligned(address, 8);
  const u32 words[2] = {a, b};
  __builtin_memcpy(address, words, sizeof(words));
}
TJ_DEVICE void store_global(void* address, u32 value) {
  detail::check_aligned(address, 4);
  __builtin_memcpy(address, &value, sizeof(value));
}
TJ_DEVICE void store_global_u16(void* address, u32 value) {
  detail::check_aligned(address, 2);
  const unsigned short half = static_cast<unsigned short>(value);
  __builtin_memcpy(address, &half, sizeof(half));
}
TJ_DEVICE void store_halves(void* address, const u32 (&words)[4], int count, bool wide) {
  unsigned short* halves = static_cast<unsigned short*>(address);
  if (wide && count > 7) return store_global(address, words[0], words[1], words[2], words[3]);
  for (int e = 0; e < 8 && e < count; ++e) store_global_u16(halves + e, words[e / 2] >> (e % 2 * 16));
}
TJ_DEVICE void store_global(float* address, float value) {
  detail::check_aligned(address, 4);
  __builtin_memcpy(address, &value, sizeof(value));
}
TJ_DEVICE void store_global(float* address, float a, float b) {
  detail::check_aligned(address, 8);
  address[0] = a;
  address[1] = b;
}
TJ_DEVICE void store_global(float* address, const float (&v)[4]) {
  detail::check_aligned(address, 16);
  __builtin_memcpy(address, v, sizeof(v));
}

}  // namespace tj::dev

#include "arch/sm90_copies.cuh"
