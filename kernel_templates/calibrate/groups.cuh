// Probes of a warpgroup's matrix instruction, of family sm90: groups of products whose operands lie in shared memory.
//
// Decides what runs between two reads of the clock (calibrate/common.cuh). No asm.
#pragma once

#include "calibrate/common.cuh"

namespace tj::calibrate {

/// A group of `Steps` steps of 32 bytes of K and N columns, and the wait for it. Operands of four steps serve all.
template <int Threads, class Tag, int N, int Steps>
TJ_DEVICE void group_products(const Params& p) {
  static_assert(Threads == 128 && Steps % 4 == 0, "a warpgroup; four steps are one statement");
  constexpr u32 kLeftBytes = 64 * 128, kRightBytes = N * 128, kAtomBytes = 1024;
  const u32 base = dev::shared_base();
  for (u32 at = 4 * dev::thread_index(); at < kLeftBytes + kRightBytes; at += 4 * Threads)
    dev::store_shared(base + at, 0x38003c00u + (at & 0x700u));
  dev::proxy_fence<2>();
  const dev::u64 a = dev::matrix_operand(base, 16, kAtomBytes),
                 b = dev::matrix_operand(base + kLeftBytes, 16, kAtomBytes);
  float d[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; ++i) d[i] = p.one;
  timed<Threads>(p, [&](int) {
    dev::hold(d);
    dev::matrix_fence<3>();
#pragma unroll
    for (int i = 0; i < Steps; i += 4) dev::matrix_multiply<dev::MatrixSteps<4, 32, 32, 0>>(Tag{}, d, a, b, true);
    dev::matrix_commit<4>();
    dev::matrix_wait<5, 0>();
    dev::hold(d);
  });
  float sum = 0;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) sum += d[i];
  keep(p, sum);
}

}  // namespace tj::calibrate
