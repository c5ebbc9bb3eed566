// Primitives of every AMD GPU that has matrix instructions, on the CPU: the names, signatures and meanings of the
// device's file, for the CPU model.
//
// Decides what a lane can do alone; the rest is any.cuh's and the library's. Included by the files of the archs, which
// say kWave before. Invariant: a unit that compiles for the device compiles here.
#pragma once

namespace tj::dev::detail {

inline constexpr unsigned kWarp = kWave;
inline constexpr unsigned kSharedBarriers = 0;  ///< none

}  // namespace tj::dev::detail

#include "arch/any.cuh"

namespace tj::dev {

// ---- values that are numbers, never NaN ---------------------------------------------------------
template <class Tag>
struct Numbers {};
/// `pack` where a NaN may become anything: the device's arithmetic, bit by bit.
TJ_DEVICE u32 pack(Numbers<F16>, float low, float high) { return pack(F16{}, low, high); }
TJ_DEVICE u32 pack(Numbers<Bf16>, float low, float high) {
  const auto rounded = [](float value) {
    const u32 from = __builtin_bit_cast(u32, value);
    return (from + 0x7fffu + (from >> 16 & 1u)) >> 16;
  };
  return rounded(low) | rounded(high) << 16;
}

// ---- ordinary accesses to shared memory; addresses are multiples of the access's size, of 16 bytes where it is more
// ----
/// 1, 2, 4 or 8 words.
template <int Count>
TJ_DEVICE void load_shared(u32 address, u32 (&words)[Count]) {
  constexpr int kAtOnce = Count < 4 ? Count : 4;
  static_assert(Count % kAtOnce == 0 && Count != 3, "what one instruction moves, or several of 16 bytes");
  for (int first = 0; first < Count; first += kAtOnce)
    detail::api.shared_load(address + 4u * static_cast<u32>(first), &words[first], 4 * kAtOnce);
}
template <int Count>
TJ_DEVICE void store_shared(u32 address, const u32 (&words)[Count]) {
  constexpr int kAtOnce = Count < 4 ? Count : 4;
  static_assert(Count % kAtOnce == 0 && Count != 3, "what one instruction moves, or several of 16 bytes");
  for (int first = 0; first < Count; first += kAtOnce)
    detail::api.shared_store(address + 4u * static_cast<u32>(first), &words[first], 4 * kAtOnce);
}

// ---- registers ------------------------------------------------------------------------------------------------------
/// On devices, everything that follows from the value is computed after this.
TJ_DEVICE void hold(int&) {}
TJ_DEVICE void hold(u32&) {}
TJ_DEVICE void hold_back() {}
/// The value of the lane whose index differs by a mask that is known.
template <int Mask>
TJ_DEVICE u32 shuffle_xor(u32 value) {
  return shuffle_xor(value, Mask);
}
template <int Mask>
TJ_DEVICE float shuffle_xor(float value) {
  return shuffle_xor(value, Mask);
}
/// The low halves of two words as one word, the first's in the low half. And the high halves likewise: two rows of two
/// elements become two columns.
TJ_DEVICE u32 low_halves(u32 first, u32 second) { return (first & 0xffffu) | second << 16; }
TJ_DEVICE u32 high_halves(u32 first, u32 second) { return first >> 16 | (second & 0xffff0000u); }

namespace detail {

/// d += a b on the matrix instruction of a wave; fragments as on the device. All lanes take part. `flushes`: 1 where it
/// takes subnormal numbers as 0.
template <class Tag>
TJ_DEVICE void multiply(Tag tag, tj_model_wave_layout layout, float* d, const u32* a, const u32* b, int flushes = 0) {
  const tj_model_wave_mma instruction = {element(tag), layout, flushes, d, a, b};
  api.wave_mma(&instruction);
}

}  // namespace detail
}  // namespace tj::dev

#include "block_barrier.cuh"
