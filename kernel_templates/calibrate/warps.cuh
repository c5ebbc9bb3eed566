// Probes of a warp's matrix instructions, of family sm80: products from registers alone, and loads of their operands.
//
// Decides what runs between two reads of the clock (calibrate/common.cuh). No asm.
#pragma once

#include "calibrate/common.cuh"

namespace tj::calibrate {

TJ_DEVICE void multiply(dev::F16 tag, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  dev::mma_m16n8k16(tag, d, a, b0, b1);
}
TJ_DEVICE void multiply(dev::E4m3 tag, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  dev::mma_m16n8k32(tag, d, a, b0, b1);
}

/// kChains products of a warp that do not wait for each other, 32 bytes of K each: 64 x 32, as kernels have them.
template <int Threads, class Tag>
TJ_DEVICE void warp_products(const Params& p) {
  constexpr int kRows = 4;
  static_assert(kChains == kRows * kRows, "each left operand meets each right one");
  u32 a[4 * kRows], b[2 * kRows];
#pragma unroll
  for (u32 i = 0; i < 4 * kRows; ++i) a[i] = 0x38003c00u + ((i * dev::thread_index()) & 0x700u);
#pragma unroll
  for (u32 i = 0; i < 2 * kRows; ++i) b[i] = 0x3c003800u + ((i * dev::thread_index()) & 0x700u);
  float d[kChains][4];
#pragma unroll
  for (int i = 0; i < kChains; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) d[i][j] = p.one;
  timed<Threads>(p, [&](int) {
    dev::hold(a);
    dev::hold(b);
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      const int row = i / kRows, column = i % kRows;
      multiply(Tag{}, d[i], {a[4 * row], a[4 * row + 1], a[4 * row + 2], a[4 * row + 3]}, b[2 * column],
               b[2 * column + 1]);
    }
  });
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kChains; ++i) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
  keep(p, sum);
}

/// kChains loads of four matrices, 512 bytes each; another place every other repeat.
template <int Threads>
TJ_DEVICE void matrix_loads(const Params& p) {
  const u32 base = dev::shared_base(), warp = dev::warp_index();
  const u32 mine = base + warp % 4 * 2048 + dev::lane_index() * 16;
  for (u32 at = 4 * dev::thread_index(); at < kLoadedBytes; at += 4 * Threads) dev::store_shared(base + at, at);
  u32 words[4] = {};
  timed<Threads>(p, [&](int repeat) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      u32 b[4];
      dev::load_matrices(mine + 2048u * static_cast<u32>(i) + static_cast<u32>(repeat % 2) * 32768u, b);
#pragma unroll
      for (int j = 0; j < 4; ++j) words[j] ^= b[j];
    }
  });
  keep(p, static_cast<float>(words[0] + words[1] + words[2] + words[3]));
}

}  // namespace tj::calibrate
