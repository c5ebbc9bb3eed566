// HIP behind the driver interface.
//
// Decides how code objects are started and how memory of AMD's devices is handled. Knows neither ops nor compilers.
// Invariant: kernels and allocations keep what they need alive, so they may outlive the driver object. Nothing here
// resets a device or leaves another one current. Kernels outlive a reset by others; memory that went with it is not
// released. The null stream is the device's default stream.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "launch/driver.hpp"
#include "launch/hip/api.hpp"
#include "launch/hip/devices.hpp"
#include "launch/hip/graph.hpp"
#include "launch/hip/kernel.hpp"
#include "support/fail.hpp"

namespace tj::launch {
namespace {

using support::cat;
using support::fail;

enum CopyKind : int { kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3 };

/// An event, used with the device current and on the thread that made it.
class Event {
 public:
  explicit Event(const HipApi& api) : api_(api) {
    api_.check(api_.event_create(&event_), "hipEventCreate", Stage::launch);
  }
  ~Event() { hip_quietly(api_, api_.event_destroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record() { api_.check(api_.event_record(event_, nullptr), "hipEventRecord", Stage::launch); }
  void* get() const noexcept { return event_; }

 private:
  const HipApi& api_;
  void* event_ = nullptr;
};

class HipDriver final : public Driver {
 public:
  explicit HipDriver(std::shared_ptr<HipDevices> devices) : devices_(std::move(devices)), api_(devices_->api()) {}

  int device_count() override { return devices_->count(); }

  DeviceInfo device_info(int device) override {
    const HipProperties& properties = devices_->properties(device);
    DeviceInfo info;
    info.vendor = "amd";
    info.name = properties.name;
    info.processor = properties.processor;
    info.major = properties.major;
    info.minor = properties.minor;
    info.sm_count = properties.compute_units;
    info.smem_per_block_bytes = properties.shared_bytes_per_block;
    return info;
  }

  std::shared_ptr<Kernel> load(int device, std::string_view bytes, const std::string& symbol,
                               std::int64_t smem_bytes) override {
    devices_->check_index(device);
    auto kernel = std::make_shared<HipKernel>(devices_, device);
    kernel->load(bytes, symbol, smem_bytes);
    return kernel;
  }

  void encode_tensor_maps(int device, std::span<const TensorMapPlace> maps) override {
    devices_->check_index(device);
    if (maps.empty()) return;
    fail(Stage::launch, Code::unsupported,
         cat("tensor maps are for a copy engine that hip:", device, " (", devices_->properties(device).name,
             ") does not have; pass pointers and strides instead"));
  }

  void move_tensor_maps(int, std::span<const MovedTensorMap>) override {}  // none was encoded

  void launch(int device, const Kernel& kernel, const LaunchConfig& config, const void* params,
              std::size_t params_bytes, Stream stream) override {
    const auto& loaded = static_cast<const HipKernel&>(kernel);
    if (loaded.params_bytes() != 0 && loaded.params_bytes() != params_bytes) [[unlikely]]
      fail(Stage::launch, Code::internal,
           cat("the kernel takes a parameter of ", loaded.params_bytes(), " bytes and was given ", params_bytes,
               "; host and device disagree on it: clear the kernel cache"));
    if (loaded.device() != device) [[unlikely]]
      fail(Stage::launch, Code::internal, cat("the kernel was not loaded on hip:", device, "; load it there"));
    if (config.shape.cluster > 1) [[unlikely]]
      refuse_clusters(device);
    if (loaded.max_threads() != 0 && config.shape.threads > loaded.max_threads()) [[unlikely]]
      fail(Stage::launch, Code::internal,
           cat("the kernel was made for at most ", loaded.max_threads(), " threads a block and is launched with ",
               config.shape.threads, "; clear the kernel cache"));
    // hip_runtime_api.h, hipModuleLaunchKernel: threads of a dimension are counted in 32 bits.
    if (const std::uint64_t threads = std::uint64_t{config.grid[0]} * config.shape.threads; threads >> 32 != 0)
        [[unlikely]]
      fail(Stage::launch, Code::unsupported,
           cat("the launch has ", config.grid[0], " blocks of ", config.shape.threads, " threads, ", threads,
               " in all; HIP allows fewer than 2^32 (4294967296): split the call, by batch for instance"));
    // hip_runtime_api.h: HIP_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END. The runtime copies the buffer before it
    // returns.
    std::size_t size = params_bytes;
    void* packed[] = {reinterpret_cast<void*>(1), const_cast<void*>(params), reinterpret_cast<void*>(2), &size,
                      reinterpret_cast<void*>(3)};
    const HipDeviceScope scope(api_, device, Stage::launch);
    api_.check(
        api_.launch_kernel(loaded.function(), config.grid[0], config.grid[1], config.grid[2], config.shape.threads, 1,
                           1, static_cast<unsigned>(config.shape.smem_bytes), stream.handle, nullptr, packed),
        "hipModuleLaunchKernel", Stage::launch);
  }

  unsigned resident_clusters(int device, const Kernel&, const LaunchConfig&) override { refuse_clusters(device); }

  bool capturing(int device, Stream stream) override {
    devices_->check_index(device);
    if (api_.stream_is_capturing == nullptr) return false;
    const HipDeviceScope scope(api_, device, Stage::launch);
    int status = 0;
    const int result = api_.stream_is_capturing(stream.handle, &status);
    // Said of the default stream while another stream that synchronises with it records: work here would break that
    // graph.
    if (result == kHipStreamCaptureImplicit) {
      api_.forget_failure();
      return true;
    }
    api_.check(result, "hipStreamIsCapturing", Stage::launch);
    return status != 0;
  }

  std::shared_ptr<void> allocate(int device, std::size_t bytes) override {
    devices_->check_index(device);
    const RelaxedHipCapture relaxed(api_);
    return plain_memory(device, bytes, Stage::load);
  }

  std::shared_ptr<void> scratch(int device, std::size_t bytes, Stream stream) override {
    const bool recorded = capturing(device, stream);
    if (!api_.has_pools() || !devices_->allocates_in_order(device)) return unordered_scratch(device, bytes, recorded);
    const std::size_t wanted = std::max<std::size_t>(bytes, 1);
    // Memory that a graph records belongs to the graph, whatever the pool.
    HipLife& life = devices_->life(device);
    void* const pool = recorded ? nullptr : devices_->pool(device, life);
    void* memory = nullptr;
    {
      const HipDeviceScope scope(api_, device, Stage::launch);
      const int result = pool != nullptr ? api_.mem_alloc_from_pool_async(&memory, wanted, pool, stream.handle)
                                         : api_.mem_alloc_async(&memory, wanted, stream.handle);
      if (result == kHipNotSupported) {
        api_.forget_failure();
        devices_->no_order(device);
        return unordered_scratch(device, bytes, recorded);
      }
      api_.check(result, pool != nullptr ? "hipMallocFromPoolAsync" : "hipMallocAsync", Stage::launch);
    }
    return {memory, [devices = devices_, &life, device, handle = stream.handle](void* pointer) {
              if (!devices->alive(life)) return;
              const QuietHipDeviceScope scope(devices->api(), device);
              if (scope.entered()) hip_quietly(devices->api(), devices->api().mem_free_async(pointer, handle));
            }};
  }

  MemoryUse memory_use(int device) noexcept override {
    MemoryUse use;
    const HipLife* const life = devices_->known_life(device);
    if (life == nullptr) return use;
    use.allocated_bytes = life->allocated_bytes;
    if (void* const pool = life->pool.load(); pool != nullptr) {
      const RelaxedHipCapture relaxed(api_);
      use.workspace_bytes = pool_bytes(pool, kReservedBytes);
      use.workspace_used_bytes = pool_bytes(pool, kUsedBytes);
    }
    return use;
  }

  std::uint64_t trim_pool(int device) noexcept override {
    const HipLife* const life = devices_->known_life(device);
    void* const pool = life != nullptr ? life->pool.load() : nullptr;
    if (pool == nullptr || api_.mem_pool_trim_to == nullptr) return 0;
    const RelaxedHipCapture relaxed(api_);
    const QuietHipDeviceScope scope(api_, device);
    if (!scope.entered()) return 0;
    const std::uint64_t before = pool_bytes(pool, kReservedBytes);
    hip_quietly(api_, api_.mem_pool_trim_to(pool, 0));
    const std::uint64_t after = pool_bytes(pool, kReservedBytes);
    return before > after ? before - after : 0;
  }

  void zero(int device, void* memory, std::size_t bytes, Stream stream) override {
    devices_->check_index(device);
    const HipDeviceScope scope(api_, device, Stage::launch);
    api_.check(api_.mem_set_async(memory, 0, bytes, stream.handle), "hipMemsetAsync", Stage::launch);
  }

  void copy(int device, void* dst, bool dst_on_device, const void* src, bool src_on_device,
            std::size_t bytes) override {
    if (bytes == 0) return;
    if (!dst_on_device && !src_on_device) {
      std::memcpy(dst, src, bytes);
      return;
    }
    devices_->check_index(device);
    const HipDeviceScope scope(api_, device, Stage::launch);
    const CopyKind kind = !dst_on_device ? kDeviceToHost : src_on_device ? kDeviceToDevice : kHostToDevice;
    api_.check(api_.mem_copy(dst, src, bytes, kind), "hipMemcpy", Stage::launch);
    // Into device memory the runtime may return before the copy is done, and other streams would not wait for it.
    if (dst_on_device) api_.check(api_.stream_synchronize(nullptr), "hipStreamSynchronize", Stage::launch);
  }

  void synchronize(int device, Stream stream) override {
    devices_->check_index(device);
    const HipDeviceScope scope(api_, device, Stage::launch);
    api_.check(api_.stream_synchronize(stream.handle), "hipStreamSynchronize", Stage::launch);
  }

  double time_ms(int device, const std::function<void()>& work) override {
    devices_->check_index(device);
    const HipDeviceScope scope(api_, device, Stage::launch);
    Event start(api_), end(api_);
    start.record();
    work();
    end.record();
    api_.check(api_.event_synchronize(end.get()), "hipEventSynchronize", Stage::launch);
    float milliseconds = 0;
    api_.check(api_.event_elapsed_time(&milliseconds, start.get(), end.get()), "hipEventElapsedTime", Stage::launch);
    return milliseconds;
  }

  std::shared_ptr<Recording> record(int device, const std::function<void(Stream)>& work) override {
    devices_->check_index(device);
    return record_hip_graph(devices_, device, work);
  }

 private:
  // hip_runtime_api.h: hipMemPoolAttrReservedMemCurrent, hipMemPoolAttrUsedMemCurrent.
  static constexpr int kReservedBytes = 5, kUsedBytes = 7;

  std::uint64_t pool_bytes(void* pool, int which) const noexcept {
    std::uint64_t bytes = 0;
    if (api_.mem_pool_get_attribute == nullptr) return 0;
    const int result = api_.mem_pool_get_attribute(pool, which, &bytes);
    hip_quietly(api_, result);
    return result == kHipSuccess ? bytes : 0;
  }

  [[noreturn]] void refuse_clusters(int device) {
    fail(Stage::launch, Code::unsupported,
         cat("blocks that reach each other's shared memory are asked for, which hip:", device, " (",
             devices_->properties(device).name, ") does not have; make the cluster 1"));
  }

  std::shared_ptr<void> plain_memory(int device, std::size_t bytes, Stage stage) {
    HipLife& life = devices_->life(device);
    void* memory = nullptr;
    {
      const HipDeviceScope scope(api_, device, stage);
      api_.check(api_.mem_alloc(&memory, std::max<std::size_t>(bytes, 1)), "hipMalloc", stage);
    }
    life.allocated_bytes += bytes;
    return {memory, [devices = devices_, &life, device, bytes](void* pointer) {
              life.allocated_bytes -= bytes;
              if (!devices->alive(life)) return;  // the memory went with it
              const RelaxedHipCapture relaxed(devices->api());
              const QuietHipDeviceScope scope(devices->api(), device);
              if (scope.entered()) hip_quietly(devices->api(), devices->api().mem_free(pointer));
            }};
  }

  /// hipFree waits for the device, so the memory outlives what is enqueued; a graph cannot hold it.
  std::shared_ptr<void> unordered_scratch(int device, std::size_t bytes, bool recorded) {
    if (recorded)
      fail(Stage::launch, Code::unsupported,
           cat("a stream that records a graph needs memory in its order, which hip:", device,
               " with the HIP runtime at ", api_.path, " does not have; run this call outside of the capture"));
    return plain_memory(device, bytes, Stage::launch);
  }

  std::shared_ptr<HipDevices> devices_;
  const HipApi& api_;
};

}  // namespace

std::shared_ptr<Driver> open_hip(std::string* reason) {
  std::string ignored;
  std::string& why = reason != nullptr ? *reason : ignored;
  std::unique_ptr<HipApi> api = open_hip_api(&why);
  if (!api) return nullptr;
  const auto refuse = [&](const char* call, int result) {
    api->forget_failure();
    why = cat("the HIP runtime at ", api->path, " finds no device: ", call, " failed with ", api->explain(result),
              "; check with rocminfo that the device is there, that the user is in the groups render and video, and "
              "HIP_VISIBLE_DEVICES",
              api->remark.empty() ? "" : cat("; ", api->remark));
    return nullptr;
  };
  if (const int result = api->init(0); result != kHipSuccess) return refuse("hipInit", result);
  int count = 0;
  if (const int result = api->get_device_count(&count); result != kHipSuccess)
    return refuse("hipGetDeviceCount", result);
  if (count <= 0) return refuse("hipGetDeviceCount", kHipNoDevice);
  why = api->remark;
  return std::make_shared<HipDriver>(std::make_shared<HipDevices>(std::move(api), count));
}

}  // namespace tj::launch
