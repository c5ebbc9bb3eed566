// Probes of what every NVIDIA GPU from sm_80 on has: arithmetic, barriers, copies by threads, memory.
//
// Decides what runs between two reads of the clock. Does not decide how often, nor what follows from it
// (src/tools/calibrate_facts.cpp). No asm: primitives of the arch alone. Invariant: every result is needed, so that no
// compiler leaves a step out. On the CPU model the clock counts steps, and arithmetic takes none.
#pragma once

#include "calibrate/params.cuh"

namespace tj::calibrate {

using dev::u32;

/// Times `repeats` calls of the body, round after round. All threads of the block take part.
template <int Threads, class Body>
TJ_DEVICE void timed(const Params& p, Body&& body) {
  const u32 warp = dev::warp_index();
  for (int round = 0; round < p.rounds; ++round) {
    dev::block_sync<1>();
    const u32 begin = dev::clock_now();
#pragma unroll 1
    for (int i = 0; i < p.repeats; ++i) body(i);
    const u32 end = dev::clock_now();
    if (dev::lane_index() == 0 && dev::block_index() == 0)
      dev::store_global(p.out + 2 * (static_cast<u32>(round) * (Threads / 32) + warp), begin, end);
  }
}

/// Makes a result needed: nobody knows that it is never this number.
TJ_DEVICE void keep(const Params& p, float value) {
  if (value == 123.456f * p.one) dev::store_global(p.out, 0u);
}

// ---- arithmetic: chains of each thread, all warps of an SM ----------------------------------------------------------
struct Exp2 {
  static TJ_DEVICE void step(float (&x)[kChains], int i, float one) { x[i] = dev::exp2_approx(x[i] * -one); }
};
struct MultiplyAdd {
  static TJ_DEVICE void step(float (&x)[kChains], int i, float one) { x[i] = dev::multiply_add(x[i], one, x[i]); }
};
struct Maximum {
  static TJ_DEVICE void step(float (&x)[kChains], int i, float) { x[i] = dev::maximum(x[i], x[(i + 1) % kChains]); }
};
struct Convert {
  static TJ_DEVICE void step(float (&x)[kChains], int i, float one) {
    x[i] = dev::number_of(dev::pack(dev::F16{}, x[i], one));
  }
};

template <int Threads, class Op>
TJ_DEVICE void arithmetic(const Params& p) {
  float x[kChains];
#pragma unroll
  for (int i = 0; i < kChains; ++i) x[i] = p.one * 0.01f * static_cast<float>(i + static_cast<int>(dev::lane_index()));
  timed<Threads>(p, [&](int) {
    dev::hold(x);
#pragma unroll
    for (int step = 0; step < kStepsOfChain; ++step)
#pragma unroll
      for (int i = 0; i < kChains; ++i) Op::step(x, i, p.one);
    dev::hold(x);
  });
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kChains; ++i) sum += x[i];
  keep(p, sum);
}

// ---- barriers ------------------------------------------------------------------------------------------------------
/// Two warps that wait for each other in turn: an arrival and its wait, twice a repeat.
template <int Threads>
TJ_DEVICE void barrier_turns(const Params& p) {
  static_assert(Threads == 64, "two warps");
  const u32 there = dev::shared_base(), back = there + 8, warp = dev::warp_index();
  if (dev::thread_index() == 0) {
    dev::mbarrier_init(there, 1);
    dev::mbarrier_init(back, 1);
    dev::mbarrier_init_done<2>();
  }
  u32 phase = 0;
  timed<Threads>(p, [&](int) {
    if (warp == 0) {
      dev::mbarrier_arrive_if<3>(dev::lane_index() == 0, there);
      dev::mbarrier_wait<4>(back, phase);
    } else {
      dev::mbarrier_wait<5>(there, phase);
      dev::mbarrier_arrive_if<6>(dev::lane_index() == 0, back);
    }
    phase ^= 1u;
  });
}

// ---- copies by threads, from L2 ------------------------------------------------------------------------------------
/// `size` pieces of 16 bytes of each thread, and the wait of the whole block for them; four places of `in` in turn.
template <int Threads>
TJ_DEVICE void thread_copies(const Params& p) {
  const u32 base = dev::shared_base(), thread = dev::thread_index(), pieces = static_cast<u32>(p.size);
  timed<Threads>(p, [&](int i) {
    const char* const from = p.in + static_cast<u32>(i % 4) * pieces * (16 * Threads);
    for (u32 j = 0; j < pieces; ++j) {
      const u32 piece = j * Threads + thread;
      dev::copy_async<16>(base + 16 * piece, from + 16 * piece);
    }
    dev::copy_async_commit<2>();
    dev::copy_async_wait<3, 0>();
    dev::block_sync<4>();
  });
}

// ---- memory --------------------------------------------------------------------------------------------------------
/// All of `in` to `to`, 64 bytes of a thread at a time. Timed by the host.
template <int Threads>
TJ_DEVICE void memory_copy(const Params& p) {
  constexpr int kAhead = 4;
  const dev::u64 step = dev::u64{dev::grid_blocks()} * Threads * 16;
  const dev::u64 first = (dev::u64{dev::block_index()} * Threads + dev::thread_index()) * 16;
  for (dev::u64 at = first; at < p.bytes; at += kAhead * step) {
    u32 words[kAhead][4];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (at + i * step < p.bytes) dev::load_global(p.in + at + i * step, words[i]);
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (at + i * step < p.bytes)
        dev::store_global(p.to + at + i * step, words[i][0], words[i][1], words[i][2], words[i][3]);
  }
}

}  // namespace tj::calibrate
