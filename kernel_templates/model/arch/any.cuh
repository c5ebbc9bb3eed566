// Primitives of every GPU, on the CPU: the names, signatures and meanings of the devices' files, for the CPU model.
//
// Decides what a thread can do alone (arithmetic, where it is, plain stores) and hands everything else to the library
// through the table of abi.h. No op and no schedule. Included by the vendors' files, which say detail::kWarp and
// kSharedBarriers before. Invariant: a unit that compiles for the device compiles here.
#pragma once

#include "../abi.h"
#include "types.cuh"

#define TJ_DEVICE inline
#define TJ_MODEL_EXPORT extern "C" __attribute__((visibility("default")))
#define TJ_KERNEL(symbol, block_threads, Params, params)                                                          \
  static void symbol##_body(const Params& params);                                                                \
  TJ_MODEL_EXPORT void symbol(const void* params) { symbol##_body(*static_cast<const Params*>(params)); }         \
  TJ_MODEL_EXPORT const tj_model_kernel symbol##_model;                                                           \
  extern "C" const char symbol##_notes[] __attribute__((weak, visibility("hidden"))); /* null without TJ_NOTES */ \
  const tj_model_kernel symbol##_model = {TJ_MODEL_ABI_VERSION,                                                   \
                                          block_threads,                                                          \
                                          tj::dev::detail::kWarp,                                                 \
                                          tj::dev::detail::kSharedBarriers,                                       \
                                          sizeof(Params),                                                         \
                                          alignof(Params),                                                        \
                                          symbol,                                                                 \
                                          tj::dev::bind_model,                                                    \
                                          symbol##_notes};                                                        \
  static void symbol##_body(const Params& params)

/// Notes of the unit for reports: a JSON text.
#define TJ_NOTES(symbol, text) const char symbol##_notes[] = text;

/// The model has registers for any number of blocks.
#define TJ_KERNEL_BESIDE(symbol, block_threads, blocks_per_sm, Params, params) \
  TJ_KERNEL(symbol, block_threads, Params, params)

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
inline void reads(const void* address, u32 bytes) { api.global_access(address, bytes, 0); }
inline void writes(const void* address, u32 bytes) { api.global_access(address, bytes, 1); }
}  // namespace detail

inline void bind_model(const tj_model_api* api) { detail::api = *api; }

// ---- where this thread is -------------------------------------------------------------------------------------------
TJ_DEVICE u32 thread_index() { return detail::api.self()->thread; }
TJ_DEVICE u32 block_index() { return detail::api.self()->block; }
TJ_DEVICE u32 lane_index() { return thread_index() % detail::kWarp; }
/// All lanes of the warp must call it, as on the device. The shuffle makes the model report a lane that does not.
TJ_DEVICE u32 warp_index() { return detail::api.shuffle(thread_index() / detail::kWarp, 0); }
TJ_DEVICE int uniform(int value) { return static_cast<int>(detail::api.shuffle(static_cast<u32>(value), 0)); }

/// First byte of the block's dynamic shared memory, a multiple of 1024.
TJ_DEVICE u32 shared_base() { return detail::api.self()->shared_base; }

// ---- synchronisation inside a block ---------------------------------------------------------------------------------
TJ_DEVICE void block_sync() { detail::api.block_sync(0); }
TJ_DEVICE void warp_sync() { detail::api.warp_sync(0); }
/// Syncs that the schedule has placed.
template <int Site>
TJ_DEVICE void block_sync() {
  detail::api.block_sync(Site);
}
template <int Site>
TJ_DEVICE void warp_sync() {
  detail::api.warp_sync(Site);
}
/// Lanes are threads of their own here.
TJ_DEVICE void reconverge() {}

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
TJ_DEVICE void store_shared_u16(u32 address, u32 value) {
  const unsigned short half = static_cast<unsigned short>(value);
  detail::api.shared_store(address, &half, 2);
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------
/// 2^x, results below 2^-126 are zero.
TJ_DEVICE float exp2_approx(float x) { return x < -126.0f ? 0.0f : __builtin_exp2f(x); }
/// 2^x, results below 2^-126 are kept.
TJ_DEVICE float exp2_gradual(float x) { return __builtin_exp2f(x); }
/// log2(x); log2(0) = -inf, denormals count as 0.
TJ_DEVICE float log2_approx(float x) { return __builtin_log2f(x >= 0.0f && x < 0x1p-126f ? 0.0f : x); }
/// x / y.
TJ_DEVICE float divide_approx(float x, float y) { return x / y; }
TJ_DEVICE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TJ_DEVICE float magnitude(float x) { return __builtin_fabsf(x); }
TJ_DEVICE float with_sign(float x, float sign) { return __builtin_copysignf(x, sign); }
/// NaN loses against any number, -0 against 0.
TJ_DEVICE float maximum(float a, float b) { return a > b || b != b || (a == b && __builtin_signbit(b) != 0) ? a : b; }
/// Cut to [0, 1]; of a NaN, 0.
TJ_DEVICE float multiply_add_saturated(float a, float b, float c) {
  const float value = __builtin_fmaf(a, b, c);
  return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;
}
/// A NaN where one of them is.
TJ_DEVICE float maximum_or_nan(float a, float b) { return a != a ? a : b != b ? b : maximum(a, b); }
/// value with `count` added to its exponent, where that stays in range.
TJ_DEVICE float scaled_by_bits(float value, u32 count) {
  return __builtin_bit_cast(float, __builtin_bit_cast(u32, value) + (count << 23));
}
TJ_DEVICE u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
TJ_DEVICE float number_of(u32 bits) { return __builtin_bit_cast(float, bits); }
TJ_DEVICE float minus_infinity() { return -__builtin_inff(); }

/// The value of the lane whose index differs by `mask`; all lanes of the warp take part.
TJ_DEVICE u32 shuffle_xor(u32 value, int mask) { return detail::api.shuffle_xor(value, static_cast<u32>(mask)); }
TJ_DEVICE float shuffle_xor(float value, int mask) {
  return __builtin_bit_cast(float, shuffle_xor(__builtin_bit_cast(u32, value), mask));
}
/// The value of lane `lane`; all lanes of the warp take part.
TJ_DEVICE u32 shuffle_from(u32 value, int lane) { return detail::api.shuffle(value, static_cast<u32>(lane)); }
TJ_DEVICE float shuffle_from(float value, int lane) {
  return __builtin_bit_cast(float, shuffle_from(__builtin_bit_cast(u32, value), lane));
}
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

}  // namespace tj::dev

#include "e4m3.cuh"

namespace tj::dev {

/// Two values as e4m3, to nearest even, the first in the low byte. Beyond 448 they are 448; NaN stays one.
TJ_DEVICE u32 pack_e4m3(float low, float high) { return detail::e4m3(low) | detail::e4m3(high) << 8; }
/// The other way, exact, of the low two bytes; the others are 0.
TJ_DEVICE void unpack_e4m3(u32 both, float& low, float& high) { detail::unpack_e4m3(both, low, high); }

/// For a thread that hands a slot back to whoever copies: its reads of the slot by ordinary accesses have arrived.
template <int Site>
TJ_DEVICE void reads_arrived() {
  detail::api.reads_arrived(Site);
}

/// The node that runs next, for reports: call `Call` of a node, for an iteration or, for a node outside the loop, a
/// tile.
template <int Call>
TJ_DEVICE void at_node(int iteration) {
  detail::api.at_node(Call, iteration);
}

// ---- times, in units that record ------------------------------------------------------------------------------------
/// Steps of the block: turns of a warp and completions, in the order that the seed gives. They are no cycles.
TJ_DEVICE u32 clock_now() { return detail::api.clock(); }
/// There are no multiprocessors; the block stands for one.
TJ_DEVICE u32 processor_index() { return block_index(); }
/// Not the kernel's own memory, so that nothing of it is checked.
TJ_DEVICE void store_record(u64 address, u32 first, u32 second, bool writes) {
  if (!writes) return;
  u32* words = reinterpret_cast<u32*>(address);
  words[0] = first;
  words[1] = second;
}

// ---- counters in global memory, as the device's files say -----------------------------------------------------------
TJ_DEVICE u32 draw_global(u32* counter) { return detail::api.counter_draw(counter); }
template <int Site>
TJ_DEVICE void signal_global(u32* counter, u32 amount) {
  detail::api.counter_signal(Site, counter, amount);
}
template <int Site>
TJ_DEVICE void wait_global(const u32* counter, u32 value) {
  detail::api.counter_wait(Site, counter, value);
}
template <int Site>
TJ_DEVICE void reset_global(u32* counter) {
  detail::api.counter_reset(Site, counter);
}

// ---- global memory: addresses are multiples of the access's size ----------------------------------------------------
TJ_DEVICE float load_global(const float* address) {
  detail::reads(address, 4);
  return *address;
}
TJ_DEVICE void load_global(const float* address, float& a, float& b) {
  detail::reads(address, 8);
  a = address[0];
  b = address[1];
}
TJ_DEVICE void load_global(const void* address, u32 (&words)[4]) {
  detail::reads(address, 16);
  __builtin_memcpy(words, address, sizeof(words));
}
TJ_DEVICE void load_global(const void* address, u32 (&words)[2]) {
  detail::reads(address, 8);
  __builtin_memcpy(words, address, sizeof(words));
}
TJ_DEVICE void load_global(const float* address, float (&v)[4]) {
  detail::reads(address, 16);
  __builtin_memcpy(v, address, sizeof(v));
}
TJ_DEVICE void prefetch_near(const void*) {}
TJ_DEVICE u32 load_global_u8(const void* address) {
  detail::reads(address, 1);
  return *static_cast<const unsigned char*>(address);
}
TJ_DEVICE u32 load_global_u32(const void* address) {
  detail::reads(address, 4);
  return *static_cast<const u32*>(address);
}
TJ_DEVICE u32 load_global_u16(const void* address) {
  detail::reads(address, 2);
  unsigned short half;
  __builtin_memcpy(&half, address, sizeof(half));
  return half;
}
TJ_DEVICE void store_global(void* address, u32 a, u32 b, u32 c, u32 d) {
  detail::writes(address, 16);
  const u32 words[4] = {a, b, c, d};
  __builtin_memcpy(address, words, sizeof(words));
}
TJ_DEVICE void store_global(void* address, u32 a, u32 b) {
  detail::writes(address, 8);
  const u32 words[2] = {a, b};
  __builtin_memcpy(address, words, sizeof(words));
}
TJ_DEVICE void store_global(void* address, u32 value) {
  detail::writes(address, 4);
  __builtin_memcpy(address, &value, sizeof(value));
}
TJ_DEVICE void store_global_u8(void* address, u32 value) {
  detail::writes(address, 1);
  *static_cast<unsigned char*>(address) = static_cast<unsigned char>(value);
}
TJ_DEVICE void store_global_u16(void* address, u32 value) {
  detail::writes(address, 2);
  const unsigned short half = static_cast<unsigned short>(value);
  __builtin_memcpy(address, &half, sizeof(half));
}
TJ_DEVICE void store_halves(void* address, const u32 (&words)[4], int count, bool wide) {
  unsigned short* halves = static_cast<unsigned short*>(address);
  if (wide && count > 7) return store_global(address, words[0], words[1], words[2], words[3]);
  for (int e = 0; e < 8 && e < count; ++e) store_global_u16(halves + e, words[e / 2] >> (e % 2 * 16));
}
TJ_DEVICE void store_global(float* address, float value) {
  detail::writes(address, 4);
  __builtin_memcpy(address, &value, sizeof(value));
}
TJ_DEVICE void store_global(float* address, float a, float b) {
  detail::writes(address, 8);
  address[0] = a;
  address[1] = b;
}
TJ_DEVICE void store_global(float* address, const float (&v)[4]) {
  detail::writes(address, 16);
  __builtin_memcpy(address, v, sizeof(v));
}

}  // namespace tj::dev
