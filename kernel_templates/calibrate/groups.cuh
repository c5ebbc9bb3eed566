// Probes of a warpgroup's matrix instruction, of family sm90: groups of products whose operands lie in shared memory.
//
// Decides what runs between two reads of the clock (calibrate/common.cuh). No asm.
#pragma once

#include "calibrate/common.cuh"

namespace tj::calibrate {

/// Operands of a warpgroup's products, and its sums: b of four steps of 32 bytes of K and N columns serves all steps. a
/// lies in shared memory, or in registers.
template <int Threads, int N>
struct GroupOperands {
  static constexpr u32 kLeftBytes = 64 * 128, kRightBytes = N * 128, kAtomBytes = 1024;
  dev::u64 a, b;
  u32 held[16];
  float d[N / 2];
  TJ_DEVICE explicit GroupOperands(const Params& p) {
    const u32 base = dev::shared_base();
    for (u32 at = 4 * dev::thread_index(); at < kLeftBytes + kRightBytes; at += 4 * Threads)
      dev::store_shared(base + at, 0x38003c00u + (at & 0x700u));
    dev::proxy_fence<2>();
    a = dev::matrix_operand(base, 16, kAtomBytes);
    b = dev::matrix_operand(base + kLeftBytes, 16, kAtomBytes);
#pragma unroll
    for (u32 i = 0; i < 16; ++i) held[i] = 0x38003c00u + ((i * dev::thread_index()) & 0x700u);
#pragma unroll
    for (float& sum : d) sum = p.one;
  }
};

/// A group of `Steps` steps of 32 bytes of K, and the wait for it. Held: a is in registers.
template <int Threads, class Tag, int N, int Steps, bool Held = false>
TJ_DEVICE void group_products(const Params& p) {
  static_assert(Threads == 128 && Steps % 4 == 0, "a warpgroup; four steps are one statement");
  GroupOperands<Threads, N> of(p);
  timed<Threads>(p, [&](int) {
    dev::hold(of.d);
    if constexpr (Held) dev::hold(of.held);
    dev::matrix_fence<3>();
#pragma unroll
    for (int i = 0; i < Steps; i += 4) {
      if constexpr (Held)
        dev::matrix_multiply<dev::MatrixSteps<4, 0, 32, 0>>(Tag{}, of.d, of.held, of.b, true);
      else
        dev::matrix_multiply<dev::MatrixSteps<4, 32, 32, 0>>(Tag{}, of.d, of.a, of.b, true);
    }
    dev::matrix_commit<4>();
    dev::matrix_wait<5, 0>();
    dev::hold(of.d);
  });
  float sum = 0;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) sum += of.d[i];
  keep(p, sum);
}

}  // namespace tj::calibrate
