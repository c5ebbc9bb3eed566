// Words that devices of one host write for each other, and a clock that all blocks of a device share.
//
// Decides which instruction serves which primitive. Included by an op's bodies behind the arch's file. The model has
// the same names. Invariant: every instruction here is there on sm_80. Source: PTX ISA 8.7, "ld", "st", "Special
// Registers".
#pragma once

namespace tj::dev {

/// A word that another device, or a copy engine, writes; all that was told with it is known afterwards.
TJ_DEVICE u32 load_system(const u32* address) {
  u32 value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
/// Tells with the word all that this thread has done, and what was done before its grid.
TJ_DEVICE void store_system(u32* address, u32 value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
/// Nanoseconds, in steps of up to a microsecond.
TJ_DEVICE u64 global_time() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}
/// In a loop that waits for another device: leaves memory to others for a while.
TJ_DEVICE void rest() { asm volatile("nanosleep.u32 100;" ::: "memory"); }

}  // namespace tj::dev
