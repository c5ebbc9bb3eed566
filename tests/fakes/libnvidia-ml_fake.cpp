// NVIDIA's management library with two clocks: libnvidia-ml.so.1 for tests of who asks for them.
//
// Exports the calls that tilejit uses, by the names of nvml.h. Knows the devices of the fake CUDA driver by their bus,
// and the clock of an SM alone. Steered through fake_nvml_control.h; FakeNvml in fake_nvml.hpp puts it where the loader
// finds it.
#include "fake_nvml_control.h"

#include <cstdint>
#include <cstdio>
#include <string>

namespace {

constexpr int kRefused = 3, kClockSm = 1;  // nvml.h: NVML_ERROR_NOT_SUPPORTED, NVML_CLOCK_SM

struct State {
  bool known = false, begun = false;
  unsigned mhz = 0, most = 0;
  std::string fails;
};
State& state() {
  static auto* const instance = new State;  // outlives every static destructor of the tests
  return *instance;
}

int clock_of(const char* call, void* device, int which, unsigned base, unsigned* mhz) {
  *mhz = 7;  // what a failure leaves means nothing
  if (!state().begun || state().fails == call || which != kClockSm) return kRefused;
  *mhz = base + static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device)) - 1;
  return 0;
}

}  // namespace

extern "C" {

void fake_nvml_reset(void) { state() = {}; }
void fake_nvml_set_clocks(unsigned mhz, unsigned most) {
  state().known = true;
  state().mhz = mhz;
  state().most = most;
}
void fake_nvml_fail(const char* call) { state().fails = call != nullptr ? call : ""; }

int nvmlInit_v2(void) {
  state().begun = state().known && state().fails != "nvmlInit_v2";
  return state().begun ? 0 : kRefused;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  unsigned index = 0;
  if (!state().begun || state().fails == "nvmlDeviceGetHandleByPciBusId_v2" ||
      std::sscanf(bus, "00000000:%02x:00.0", &index) != 1 || index < 0x19)
    return kRefused;
  *device = reinterpret_cast<void*>(static_cast<std::uintptr_t>(index - 0x19 + 1));
  return 0;
}
int nvmlDeviceGetClockInfo(void* device, int which, unsigned* mhz) {
  return clock_of("nvmlDeviceGetClockInfo", device, which, state().mhz, mhz);
}
int nvmlDeviceGetMaxClockInfo(void* device, int which, unsigned* mhz) {
  return clock_of("nvmlDeviceGetMaxClockInfo", device, which, state().most, mhz);
}
}
