// Primitives of every AMD GPU that has matrix instructions: where a thread is, memory, synchronisation, exchange in a
// wave, arithmetic. The model has the same names.
//
// Decides which builtin serves which primitive; no op and no schedule. A warp is a wave, of kWave lanes. Shared memory
// (LDS) is addressed by 32-bit offsets. Every synchronising primitive takes a site id first, so that the model can
// switch it off; here it is unused. Included by the files of the archs, which say kWave and kGeneration before.
// Everything is a builtin, an attribute or an instruction that clang knows: compiled without any header, by hiprtc and
// by clang alone. Invariant: no blockDim, no gridDim, nothing else that hides in implicit arguments. Source: LLVM, user
// guide of the AMDGPU backend; AMD's ISA reference guides.
#pragma once

#include "types.cuh"

#define TJ_DEVICE __attribute__((device)) inline __attribute__((always_inline))
/// So many blocks are to run beside each other on a compute unit: registers are given out for that.
#define TJ_KERNEL_BESIDE(symbol, threads, blocks_per_sm, Params, params)                             \
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(threads, threads)))  \
  __attribute__((amdgpu_waves_per_eu(tj::dev::detail::waves_per_simd(threads, blocks_per_sm)))) void \
  symbol(const Params params)
#define TJ_KERNEL(symbol, threads, Params, params)                                                               \
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(threads, threads))) void symbol( \
      const Params params)
/// Notes of the unit for the model's reports: nothing here.
#define TJ_NOTES(symbol, text)

namespace tj {

// Node bodies find these without qualification. Outside of this namespace hiprtc brings its own, clang without a header
// none.
TJ_DEVICE int min(int a, int b) { return b < a ? b : a; }
TJ_DEVICE int max(int a, int b) { return a < b ? b : a; }
TJ_DEVICE unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
TJ_DEVICE unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
TJ_DEVICE long long min(long long a, long long b) { return b < a ? b : a; }
TJ_DEVICE long long max(long long a, long long b) { return a < b ? b : a; }
TJ_DEVICE unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
TJ_DEVICE unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }

}  // namespace tj
#ifndef __HIPCC_RTC__
using tj::max;
using tj::min;
#endif

namespace tj::dev {

using u32 = unsigned;
using u64 = unsigned long long;

/// Tags of the element types.
struct F16 {};
struct Bf16 {};
struct E4m3 {};
struct F32 {};
/// Values of that type that are numbers, never NaN: some types round them with less work.
template <class Tag>
struct Numbers {};
template <class Tag>
inline constexpr int kElementBytes = 2;
template <>
inline constexpr int kElementBytes<E4m3> = 1;
template <>
inline constexpr int kElementBytes<F32> = 4;

namespace detail {

/// Waves of a SIMD, of which a compute unit has 4 where waves have 64 lanes, else 2.
constexpr unsigned waves_per_simd(unsigned threads, unsigned blocks) {
  const unsigned simds = kWave == 64 ? 4 : 2, waves = (threads + kWave - 1) / kWave * blocks;
  return (waves + simds - 1) / simds;
}

typedef u32 Words2 __attribute__((ext_vector_type(2)));
typedef u32 Words4 __attribute__((ext_vector_type(4)));
/// So many words as one value, which one instruction moves.
template <int Count>
struct Words;
template <>
struct Words<1> {
  using Type = u32;
};
template <>
struct Words<2> {
  using Type = Words2;
};
template <>
struct Words<4> {
  using Type = Words4;
};

template <class T>
using Lds = __attribute__((address_space(3))) T*;
template <class T>
using Global = __attribute__((address_space(1))) T*;

template <class T>
TJ_DEVICE T load_lds(u32 address) {
  return *(Lds<const T>)(address);
}
template <class T>
TJ_DEVICE void store_lds(u32 address, T value) {
  *(Lds<T>)(address) = value;
}
template <class T>
TJ_DEVICE T load(const void* address) {
  return *(Global<const T>)(address);
}
template <class T>
TJ_DEVICE void store(void* address, T value) {
  *(Global<T>)(address) = value;
}
TJ_DEVICE u32 bits(float value) { return __builtin_bit_cast(u32, value); }
TJ_DEVICE float number(u32 bits) { return __builtin_bit_cast(float, bits); }

/// Registers as what the matrix builtins take.
template <class To, class From, int Count>
TJ_DEVICE To as(const From (&from)[Count]) {
  To to;
  static_assert(sizeof(to) == sizeof(from), "the same registers");
  __builtin_memcpy(&to, from, sizeof(to));
  return to;
}

}  // namespace detail

// ---- where this thread is -------------------------------------------------------------------------------------------
TJ_DEVICE u32 thread_index() { return __builtin_amdgcn_workitem_id_x(); }
TJ_DEVICE u32 block_index() { return __builtin_amdgcn_workgroup_id_x(); }
TJ_DEVICE u32 lane_index() { return thread_index() % kWave; }
/// The wave's index: the compiler knows that it is one value in all lanes.
TJ_DEVICE u32 warp_index() {
  return static_cast<u32>(__builtin_amdgcn_readfirstlane(static_cast<int>(thread_index() / kWave)));
}

/// First byte of the block's dynamic shared memory, a multiple of 1024.
TJ_DEVICE u32 shared_base() {
  extern __attribute__((shared)) __attribute__((aligned(1024))) unsigned char tj_shared[];
  return (u32)(detail::Lds<unsigned char>)tj_shared;
}

// ---- synchronisation inside a block ---------------------------------------------------------------------------------
namespace detail {
/// The instruction alone. Compilers put a wait before the builtin on gfx11 and gfx12. It is also for all that is under
/// way from global memory, so nothing could be loaded ahead over a barrier. The fences around this say what has to be
/// waited for.
TJ_DEVICE void barrier() {
  if constexpr (kGeneration == 12)
    asm volatile("s_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
  else if constexpr (kGeneration == 11)
    asm volatile("s_barrier" ::: "memory");
  else
    __builtin_amdgcn_s_barrier();
}
}  // namespace detail

/// Every thread of the block has come, and sees what the others have written to shared memory before.
TJ_DEVICE void block_sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  detail::barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
template <int Site>
TJ_DEVICE void block_sync() {
  block_sync();
}
/// The lanes of a wave see what the others have written to shared memory before. The hardware keeps a wave's accesses
/// in order, so that this binds the compiler alone.
TJ_DEVICE void warp_sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
template <int Site>
TJ_DEVICE void warp_sync() {
  warp_sync();
}
/// After a branch that one lane took. A wave goes on as one by itself.
TJ_DEVICE void reconverge() {}
/// Reads are done when they return.
template <int Site>
TJ_DEVICE void reads_arrived() {}

/// The node that runs next, for the model's reports: nothing here.
template <int Call>
TJ_DEVICE void at_node(int) {}

// ---- ordinary accesses to shared memory; addresses are multiples of the access's size, of 16 bytes where it is more
// ----
/// T is u32 or float.
template <class T>
TJ_DEVICE T load_shared(u32 address) {
  static_assert(sizeof(T) == 4, "one word");
  return detail::load_lds<T>(address);
}
TJ_DEVICE u32 load_shared_u16(u32 address) { return detail::load_lds<unsigned short>(address); }
/// 1, 2, 4 or 8 words.
template <int Count>
TJ_DEVICE void load_shared(u32 address, u32 (&words)[Count]) {
  constexpr int kAtOnce = Count < 4 ? Count : 4;
#pragma unroll
  for (int first = 0; first < Count; first += kAtOnce) {
    const auto some = detail::load_lds<typename detail::Words<kAtOnce>::Type>(address + 4u * static_cast<u32>(first));
    __builtin_memcpy(&words[first], &some, sizeof(some));
  }
}
TJ_DEVICE void load_shared(u32 address, float (&v)[4]) {
  u32 words[4];
  load_shared(address, words);
  __builtin_memcpy(v, words, sizeof(words));
}
TJ_DEVICE void store_shared(u32 address, u32 value) { detail::store_lds(address, value); }
TJ_DEVICE void store_shared(u32 address, float value) { detail::store_lds(address, value); }
TJ_DEVICE void store_shared_u16(u32 address, u32 value) {
  detail::store_lds(address, static_cast<unsigned short>(value));
}
template <int Count>
TJ_DEVICE void store_shared(u32 address, const u32 (&words)[Count]) {
  constexpr int kAtOnce = Count < 4 ? Count : 4;
#pragma unroll
  for (int first = 0; first < Count; first += kAtOnce) {
    typename detail::Words<kAtOnce>::Type some;
    __builtin_memcpy(&some, &words[first], sizeof(some));
    detail::store_lds(address + 4u * static_cast<u32>(first), some);
  }
}
TJ_DEVICE void store_shared(u32 address, const float (&v)[4]) {
  u32 words[4];
  __builtin_memcpy(words, v, sizeof(words));
  store_shared(address, words);
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------
namespace detail {
// Builtins that older compilers lack; there the general builtins are the bare instructions.
TJ_DEVICE float exp2_bare(float x) {
#if __has_builtin(__builtin_amdgcn_exp2f)
  return __builtin_amdgcn_exp2f(x);
#else
  return __builtin_exp2f(x);
#endif
}
TJ_DEVICE float log2_bare(float x) {
#if __has_builtin(__builtin_amdgcn_logf)
  return __builtin_amdgcn_logf(x);
#else
  return __builtin_log2f(x);
#endif
}
}  // namespace detail

/// 2^x, about 1 ulp, results below 2^-126 are zero.
TJ_DEVICE float exp2_approx(float x) { return detail::exp2_bare(x); }
/// 2^x, results below 2^-126 are kept, which takes a comparison, a sum and a multiplication more.
TJ_DEVICE float exp2_gradual(float x) {
  const bool small = x < -126.0f;
  return detail::exp2_bare(small ? x + 64.0f : x) * (small ? 0x1p-64f : 1.0f);
}
/// log2(x), about 1 ulp; log2(0) = -inf.
TJ_DEVICE float log2_approx(float x) { return detail::log2_bare(x); }
/// x / y, at most 2 ulp for |y| of 2^-126 to 2^126; an infinite y gives 0 for finite x.
TJ_DEVICE float divide_approx(float x, float y) { return x * __builtin_amdgcn_rcpf(y); }
TJ_DEVICE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TJ_DEVICE float magnitude(float x) { return __builtin_fabsf(x); }
TJ_DEVICE float with_sign(float x, float sign) { return __builtin_copysignf(x, sign); }
TJ_DEVICE float maximum(float a, float b) { return __builtin_fmaxf(a, b); }
/// A NaN where one of them is.
TJ_DEVICE float maximum_or_nan(float a, float b) { return a != a ? a : b != b ? b : __builtin_fmaxf(a, b); }
TJ_DEVICE u32 bits_of(float value) { return detail::bits(value); }
TJ_DEVICE float number_of(u32 bits) { return detail::number(bits); }
TJ_DEVICE float minus_infinity() { return detail::number(0xff800000u); }
/// The value is unchanged, but the compiler knows nothing of it any more: everything that follows from it is computed
/// after this.
TJ_DEVICE void hold(int& value) { asm volatile("" : "+v"(value)); }
TJ_DEVICE void hold(u32& value) { asm volatile("" : "+v"(value)); }
/// The compiler issues nothing before this that stands behind it. So as much is under way at once as the text says, and
/// no more registers are taken.
TJ_DEVICE void hold_back() {
#if __has_builtin(__builtin_amdgcn_sched_barrier)
  __builtin_amdgcn_sched_barrier(0);
#endif
}

/// A value that is one in all lanes, so that the compiler knows.
TJ_DEVICE int uniform(int value) { return __builtin_amdgcn_readfirstlane(value); }

// ---- exchange between the lanes of a wave; all of them take part ----------------------------------------------------
/// The value of lane `lane`.
TJ_DEVICE u32 shuffle_from(u32 value, int lane) {
  return static_cast<u32>(__builtin_amdgcn_ds_bpermute(4 * lane, static_cast<int>(value)));
}
TJ_DEVICE float shuffle_from(float value, int lane) { return detail::number(shuffle_from(detail::bits(value), lane)); }
/// The value of the lane whose index differs by `mask`.
TJ_DEVICE u32 shuffle_xor(u32 value, int mask) { return shuffle_from(value, static_cast<int>(lane_index()) ^ mask); }
TJ_DEVICE float shuffle_xor(float value, int mask) { return detail::number(shuffle_xor(detail::bits(value), mask)); }
/// shuffle_xor for a mask that is known; the first half of 32 lanes gets the second without a way through shared
/// memory. All lanes take part, so no lane that is off is ever read. `true` tells the compiler so, and spares the move
/// of what a lane would keep then.
template <int Mask>
TJ_DEVICE u32 shuffle_xor(u32 value) {
  if constexpr (kWave == 32 && Mask == 16)
    return __builtin_amdgcn_permlanex16(value, value, 0x76543210u, 0xfedcba98u, true, false);
  else
    return shuffle_xor(value, Mask);
}
template <int Mask>
TJ_DEVICE float shuffle_xor(float value) {
  return detail::number(shuffle_xor<Mask>(detail::bits(value)));
}
/// Lanes whose indices differ by `Bit` trade: the upper one's `low` for the lower one's `high`.
template <int Bit>
TJ_DEVICE void trade(u32& low, u32& high) {
  const bool upper = (lane_index() & static_cast<u32>(Bit)) != 0;
  const u32 got = shuffle_xor(upper ? low : high, Bit);
  low = upper ? got : low;
  high = upper ? high : got;
}
/// True in every lane when it is true in any.
TJ_DEVICE bool any_in_warp(bool value) {
#if __has_builtin(__builtin_amdgcn_ballot_w32)
  if constexpr (kWave == 64)
    return __builtin_amdgcn_ballot_w64(value) != 0;
  else
    return __builtin_amdgcn_ballot_w32(value) != 0;
#else
  return __builtin_amdgcn_uicmp(value ? 1u : 0u, 0u, 33) != 0;  // not equal; one bit a lane
#endif
}

// ---- elements of 16 bits --------------------------------------------------------------------------------------------
/// The low halves of two words as one word, the first's in the low half. And the high halves likewise: two rows of two
/// elements become two columns.
TJ_DEVICE u32 low_halves(u32 first, u32 second) { return __builtin_amdgcn_perm(second, first, 0x05040100u); }
TJ_DEVICE u32 high_halves(u32 first, u32 second) { return __builtin_amdgcn_perm(second, first, 0x07060302u); }

namespace detail {
typedef _Float16 TwoHalves __attribute__((ext_vector_type(2)));
/// Rounded to what the high half holds; the low half then has no meaning.
TJ_DEVICE u32 number_to_high(float value) {
  const u32 from = bits(value);
  return from + 0x7fffu + (from >> 16 & 1u);
}
TJ_DEVICE u32 rounded_to_high(float value) { return value != value ? 0x7fff0000u : number_to_high(value); }
}  // namespace detail

/// Two values rounded to nearest even, the first in the low half.
TJ_DEVICE u32 pack(F16, float low, float high) {
  return __builtin_bit_cast(u32, detail::TwoHalves{static_cast<_Float16>(low), static_cast<_Float16>(high)});
}
TJ_DEVICE u32 pack(Bf16, float low, float high) {
  return high_halves(detail::rounded_to_high(low), detail::rounded_to_high(high));
}
/// pack of values that are numbers: a NaN may become anything.
TJ_DEVICE u32 pack(Numbers<F16>, float low, float high) { return pack(F16{}, low, high); }
TJ_DEVICE u32 pack(Numbers<Bf16>, float low, float high) {
  return high_halves(detail::number_to_high(low), detail::number_to_high(high));
}
/// The other way, exact: the low half first.
TJ_DEVICE void unpack(F16, u32 packed, float& low, float& high) {
  low = __builtin_bit_cast(_Float16, static_cast<unsigned short>(packed));
  high = __builtin_bit_cast(_Float16, static_cast<unsigned short>(packed >> 16));
}
TJ_DEVICE void unpack(Bf16, u32 packed, float& low, float& high) {
  low = detail::number(packed << 16);
  high = detail::number(packed & 0xffff0000u);
}

}  // namespace tj::dev

#include "e4m3.cuh"

namespace tj::dev {

/// Two values as e4m3, to nearest even, the first in the low byte. Beyond 448 they are 448; NaN stays one.
TJ_DEVICE u32 pack_e4m3(float low, float high) { return detail::e4m3(low) | detail::e4m3(high) << 8; }
/// The other way, exact, of the low two bytes; the others are 0.
TJ_DEVICE void unpack_e4m3(u32 both, float& low, float& high) { detail::unpack_e4m3(both, low, high); }

// ---- times, in units that record ------------------------------------------------------------------------------------
/// Cycles of a counter that all waves of a compute unit share: the lower 32 bits, on gfx11 and gfx12 all 20 bits that
/// it has.
TJ_DEVICE u32 clock_now() {
  hold_back();
  const u32 cycles = static_cast<u32>(__builtin_readcyclecounter());
  hold_back();
  return cycles;
}
/// The register that says where the wave runs: HW_ID, since gfx10 HW_ID1. Source: LLVM, AMDGPU, "hwreg".
TJ_DEVICE u32 processor_index() { return __builtin_amdgcn_s_getreg(kGeneration == 9 ? 4 | 31 << 11 : 23 | 31 << 11); }
TJ_DEVICE void store_record(u64 address, u32 first, u32 second, bool writes) {
  if (writes) detail::store(reinterpret_cast<void*>(address), detail::Words2{first, second});
}

}  // namespace tj::dev

#include "arch/amd_memory.cuh"
#include "block_barrier.cuh"
