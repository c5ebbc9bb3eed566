// Primitives of every NVIDIA GPU from sm_80 on: where a thread is, ordinary accesses, arithmetic. The model has the
// same names.
//
// Decides which instruction serves which primitive; no op and no schedule. Shared memory is addressed by 32-bit window
// addresses. Every synchronising primitive takes a site id first, so that the model can switch it off; here it is
// unused. Included by the files of the archs, first. Invariant: every instruction here is there on sm_80. Source: PTX
// ISA 8.7.
#pragma once

#include "types.cuh"

#define TJ_DEVICE __device__ __forceinline__
/// So many blocks are to run beside each other on an SM: registers are given out for that.
#define TJ_KERNEL_BESIDE(symbol, threads, blocks_per_sm, Params, params) \
  extern "C" __global__ void __launch_bounds__(threads, blocks_per_sm) symbol(const __grid_constant__ Params params)
#define TJ_KERNEL(symbol, threads, Params, params) TJ_KERNEL_BESIDE(symbol, threads, 1, Params, params)
/// Notes of the unit for the model's reports: nothing here.
#define TJ_NOTES(symbol, text)

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

// ---- where this thread is -------------------------------------------------------------------------------------------
TJ_DEVICE u32 thread_index() { return threadIdx.x; }
TJ_DEVICE u32 block_index() { return blockIdx.x; }
TJ_DEVICE u32 grid_blocks() { return gridDim.x; }
TJ_DEVICE u32 lane_index() { return threadIdx.x & 31u; }
/// The warp's index: the compiler knows that it is one value in all lanes. All lanes of the warp take part: lanes that
/// come wait for the others without an end.
TJ_DEVICE u32 warp_index() { return __shfl_sync(0xffffffffu, threadIdx.x / 32u, 0); }
/// A value that is one in all lanes, so that the compiler knows. All lanes of the warp take part. Where a loop's length
/// or a slot's place are not known to be one value, each matrix instruction waits for its descriptor's registers.
TJ_DEVICE int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

/// First byte of the block's dynamic shared memory, a multiple of 1024.
TJ_DEVICE u32 shared_base() {
  extern __shared__ __align__(1024) unsigned char tj_shared[];
  return static_cast<u32>(__cvta_generic_to_shared(tj_shared));
}

// ---- synchronisation inside a block ---------------------------------------------------------------------------------
TJ_DEVICE void block_sync() { __syncthreads(); }
TJ_DEVICE void warp_sync() { __syncwarp(); }
/// Syncs that the schedule has placed.
template <int Site>
TJ_DEVICE void block_sync() {
  __syncthreads();
}
template <int Site>
TJ_DEVICE void warp_sync() {
  __syncwarp();
}

/// After a branch that one lane took: the warp goes on as one. Nothing waits for it, so that it has no site.
TJ_DEVICE void reconverge() { __syncwarp(); }

/// Barriers 1 to 15; `threads` counts the threads that sync and the threads that only arrive.
template <int Site>
TJ_DEVICE void named_sync(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
template <int Site>
TJ_DEVICE void named_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- mbarriers ------------------------------------------------------------------------------------------------------
TJ_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
template <int Site>
TJ_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// The same of threads for which `whether` holds, without a branch.
template <int Site>
TJ_DEVICE void mbarrier_arrive_if(bool whether, u32 barrier) {
  asm volatile(
      "{\n.reg .pred now;\nsetp.ne.b32 now, %1, 0;\n@now mbarrier.arrive.shared::cta.b64 _, [%0];\n}\n" ::"r"(barrier),
      "r"(static_cast<u32>(whether))
      : "memory");
}

// ---- ordinary accesses to shared memory; addresses are multiples of the access's size -------------------------------
/// T is u32 or float.
template <class T>
TJ_DEVICE T load_shared(u32 address);
template <>
TJ_DEVICE u32 load_shared<u32>(u32 address) {
  u32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
template <>
TJ_DEVICE float load_shared<float>(u32 address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}
TJ_DEVICE u32 load_shared_u16(u32 address) {
  unsigned short value;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(address) : "memory");
  return value;
}
TJ_DEVICE void load_shared(u32 address, float (&v)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(address)
               : "memory");
}
TJ_DEVICE void store_shared(u32 address, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
TJ_DEVICE void store_shared(u32 address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
TJ_DEVICE void store_shared(u32 address, const float (&v)[4]) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
               : "memory");
}

TJ_DEVICE void store_shared(u32 address, const u32 (&v)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}
TJ_DEVICE void store_shared_u16(u32 address, u32 value) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(static_cast<unsigned short>(value)) : "memory");
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------
/// 2^x, about 2 ulp, results below 2^-126 are zero.
TJ_DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 2^x, results below 2^-126 are kept, which takes two multiplications more.
TJ_DEVICE float exp2_gradual(float x) {
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// log2(x), absolute error about 2^-22; log2(0) = -inf.
TJ_DEVICE float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// x / y, at most 2 ulp for |y| of 2^-126 to 2^126; an infinite y gives 0 for finite x.
TJ_DEVICE float divide_approx(float x, float y) { return __fdividef(x, y); }
TJ_DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
/// Cut to [0, 1]; of a NaN, 0.
TJ_DEVICE float multiply_add_saturated(float a, float b, float c) { return __saturatef(__fmaf_rn(a, b, c)); }
TJ_DEVICE float magnitude(float x) { return fabsf(x); }
TJ_DEVICE float with_sign(float x, float sign) { return copysignf(x, sign); }
TJ_DEVICE float maximum(float a, float b) { return fmaxf(a, b); }
/// A NaN where one of them is.
TJ_DEVICE float maximum_or_nan(float a, float b) {
  float d;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}
/// value with `count` added to its exponent, where that stays in range.
TJ_DEVICE float scaled_by_bits(float value, u32 count) {
  return __uint_as_float(__float_as_uint(value) + (count << 23));
}
TJ_DEVICE u32 bits_of(float value) { return __float_as_uint(value); }
TJ_DEVICE float number_of(u32 bits) { return __uint_as_float(bits); }
TJ_DEVICE float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

/// The value of the lane whose index differs by `mask`; all lanes of the warp take part.
TJ_DEVICE float shuffle_xor(float value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
TJ_DEVICE u32 shuffle_xor(u32 value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
/// The value of lane `lane`; all lanes of the warp take part.
TJ_DEVICE u32 shuffle_from(u32 value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
TJ_DEVICE float shuffle_from(float value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
/// Lanes whose indices differ by `Bit` trade: the upper one's `low` for the lower one's `high`. All lanes of the warp
/// take part.
template <int Bit>
TJ_DEVICE void trade(u32& low, u32& high) {
  const bool upper = (lane_index() & static_cast<u32>(Bit)) != 0;
  const u32 got = __shfl_xor_sync(0xffffffffu, upper ? low : high, Bit);
  // Branches give the same instructions, and take the compiler a twentieth of a product's time.
  low = upper ? got : low;
  high = upper ? high : got;
}
/// True in every lane when it is true in any.
TJ_DEVICE bool any_in_warp(bool value) { return __any_sync(0xffffffffu, value); }

/// Two values rounded to nearest even, the first in the low half.
TJ_DEVICE u32 pack(F16, float low, float high) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
TJ_DEVICE u32 pack(Bf16, float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// The other way, exact: the low half first.
TJ_DEVICE void unpack(F16, u32 packed, float& low, float& high) {
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}\n"
      : "=f"(low), "=f"(high)
      : "r"(packed));
}
TJ_DEVICE void unpack(Bf16, u32 packed, float& low, float& high) {
  low = __uint_as_float(packed << 16);
  high = __uint_as_float(packed & 0xffff0000u);
}

}  // namespace tj::dev

#if __CUDA_ARCH__ < 890
#include "e4m3.cuh"
#endif

namespace tj::dev {

/// Two values as e4m3, to nearest even, the first in the low byte. Beyond 448 they are 448; NaN stays one.
TJ_DEVICE u32 pack_e4m3(float low, float high) {
#if __CUDA_ARCH__ < 890
  return detail::e4m3(low) | detail::e4m3(high) << 8;
#else
  unsigned short both;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  return both;
#endif
}
/// The other way, exact, of the low two bytes; the others are 0.
TJ_DEVICE void unpack_e4m3(u32 both, float& low, float& high) {
#if __CUDA_ARCH__ < 890
  detail::unpack_e4m3(both, low, high);
#else
  u32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<unsigned short>(both)));
  unpack(F16{}, halves, low, high);
#endif
}

/// For a thread that hands a slot back to whoever copies: its reads of the slot by ordinary accesses, load_matrices
/// among them, have arrived. An arrival alone may overtake loads that wait behind other accesses. For example, products
/// of warps beside a block whose results left in 2-byte stores multiplied rows of a later iteration (H200, 2026-11-21;
/// gpu.gemm_gpu has the case).
template <int Site>
TJ_DEVICE void reads_arrived() {
  asm volatile("fence.acq_rel.cta;" ::: "memory");
}

/// The node that runs next, for the model's reports: nothing here.
template <int Call>
TJ_DEVICE void at_node(int) {}

// ---- times, in units that record ------------------------------------------------------------------------------------
/// Cycles of this multiprocessor, the same for all its warps; the lower 32 bits. Instructions with memory as an operand
/// stay on their side of this; arithmetic that nothing else holds may move across.
TJ_DEVICE u32 clock_now() {
  u32 cycles;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
  return cycles;
}
TJ_DEVICE u32 processor_index() {
  u32 index;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(index));
  return index;
}
/// Two words, where `writes` says so; without a branch.
TJ_DEVICE void store_record(u64 address, u32 first, u32 second, bool writes) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %3, 0;\n@p st.global.v2.u32 [%0], {%1, %2};\n}\n" ::"l"(address),
               "r"(first), "r"(second), "r"(static_cast<u32>(writes))
               : "memory");
}

// ---- counters in global memory, by which blocks tell each other -----------------------------------------------------
// Source: PTX ISA 8.7, "atom", "red", "ld", and "Release and Acquire Patterns".
/// The number before one is added: each caller gets its own. Orders nothing.
TJ_DEVICE u32 draw_global(u32* counter) {
  u32 before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}
/// Adds, and tells with it all that this thread has done, and knows that others of its block have done.
template <int Site>
TJ_DEVICE void signal_global(u32* counter, u32 amount) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(amount) : "memory");
}
/// Returns once the counter, counted from `value`, is not negative; then this thread knows what was told with it.
template <int Site>
TJ_DEVICE void wait_global(const u32* counter, u32 value) {
  u32 now;
  do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  while (static_cast<int>(now - value) < 0);
}
/// Back to 0, for the next launch: nobody looks at the counter any more.
template <int Site>
TJ_DEVICE void reset_global(u32* counter) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(counter) : "memory");
}

// ---- global memory: addresses are multiples of the access's size ----------------------------------------------------
TJ_DEVICE float load_global(const float* address) { return *address; }
TJ_DEVICE void load_global(const float* address, float& a, float& b) {
  const float2 both = *reinterpret_cast<const float2*>(address);
  a = both.x;
  b = both.y;
}
TJ_DEVICE void load_global(const void* address, u32 (&words)[4]) {
  const uint4 four = *reinterpret_cast<const uint4*>(address);
  words[0] = four.x;
  words[1] = four.y;
  words[2] = four.z;
  words[3] = four.w;
}
TJ_DEVICE void load_global(const void* address, u32 (&words)[2]) {
  const uint2 two = *reinterpret_cast<const uint2*>(address);
  words[0] = two.x;
  words[1] = two.y;
}
TJ_DEVICE void load_global(const float* address, float (&v)[4]) {
  const float4 four = *reinterpret_cast<const float4*>(address);
  v[0] = four.x;
  v[1] = four.y;
  v[2] = four.z;
  v[3] = four.w;
}
/// Asks for the 32 bytes around an address ahead of their loads, as far as the GPU does that.
TJ_DEVICE void prefetch_near(const void* address) { asm volatile("prefetch.global.L1 [%0];" ::"l"(address)); }
TJ_DEVICE u32 load_global_u8(const void* address) { return *reinterpret_cast<const unsigned char*>(address); }
TJ_DEVICE u32 load_global_u32(const void* address) { return *reinterpret_cast<const u32*>(address); }
TJ_DEVICE u32 load_global_u16(const void* address) { return *reinterpret_cast<const unsigned short*>(address); }
TJ_DEVICE void store_global(void* address, u32 a, u32 b, u32 c, u32 d) {
  *reinterpret_cast<uint4*>(address) = uint4{a, b, c, d};
}
TJ_DEVICE void store_global(void* address, u32 a, u32 b) { *reinterpret_cast<uint2*>(address) = uint2{a, b}; }
TJ_DEVICE void store_global(void* address, u32 value) { *reinterpret_cast<u32*>(address) = value; }
/// The first `count` of 8 halves, none where that is not positive; all 16 bytes at once where they are allowed to be
/// (`wide`).
TJ_DEVICE void store_halves(void* address, const u32 (&words)[4], int count, bool wide) {
  asm volatile(
      "{\n.reg .pred whole, part;\n.reg .b16 l0, h0, l1, h1, l2, h2, l3, h3;\n"
      "setp.ne.b32 whole, %6, 0;\nsetp.gt.and.s32 whole, %5, 7, whole;\n"
      "@whole st.global.v4.b32 [%0], {%1, %2, %3, %4};\n@whole bra TJ_STORED_%=;\n"
      "mov.b32 {l0, h0}, %1;\nmov.b32 {l1, h1}, %2;\nmov.b32 {l2, h2}, %3;\nmov.b32 {l3, h3}, %4;\n"
      "setp.gt.s32 part, %5, 0;\n@part st.global.u16 [%0+0], l0;\n"
      "setp.gt.s32 part, %5, 1;\n@part st.global.u16 [%0+2], h0;\n"
      "setp.gt.s32 part, %5, 2;\n@part st.global.u16 [%0+4], l1;\n"
      "setp.gt.s32 part, %5, 3;\n@part st.global.u16 [%0+6], h1;\n"
      "setp.gt.s32 part, %5, 4;\n@part st.global.u16 [%0+8], l2;\n"
      "setp.gt.s32 part, %5, 5;\n@part st.global.u16 [%0+10], h2;\n"
      "setp.gt.s32 part, %5, 6;\n@part st.global.u16 [%0+12], l3;\n"
      "setp.gt.s32 part, %5, 7;\n@part st.global.u16 [%0+14], h3;\n"
      "TJ_STORED_%=:\n}\n" ::"l"(address),
      "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(count), "r"(static_cast<u32>(wide))
      : "memory");
}
TJ_DEVICE void store_global_u8(void* address, u32 value) { *static_cast<unsigned char*>(address) = value & 0xffu; }
TJ_DEVICE void store_global_u16(void* address, u32 value) {
  *reinterpret_cast<unsigned short*>(address) = static_cast<unsigned short>(value);
}
TJ_DEVICE void store_global(float* address, float value) { *address = value; }
TJ_DEVICE void store_global(float* address, float a, float b) { *reinterpret_cast<float2*>(address) = float2{a, b}; }
TJ_DEVICE void store_global(float* address, const float (&v)[4]) {
  *reinterpret_cast<float4*>(address) = float4{v[0], v[1], v[2], v[3]};
}

/// Keeps the compiler from moving accesses to registers that another unit fills or reads across this point. Eight a
/// statement, but for the last four: the compiler's time goes by statements.
template <int N>
TJ_DEVICE void hold(float (&v)[N]) {
  static_assert(N % 4 == 0, "four at a time");
  if constexpr (N % 8 != 0) asm volatile("" : "+f"(v[N - 4]), "+f"(v[N - 3]), "+f"(v[N - 2]), "+f"(v[N - 1])::"memory");
#pragma unroll
  for (int i = 0; i + 8 <= N; i += 8)
    asm volatile(""
                 : "+f"(v[i]), "+f"(v[i + 1]), "+f"(v[i + 2]), "+f"(v[i + 3]), "+f"(v[i + 4]), "+f"(v[i + 5]),
                   "+f"(v[i + 6]), "+f"(v[i + 7])::"memory");
}
TJ_DEVICE void hold(u32& value) { asm volatile("" : "+r"(value)); }
template <int N>
TJ_DEVICE void hold(u32 (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

}  // namespace tj::dev
