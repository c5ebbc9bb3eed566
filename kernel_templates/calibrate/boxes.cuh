// Probes of the copy engine: boxes of a tensor, one thread's.
//
// Decides what runs between two reads of the clock (calibrate/common.cuh). No asm.
#pragma once

#include "calibrate/common.cuh"

namespace tj::calibrate {

/// `size` boxes of 8 KB from L2, and the wait for all of them; four places of the tensor in turn.
template <int Threads>
TJ_DEVICE void box_copies(const Params& p) {
  constexpr u32 kBoxBytes = static_cast<u32>(kBoxRows * kRowBytes);
  const u32 base = dev::shared_base(), boxes = static_cast<u32>(p.size);
  const u32 barrier = base + boxes * kBoxBytes;
  if (dev::thread_index() == 0) {
    dev::mbarrier_init(barrier, 1);
    dev::mbarrier_init_done<2>();
  }
  u32 phase = 0;
  timed<Threads>(p, [&](int i) {
    if (dev::thread_index() == 0) {
      dev::mbarrier_expect<3>(barrier, boxes * kBoxBytes);
      for (u32 j = 0; j < boxes; ++j)
        dev::copy_box_4d(base + j * kBoxBytes, &p.map, barrier, 0,
                         static_cast<int>((static_cast<u32>(i % 4) * boxes + j) * kBoxRows), 0, 0);
    }
    dev::mbarrier_wait<4>(barrier, phase);
    phase ^= 1u;
  });
}

}  // namespace tj::calibrate
