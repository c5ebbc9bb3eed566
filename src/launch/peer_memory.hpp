// Memory that devices of several processes reach, of drivers that have it.
//
// Decides how it is handed over, and how engines copy between it. Does not decide who needs what.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "launch/driver.hpp"

namespace tj::launch {

/// What another process needs to reach an allocation.
struct SharedMemory {
  std::array<std::byte, 64> handle{};
};

/// Bytes that a copy engine moves: rows of so many bytes, a pitch apart at each end.
struct RowsToCopy {
  void* to = nullptr;
  std::int64_t to_pitch = 0;
  const void* from = nullptr;
  std::int64_t from_pitch = 0;
  std::int64_t row_bytes = 0, rows = 1;
};

/// The meaning of a launch that waits for other ranks, or tells them something: for reports.
struct PeerStep {
  int rank = 0;            ///< whose launch it is
  const char* what = "";   ///< "begins a turn"
  std::uint32_t from = 0;  ///< ranks that it waits for, a bit each
  int segment = -1;        ///< -1: none
};

/// Memory that devices of several processes reach.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// Host memory that work on the device may write, at the same address; zeros. The host may read it at any time.
  virtual std::shared_ptr<void> host_memory(int device, std::size_t bytes) = 0;
  /// Lets others open memory of Driver::allocate(). Throws tj::Error(launch) with the driver's reason, as open_shared()
  /// does.
  virtual SharedMemory share(int device, const std::shared_ptr<void>& memory) = 0;
  /// Memory that another device's process shares, for work of this device; unmapped with its last owner.
  virtual std::shared_ptr<void> open_shared(int device, const SharedMemory& shared) = 0;
  /// Enqueues a copy between addresses of this device and of shared memory.
  virtual void copy_rows(int device, const RowsToCopy& rows, Stream stream) = 0;
  /// Says what the stream's next launch is for. Nobody listens on devices.
  virtual void announce(int /*device*/, const PeerStep& /*step*/, Stream /*stream*/) {}
  /// The content of this device's memory is of no use to work that comes behind. Nothing is done on devices.
  virtual void let_go(int /*device*/, void* /*memory*/, std::size_t /*bytes*/, Stream /*stream*/) {}
  /// Is all work of the stream done? Never waits.
  virtual bool idle(int device, Stream stream) = 0;
};

/// Null where a driver shares no memory.
inline PeerMemory* peer_memory_of(Driver& driver) noexcept { return dynamic_cast<PeerMemory*>(&driver); }

}  // namespace tj::launch
