// Scales of blocks, from the largest magnitude of each, and stores of elements: for every op that quantises to e4m3.
//
// Decides a scale's value and how it is written. Invariant: words of exponents are written byte by byte, as other warps
// and blocks have the others.
#pragma once

#include "ops/scales/params.cuh"

namespace tj::ops {

inline constexpr float kLargestE4m3 = 448.0f, kLeastMagnitude = 1e-4f;

/// The least power of two that is no less.
TJ_DEVICE float power_of_two(float x) {
  float power = dev::exp2_approx(static_cast<float>(static_cast<int>(dev::log2_approx(x))));  // within a factor of 2
#pragma unroll
  for (int step = 0; step < 2; ++step)
    if (power * 0.5f >= x) power *= 0.5f;
#pragma unroll
  for (int step = 0; step < 2; ++step)
    if (power < x) power *= 2.0f;
  return power;
}
/// The scale of a block whose largest magnitude that is.
TJ_DEVICE float scale_of(const BlockScales& scales, float largest) {
  const float scale = dev::maximum(largest, kLeastMagnitude) * (1.0f / kLargestE4m3);
  return scales.powers_of_two != 0 ? power_of_two(scale) : scale;
}
/// The last block's writer writes what lies behind its exponent in a word, too.
TJ_DEVICE void write_scale(const BlockScales& scales, int batch, int row, int block, float scale) {
  const long long begin = batch * scales.batch + row * scales.row;
  if (scales.packed == 0)
    return dev::store_global(static_cast<float*>(scales.data) + begin + block * scales.block, scale);
  auto* word = static_cast<unsigned char*>(scales.data) + 4 * (begin + block / kScalesPacked * scales.block);
  dev::store_global_u8(word + block % kScalesPacked, dev::bits_of(scale) >> 23 & 0xffu);
  if (block + 1 == scales.blocks)
    for (int byte = scales.blocks % kScalesPacked; byte % kScalesPacked != 0; ++byte)
      dev::store_global_u8(word + byte, 0u);
}

inline constexpr int kSixteen = 16;  ///< neighbours that a lane stores at once

/// Sixteen neighbours, of which `left` lie in d.
TJ_DEVICE void write_sixteen(unsigned char* to, dev::u32 (&words)[4], int left, bool wide) {
  if (wide && left >= kSixteen) return dev::store_global(to, words[0], words[1], words[2], words[3]);
#pragma unroll 1  // rare, and long when written out
  for (int e = 0; e < min(left, kSixteen); ++e) {
    dev::store_global_u8(to + e, words[0] & 0xffu);
    words[0] = words[0] >> 8 | words[1] << 24;
    words[1] = words[1] >> 8 | words[2] << 24;
    words[2] = words[2] >> 8 | words[3] << 24;
    words[3] = words[3] >> 8;
  }
}

}  // namespace tj::ops
