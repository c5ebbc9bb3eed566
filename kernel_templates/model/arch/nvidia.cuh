// Primitives of every NVIDIA GPU from sm_80 on, on the CPU: the names, signatures and meanings of the device's file,
// for the CPU model.
//
// Decides nothing: what all GPUs have is any.cuh's, barriers are the library's. No op and no schedule. Included by the
// files of the archs, first. Invariant: a unit that compiles for the device compiles here.
#pragma once

namespace tj::dev::detail {

inline constexpr unsigned kWarp = 32;  ///< threads
inline constexpr unsigned kSharedBarriers = 1;

}  // namespace tj::dev::detail

#include "arch/any.cuh"

namespace tj::dev {

TJ_DEVICE u32 grid_blocks() { return detail::api.self()->grid_blocks; }

// ---- named barriers -------------------------------------------------------------------------------------------------
/// Barriers 1 to 15; `threads` counts the threads that sync and the threads that only arrive.
template <int Site>
TJ_DEVICE void named_sync(u32 id, u32 threads) {
  detail::api.named_barrier(Site, id, threads, 1);
}
template <int Site>
TJ_DEVICE void named_arrive(u32 id, u32 threads) {
  detail::api.named_barrier(Site, id, threads, 0);
}

// ---- mbarriers ------------------------------------------------------------------------------------------------------
TJ_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) { detail::api.mbarrier_init(barrier, arrivals); }
template <int Site>
TJ_DEVICE void mbarrier_arrive(u32 barrier) {
  detail::api.mbarrier_arrive(Site, barrier);
}
template <int Site>
TJ_DEVICE void mbarrier_arrive_if(bool whether, u32 barrier) {
  if (whether) mbarrier_arrive<Site>(barrier);
}

/// The device's compiler needs this around registers that another unit fills or reads; here they are memory.
template <int N>
TJ_DEVICE void hold(float (&)[N]) {}
template <int N>
TJ_DEVICE void hold(u32 (&)[N]) {}
TJ_DEVICE void hold(u32&) {}

}  // namespace tj::dev
