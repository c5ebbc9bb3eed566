// Words that ranks of one process write for each other, on the CPU: the names of the device's file, for the CPU model.
//
// Decides nothing. Ranks are threads of the host, so that a word is an atomic one of the host, which nobody checks.
#pragma once

extern "C" {
struct tj_model_time {
  long seconds, nanoseconds;
};
int clock_gettime(int clock, struct tj_model_time* now) noexcept;
int usleep(unsigned microseconds);
}

namespace tj::dev {

TJ_DEVICE u32 load_system(const u32* address) { return __atomic_load_n(address, __ATOMIC_ACQUIRE); }
TJ_DEVICE void store_system(u32* address, u32 value) { __atomic_store_n(address, value, __ATOMIC_RELEASE); }
TJ_DEVICE u64 global_time() {
  constexpr int kMonotonic = 1;
  tj_model_time now{};
  ::clock_gettime(kMonotonic, &now);
  return static_cast<u64>(now.seconds) * 1000000000ull + static_cast<u64>(now.nanoseconds);
}
TJ_DEVICE void rest() { ::usleep(20); }

}  // namespace tj::dev
