// Eight neighbouring elements of a row in a lane's registers: loads of 16 bytes, ends of rows, stores.
//
// Decides how they lie in registers, so that loads of several rows are under way before one is looked at. Invariant:
// nothing behind the elements that are left is read or written.
#pragma once

#include "types.cuh"

namespace tj::ops {

inline constexpr int kEach = 8;  ///< neighbouring elements of a lane

/// Eight elements as they lie in memory.
template <class Tag>
struct Stored {
  using Type = unsigned short;
  dev::u32 words[4];
};
template <>
struct Stored<dev::F32> {
  using Type = float;
  float low[4], high[4];
};
TJ_DEVICE void load_eight(const float* from, Stored<dev::F32>& eight) {
  dev::load_global(from, eight.low);
  dev::load_global(from + 4, eight.high);
}
template <class Tag>
TJ_DEVICE void load_eight(const unsigned short* from, Stored<Tag>& eight) {
  dev::load_global(from, eight.words);
}
/// Elements that are there, the others 0.
TJ_DEVICE void load_some(const float* from, int left, Stored<dev::F32>& eight) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    eight.low[e] = e < left ? dev::load_global(from + e) : 0.0f;
    eight.high[e] = e + 4 < left ? dev::load_global(from + e + 4) : 0.0f;
  }
}
template <class Tag>
TJ_DEVICE void load_some(const unsigned short* from, int left, Stored<Tag>& eight) {
#pragma unroll
  for (int e = 0; e < kEach; e += 2)
    eight.words[e / 2] = (e < left ? dev::load_global_u16(from + e) : 0u) |
                         (e + 1 < left ? dev::load_global_u16(from + e + 1) : 0u) << 16;
}
TJ_DEVICE void values_of(dev::F32, const Stored<dev::F32>& eight, float (&values)[kEach]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) values[e] = eight.low[e], values[e + 4] = eight.high[e];
}
template <class Tag>
TJ_DEVICE void values_of(Tag tag, const Stored<Tag>& eight, float (&values)[kEach]) {
#pragma unroll
  for (int w = 0; w < 4; ++w) dev::unpack(tag, eight.words[w], values[2 * w], values[2 * w + 1]);
}

/// The first `left` of them, all at once where they may be accessed so (`wide`).
TJ_DEVICE void store_eight(dev::F32, float* to, const float (&values)[kEach], int left, bool wide) {
  if (wide && left >= kEach) {
    const float low[4] = {values[0], values[1], values[2], values[3]},
                high[4] = {values[4], values[5], values[6], values[7]};
    dev::store_global(to, low);
    return dev::store_global(to + 4, high);
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e)
    if (e < left) dev::store_global(to + e, values[e]);
}
template <class Tag>
TJ_DEVICE void store_eight(Tag tag, unsigned short* to, const float (&values)[kEach], int left, bool wide) {
  dev::u32 words[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) words[w] = dev::pack(tag, values[2 * w], values[2 * w + 1]);
  dev::store_halves(to, words, left, wide);
}

}  // namespace tj::ops
