// Probes of a warp's matrix instructions, of family sm80: products from registers alone, and loads of their operands.
//
// Decides what runs between two reads of the clock (calibrate/common.cuh). No asm.
#pragma once

#include "calibrate/common.cuh"

namespace tj::calibrate {

/// kChains products of a warp that do not wait for each other.
template <int Threads>
TJ_DEVICE void warp_products(const Params& p) {
  u32 a[4] = {0x3c003c00u + dev::thread_index(), 0x38003c00u, 0x3c003800u, 0x34003c00u + dev::thread_index()};
  float d[kChains][4];
#pragma unroll
  for (int i = 0; i < kChains; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) d[i][j] = p.one;
  timed<Threads>(p, [&](int) {
#pragma unroll
    for (int i = 0; i < kChains; ++i)
      dev::mma_m16n8k16(dev::F16{}, d[i], a, 0x3c003800u + 32u * static_cast<u32>(i), a[0]);
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
