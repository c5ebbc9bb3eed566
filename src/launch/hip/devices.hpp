// HIP's devices, as other users of the process (PyTorch, the runtime API) share them.
//
// Decides when a device is made current, and when it counts as reset by others. Decides what is remembered of it, and
// how much free memory its pool keeps. HIP has one current device a thread and no contexts. Invariant: no call leaves
// another device current than it found, nor a failure of a call that was handled.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "launch/hip/api.hpp"
#include "launch/hip/properties.hpp"
#include "support/fork_safe.hpp"

namespace tj::launch {

/// A device from its first use until somebody resets it. hipDeviceReset() destroys memory, pools and streams of the
/// device, and leaves modules and events (hip_device.cpp of ROCm's clr, releases 6 and 7). A device has no number that
/// changes then, but memory has one: the runtime numbers what it allocates. So a piece of memory is held whose number
/// is looked at. The objects live as long as HipDevices: what was made in one keeps its address.
struct HipLife {
  void* piece = nullptr;
  std::uint64_t number = 0;  ///< of the piece; 0: the runtime does not tell
  std::atomic<void*> pool{nullptr};
  std::atomic<bool> pool_known{false};            ///< whether there is one
  std::atomic<std::uint64_t> allocated_bytes{0};  ///< outside the pool
};

class HipDevices {
 public:
  HipDevices(std::unique_ptr<HipApi> api, int device_count);
  ~HipDevices();
  HipDevices(const HipDevices&) = delete;
  HipDevices& operator=(const HipDevices&) = delete;

  const HipApi& api() const noexcept { return *api_; }
  int count() const noexcept { return static_cast<int>(devices_.size()); }

  /// Throws tj::Error(argument) for an index out of range.
  void check_index(int index) const;
  /// Asked for at first use.
  const HipProperties& properties(int index);
  /// Begun at first use, and anew where somebody has reset the device; else an atomic load and a look at a number.
  HipLife& life(int index);
  /// Whether what was made in it is still there. Nothing of one that is over may be used or released.
  bool alive(const HipLife& life) const noexcept;
  /// The one that was begun last, if it is not over; begins none.
  HipLife* known_life(int index) const noexcept;
  /// A memory pool of our own on the device, made at first use; null where there is none.
  void* pool(int index, HipLife& life);
  /// False once pools or allocations in a stream's order were refused: some devices have the calls and nothing behind
  /// them.
  bool allocates_in_order(int index) const {
    return devices_[static_cast<std::size_t>(index)]->in_order.load(std::memory_order_relaxed);
  }
  void no_order(int index) {
    devices_[static_cast<std::size_t>(index)]->in_order.store(false, std::memory_order_relaxed);
  }

 private:
  struct Device {
    std::atomic<const HipProperties*> known{nullptr};
    std::unique_ptr<HipProperties> properties;
    std::atomic<bool> in_order{true};
    std::atomic<HipLife*> life{nullptr};
    std::vector<std::unique_ptr<HipLife>> lives;  ///< the last one and those that are over
  };
  Device& device(int index);
  HipLife& begin_life(Device& device, int index);

  std::unique_ptr<HipApi> api_;
  std::vector<std::unique_ptr<Device>> devices_;
  support::Mutex mutex_;
};

/// Makes a device current for its own life; costs one look-up where it is current already.
class HipDeviceScope {
 public:
  HipDeviceScope(const HipApi& api, int device, Stage stage);
  ~HipDeviceScope();
  HipDeviceScope(const HipDeviceScope&) = delete;
  HipDeviceScope& operator=(const HipDeviceScope&) = delete;

 private:
  const HipApi& api_;
  int before_ = -1;  ///< negative: there is nothing to put back
};

/// A scope for destructors: entered() says that the runtime refused, and nothing is thrown.
class QuietHipDeviceScope {
 public:
  QuietHipDeviceScope(const HipApi& api, int device) noexcept;
  ~QuietHipDeviceScope();
  QuietHipDeviceScope(const QuietHipDeviceScope&) = delete;
  QuietHipDeviceScope& operator=(const QuietHipDeviceScope&) = delete;
  bool entered() const noexcept { return entered_; }

 private:
  const HipApi& api_;
  int before_ = -1;
  bool entered_ = false;
};

/// Lets this thread allocate and load while another thread captures a graph, without breaking that capture.
class RelaxedHipCapture {
 public:
  explicit RelaxedHipCapture(const HipApi& api) noexcept;
  ~RelaxedHipCapture();
  RelaxedHipCapture(const RelaxedHipCapture&) = delete;
  RelaxedHipCapture& operator=(const RelaxedHipCapture&) = delete;

 private:
  const HipApi& api_;
  int mode_ = 2;  ///< relaxed
  bool exchanged_ = false;
};

/// A call whose failure nobody needs to know, as in destructors: it is forgotten.
inline void hip_quietly(const HipApi& api, int result) noexcept {
  if (result != kHipSuccess) api.forget_failure();
}

}  // namespace tj::launch
