// One interface over the CUDA driver, HIP and the CPU model.
//
// Decides how a binary is loaded and started, and how memory of its devices is handled. Knows neither ops nor
// compilers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/runtime.hpp>

#include "support/launch_shape.hpp"
#include "support/memory_range.hpp"
#include "support/tensor_map.hpp"

namespace tj::launch {

using support::kTensorMapBytes;
using support::TensorMapDesc;

struct DeviceInfo {
  std::string vendor;  ///< "nvidia", "amd", "cpu"
  std::string name;
  std::string processor = {};  ///< where devices go by names, with its features: "gfx90a:sramecc+:xnack-"
  int major = 0, minor = 0;
  int sm_count = 0;
  std::int64_t smem_per_block_bytes = 0;
  std::string driver = {};  ///< "CUDA 13.0": what the driver offers; empty where it has no such number
};

struct LaunchConfig {
  std::array<unsigned, 3> grid{1, 1, 1};
  const support::LaunchShape& shape;  ///< outlives the launch
  /// The kernel itself waits for the work before it in the stream: its blocks may take their places while that still
  /// runs.
  bool waits_itself = false;
  std::span<const support::MemoryRange> memory = {};  ///< for a driver that checks accesses; empty: not known
  bool overlaps = true;  ///< false: blocks of a kernel that waits itself take their places when that work is done
};

/// A loaded entry point; unloads with its last owner. Thread safe.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Size of its one parameter; 0 when the driver cannot tell.
  virtual std::size_t params_bytes() const noexcept { return 0; }
  /// The unit's notes about itself, as JSON (kernel_templates/README.md); empty where it has none, and on devices.
  virtual std::string_view notes_text() const noexcept { return {}; }
};

/// Launches that were recorded to be run again, all of them with one submission. Thread safe.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay(Stream stream) = 0;
};

/// A second stream of a device, whose work goes beside that of another one. The model has no streams: there it does
/// nothing, as all work is done when it has been enqueued.
class SideStream {
 public:
  virtual ~SideStream() = default;
  virtual Stream get() const noexcept { return {}; }
  /// Work that is enqueued here from now on waits for all that `main` has been given.
  virtual void follow(Stream /*main*/) {}
  /// Work that `main` is given from now on waits for all that was enqueued here.
  virtual void join(Stream /*main*/) {}
};

/// A tensor map and where it is wanted.
struct TensorMapPlace {
  const TensorMapDesc* desc;
  void* out;
};

/// A map that was encoded, and the address of other memory of the same shape and strides.
struct MovedTensorMap {
  void* map;
  void* address;  ///< a multiple of 16; nobody looks
};

/// Bytes of a device's memory that the library holds there.
struct MemoryUse {
  std::uint64_t workspace_bytes = 0;       ///< of its pool, free ones too; 0 where the driver does not tell
  std::uint64_t workspace_used_bytes = 0;  ///< of these, what work has or had that is not known to be done
  std::uint64_t allocated_bytes = 0;       ///< by allocate(), and not freed
};

/// Seconds of load() so far, by its steps and summed over threads.
struct LoadShares {
  double module_s = 0;      ///< the binary becomes a module
  double function_s = 0;    ///< its function is found
  double code_s = 0;        ///< the function's code goes to the device, where modules are loaded lazily
  double attributes_s = 0;  ///< shared memory and parameters of the function
};

class Driver {
 public:
  virtual ~Driver() = default;
  virtual int device_count() = 0;
  virtual DeviceInfo device_info(int device) = 0;

  /// Loads bytes (cubin, shared object) and finds the symbol; raises its shared-memory limit to smem_bytes. Bytes that
  /// this device cannot take are tj::Error(load, unsupported).
  virtual std::shared_ptr<Kernel> load(int device, std::string_view bytes, const std::string& symbol,
                                       std::int64_t smem_bytes) = 0;
  /// Zeros where nobody counts.
  virtual LoadShares load_shares() const noexcept { return {}; }
  /// Writes kTensorMapBytes to each map's out (64-byte aligned). Throws tj::Error(launch) with the driver's reason.
  virtual void encode_tensor_maps(int device, std::span<const TensorMapPlace> maps) = 0;
  void encode_tensor_map(int device, const TensorMapDesc& desc, void* out) {
    const TensorMapPlace map{&desc, out};
    encode_tensor_maps(device, {&map, 1});
  }
  /// Writes the addresses into the maps. Throws tj::Error(launch) with the driver's reason.
  virtual void move_tensor_maps(int device, std::span<const MovedTensorMap> maps) = 0;
  /// One parameter by value. Enqueues; the model runs to the end and throws tj::Error(model) on a fault or deadlock.
  virtual void launch(int device, const Kernel& kernel, const LaunchConfig& config, const void* params,
                      std::size_t params_bytes, Stream stream) = 0;
  /// Clusters of such a launch that the device runs at once, at least 1: not all its multiprocessors need fit into one.
  virtual unsigned resident_clusters(int device, const Kernel& kernel, const LaunchConfig& config) = 0;
  /// True while the stream records a graph.
  virtual bool capturing(int device, Stream stream) = 0;

  virtual std::shared_ptr<SideStream> side_stream(int /*device*/) { return std::make_shared<SideStream>(); }

  virtual std::shared_ptr<void> allocate(int device, std::size_t bytes) = 0;
  /// Memory for work that is enqueued on the stream until its owner lets go. A stream that records a graph records the
  /// memory too. On a GPU from a pool of the library's own, which keeps up to 128 MB of it for the next call.
  virtual std::shared_ptr<void> scratch(int device, std::size_t bytes, Stream stream) = 0;
  /// Never throws: what a driver does not tell is 0.
  virtual MemoryUse memory_use(int /*device*/) noexcept { return {}; }
  /// Gives the pool's free memory back; returns the bytes that the pool has fewer.
  virtual std::uint64_t trim_pool(int /*device*/) noexcept { return 0; }
  /// Enqueues that device memory becomes zeros.
  virtual void zero(int device, void* memory, std::size_t bytes, Stream stream) = 0;
  virtual void copy(int device, void* dst, bool dst_on_device, const void* src, bool src_on_device,
                    std::size_t bytes) = 0;
  virtual void synchronize(int device, Stream stream) = 0;
  virtual double time_ms(int device, const std::function<void()>& work) = 0;
  /// Records the launches of `work` on the stream that it is given; runs nothing. Lets through what `work` throws.
  /// Throws tj::Error(launch, unsupported) where recording does not exist.
  virtual std::shared_ptr<Recording> record(int device, const std::function<void(Stream)>& work) = 0;
};

/// Opens libcuda (null and a filled reason when there is no driver or no device).
std::shared_ptr<Driver> open_cuda(std::string* reason);
/// Opens AMD's HIP runtime in the same way. Beside a driver, the reason has remarks for the user; empty where there are
/// none.
std::shared_ptr<Driver> open_hip(std::string* reason);

}  // namespace tj::launch
