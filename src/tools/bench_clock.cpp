// See bench_clock.hpp. Types and numbers of the calls: nvml.h and cuda.h of CUDA 12 and 13.
#include "tools/bench_clock.hpp"

#include "support/dynamic_library.hpp"

namespace tj::tools {
namespace {

constexpr int kClockSm = 1;  // nvml.h: NVML_CLOCK_SM

template <class Function>
bool find(const support::DynamicLibrary& library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(library.symbol(name));
  return function != nullptr;
}

/// "00000000:19:00.0": the management library counts devices in an order of its own.
bool bus_of(Device device, char (&bus)[32]) {
  const auto cuda = support::DynamicLibrary::open_first({"libcuda.so.1"}, nullptr);
  int (*get)(int* handle, int index) = nullptr;
  int (*bus_id)(char* text, int bytes, int handle) = nullptr;
  int handle = 0;
  return cuda != nullptr && find(*cuda, get, "cuDeviceGet") && find(*cuda, bus_id, "cuDeviceGetPCIBusId") &&
         get(&handle, device.index) == 0 && bus_id(bus, sizeof bus, handle) == 0;
}

}  // namespace

struct SmClock::Calls {
  std::shared_ptr<support::DynamicLibrary> library;
  void* device = nullptr;
  int (*clock)(void* device, int which, unsigned* mhz) = nullptr;
  int (*most)(void* device, int which, unsigned* mhz) = nullptr;

  bool open(Device of) {
    char bus[32] = {};
    int (*init)() = nullptr;
    int (*by_bus)(const char* bus, void** device) = nullptr;
    library = support::DynamicLibrary::open_first({"libnvidia-ml.so.1"}, nullptr);
    return library != nullptr && bus_of(of, bus) && find(*library, init, "nvmlInit_v2") &&
           find(*library, by_bus, "nvmlDeviceGetHandleByPciBusId_v2") &&
           find(*library, clock, "nvmlDeviceGetClockInfo") && find(*library, most, "nvmlDeviceGetMaxClockInfo") &&
           init() == 0 && by_bus(bus, &device) == 0;
  }
  double ask(int (*call)(void*, int, unsigned*)) const {
    unsigned mhz = 0;
    return call(device, kClockSm, &mhz) == 0 ? mhz : 0;
  }
};

SmClock::SmClock(Device device) : calls_(std::make_unique<Calls>()) {
  const bool known = device.kind == DeviceKind::cuda && calls_->open(device);
  if (calls_->library != nullptr) support::keep_open(calls_->library);
  if (!known) calls_ = nullptr;
}
SmClock::~SmClock() = default;

double SmClock::mhz() const { return calls_ != nullptr ? calls_->ask(calls_->clock) : 0; }
double SmClock::most_mhz() const { return calls_ != nullptr ? calls_->ask(calls_->most) : 0; }

}  // namespace tj::tools
