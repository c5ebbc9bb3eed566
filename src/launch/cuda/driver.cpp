// CUDA behind the driver interface.
//
// Decides how kernels are started through the primary context of a device; kernel.hpp loads them. Knows neither ops nor
// compilers. Invariant: kernels and allocations keep the contexts alive, so they may outlive the driver object; nothing
// here resets a device or leaves a context current. Where others destroy a context, kernels go into the next one. The
// null stream is the legacy default stream.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "launch/bare_launch.hpp"
#include "launch/cuda/api.hpp"
#include "launch/cuda/context.hpp"
#include "launch/cuda/graph.hpp"
#include "launch/cuda/kernel.hpp"
#include "launch/cuda/peer_memory.hpp"
#include "launch/cuda/side_stream.hpp"
#include "launch/cuda/tensor_map.hpp"
#include "launch/driver.hpp"
#include "support/fail.hpp"

namespace tj::launch {
namespace {

using support::cat;
using support::fail;

CUdeviceptr device_pointer(const void* pointer) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
}

/// An event, used with the context current and on the thread that made it.
class Event {
 public:
  explicit Event(const CudaApi& api) : api_(api) {
    api_.check(api_.event_create(&event_, CU_EVENT_DEFAULT), "cuEventCreate", Stage::launch);
  }
  ~Event() { api_.event_destroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record() { api_.check(api_.event_record(event_, nullptr), "cuEventRecord", Stage::launch); }
  CUevent get() const noexcept { return event_; }

 private:
  const CudaApi& api_;
  CUevent event_ = nullptr;
};

/// A launch in the driver's words; on the stack, as hot calls allocate nothing.
class LaunchDescription {
 public:
  LaunchDescription(const LaunchConfig& config, Stream stream) {
    how_.gridDimX = config.grid[0];
    how_.gridDimY = config.grid[1];
    how_.gridDimZ = config.grid[2];
    how_.blockDimX = config.shape.threads;
    how_.blockDimY = how_.blockDimZ = 1;
    how_.sharedMemBytes = static_cast<unsigned>(config.shape.smem_bytes);
    how_.hStream = static_cast<CUstream>(stream.handle);
    how_.attrs = attributes_;
    if (config.waits_itself && config.overlaps) {
      CUlaunchAttribute& attribute = attributes_[how_.numAttrs++];
      attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attribute.value.programmaticStreamSerializationAllowed = 1;
    }
    if (config.shape.cluster > 1) {
      CUlaunchAttribute& attribute = attributes_[how_.numAttrs++];
      attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attribute.value.clusterDim.x = config.shape.cluster;
      attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    }
  }
  LaunchDescription(const LaunchDescription&) = delete;
  LaunchDescription& operator=(const LaunchDescription&) = delete;
  const CUlaunchConfig* get() const noexcept { return &how_; }

 private:
  CUlaunchAttribute attributes_[2];
  CUlaunchConfig how_{};
};

class CudaDriver final : public Driver, public PeerMemory {
 public:
  explicit CudaDriver(std::shared_ptr<CudaContexts> contexts)
      : contexts_(std::move(contexts)), api_(contexts_->api()) {}

  int device_count() override { return contexts_->count(); }

  DeviceInfo device_info(int device) override {
    const CUdevice handle = contexts_->device(device);
    const auto attribute = [&](CUdevice_attribute which) {
      int value = 0;
      api_.check(api_.device_get_attribute(&value, which, handle), "cuDeviceGetAttribute", Stage::load);
      return value;
    };
    char name[256] = {};
    api_.check(api_.device_get_name(name, sizeof(name), handle), "cuDeviceGetName", Stage::load);
    DeviceInfo info;
    info.vendor = "nvidia";
    info.name = name;
    info.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    info.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    info.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    info.smem_per_block_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    int version = 0;
    if (api_.driver_get_version(&version) == CUDA_SUCCESS)
      info.driver = cat("CUDA ", version / 1000, ".", version % 1000 / 10);
    return info;
  }

  std::shared_ptr<Kernel> load(int device, std::string_view bytes, const std::string& symbol,
                               std::int64_t smem_bytes) override {
    check_binary(bytes, symbol);
    return std::make_shared<CudaKernel>(contexts_, device, bytes, symbol, smem_bytes);
  }

  LoadShares load_shares() const noexcept override {
    const LoadTimes& times = contexts_->load_times();
    return {times.module_s, times.function_s, times.code_s, times.attributes_s};
  }

  void encode_tensor_maps(int device, std::span<const TensorMapPlace> maps) override {
    for (const TensorMapPlace& map : maps) check_tensor_map(*map.desc, map.out);
    // It fails without a current context; to try it first would show up in every tool that reports failed driver calls.
    const ContextScope scope(api_, contexts_->context(device).handle, Stage::launch);
    for (const TensorMapPlace& map : maps) launch::encode_tensor_map(api_, *map.desc, map.out);
  }

  void move_tensor_maps(int device, std::span<const MovedTensorMap> maps) override {
    const ContextScope scope(api_, contexts_->context(device).handle, Stage::launch);
    for (const MovedTensorMap& map : maps) launch::move_tensor_map(api_, map.map, map.address);
  }

  void launch(int device, const Kernel& kernel, const LaunchConfig& config, const void* params,
              std::size_t params_bytes, Stream stream) override {
    const auto& loaded = static_cast<const CudaKernel&>(kernel);
    if (loaded.params_bytes() != 0 && loaded.params_bytes() != params_bytes) [[unlikely]]
      fail(Stage::launch, Code::internal,
           cat("the kernel takes a parameter of ", loaded.params_bytes(), " bytes and was given ", params_bytes,
               "; host and device disagree on it: clear the kernel cache"));
    if (loaded.device() != device) [[unlikely]]
      fail(Stage::launch, Code::internal, cat("the kernel was not loaded on cuda:", device, "; load it there"));
    void* arguments[] = {const_cast<void*>(params)};
    const LaunchDescription description(config, stream);
    const CudaContext& context = contexts_->context(device);
    const CUfunction function = loaded.function(context);
    const ContextScope scope(api_, context.handle, Stage::launch);
    api_.check(api_.launch_kernel(description.get(), function, arguments, nullptr), "cuLaunchKernelEx", Stage::launch);
  }

  void launch_bare(const Kernel& kernel, const LaunchConfig& config, const void* params, Stream stream, int times) {
    const auto& loaded = static_cast<const CudaKernel&>(kernel);
    void* arguments[] = {const_cast<void*>(params)};
    const LaunchDescription description(config, stream);
    const CudaContext& context = contexts_->context(loaded.device());
    const CUfunction function = loaded.function(context);
    const ContextScope scope(api_, context.handle, Stage::launch);
    for (int i = 0; i < times; ++i)
      api_.check(api_.launch_kernel(description.get(), function, arguments, nullptr), "cuLaunchKernelEx",
                 Stage::launch);
  }

  unsigned resident_clusters(int device, const Kernel& kernel, const LaunchConfig& config) override {
    const LaunchDescription description(config, {});
    int count = 0;
    const CudaContext& context = contexts_->context(device);
    const CUfunction function = static_cast<const CudaKernel&>(kernel).function(context);
    const RelaxedCapture relaxed(api_);
    const ContextScope scope(api_, context.handle, Stage::load);
    api_.check(api_.max_active_clusters(&count, function, description.get()), "cuOccupancyMaxActiveClusters",
               Stage::load);
    return static_cast<unsigned>(std::max(count, 1));
  }

  std::shared_ptr<SideStream> side_stream(int device) override {
    return make_side_stream(contexts_, contexts_->context(device));
  }

  bool capturing(int device, Stream stream) override {
    const ContextScope scope(api_, contexts_->context(device).handle, Stage::launch);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = api_.stream_is_capturing(static_cast<CUstream>(stream.handle), &status);
    // Said of the default stream while another stream that synchronises with it records: work here would break that
    // graph.
    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
    api_.check(result, "cuStreamIsCapturing", Stage::launch);
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }

  std::shared_ptr<void> allocate(int device, std::size_t bytes) override {
    CudaContext& context = contexts_->context(device);
    CUdeviceptr memory = 0;
    {
      const RelaxedCapture relaxed(api_);
      const ContextScope scope(api_, context.handle, Stage::load);
      api_.check(api_.mem_alloc(&memory, std::max<std::size_t>(bytes, 1)), "cuMemAlloc", Stage::load);
    }
    context.allocated_bytes += bytes;
    return {reinterpret_cast<void*>(memory), [contexts = contexts_, &context, bytes](void* pointer) {
              context.allocated_bytes -= bytes;
              if (!contexts->alive(context)) return;  // the memory went with it
              const RelaxedCapture relaxed(contexts->api());
              const QuietContextScope scope(contexts->api(), context.handle);
              if (scope.entered()) contexts->api().mem_free(device_pointer(pointer));
            }};
  }

  std::shared_ptr<void> host_memory(int device, std::size_t bytes) override {
    return allocate_host(contexts_, contexts_->context(device), bytes);
  }
  SharedMemory share(int device, const std::shared_ptr<void>& memory) override {
    const RelaxedCapture relaxed(api_);
    const ContextScope scope(api_, contexts_->context(device).handle, Stage::launch);
    return share_memory(api_, device_pointer(memory.get()));
  }
  std::shared_ptr<void> open_shared(int device, const SharedMemory& shared) override {
    return open_memory(contexts_, contexts_->context(device), shared);
  }
  void copy_rows(int device, const RowsToCopy& rows, Stream stream) override {
    const ContextScope scope(api_, contexts_->context(device).handle, Stage::launch);
    launch::copy_rows(api_, rows, static_cast<CUstream>(stream.handle));
  }
  bool idle(int device, Stream stream) override {
    const RelaxedCapture relaxed(api_);
    const ContextScope scope(api_, contexts_->context(device).handle, Stage::launch);
    const CUresult result = api_.stream_query(static_cast<CUstream>(stream.handle));
    if (result != CUDA_ERROR_NOT_READY) api_.check(result, "cuStreamQuery", Stage::launch);
    return result == CUDA_SUCCESS;
  }

  std::shared_ptr<void> scratch(int device, std::size_t bytes, Stream stream) override {
    CudaContext& context = contexts_->context(device);
    const auto handle = static_cast<CUstream>(stream.handle);
    const std::size_t wanted = std::max<std::size_t>(bytes, 1);
    // Memory that a graph records belongs to the graph, whatever the pool.
    const CUmemoryPool pool = capturing(device, stream) ? nullptr : contexts_->pool(device, context);
    CUdeviceptr memory = 0;
    {
      const ContextScope scope(api_, context.handle, Stage::launch);
      if (pool != nullptr)
        api_.check(api_.mem_alloc_from_pool_async(&memory, wanted, pool, handle), "cuMemAllocFromPoolAsync",
                   Stage::launch);
      else
        api_.check(api_.mem_alloc_async(&memory, wanted, handle), "cuMemAllocAsync", Stage::launch);
    }
    return {reinterpret_cast<void*>(memory), [contexts = contexts_, &context, handle](void* pointer) {
              if (!contexts->alive(context)) return;
              const QuietContextScope scope(contexts->api(), context.handle);
              if (scope.entered()) contexts->api().mem_free_async(device_pointer(pointer), handle);
            }};
  }

  MemoryUse memory_use(int device) noexcept override {
    MemoryUse use;
    const CudaContext* const context = contexts_->known_context(device);
    if (context == nullptr) return use;
    use.allocated_bytes = context->allocated_bytes;
    if (const CUmemoryPool pool = context->pool.load(); pool != nullptr) {
      const RelaxedCapture relaxed(api_);
      const QuietContextScope scope(api_, context->handle);
      use.workspace_bytes = pool_bytes(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
      use.workspace_used_bytes = pool_bytes(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    }
    return use;
  }

  std::uint64_t trim_pool(int device) noexcept override {
    const CudaContext* const context = contexts_->known_context(device);
    const CUmemoryPool pool = context != nullptr ? context->pool.load() : nullptr;
    if (pool == nullptr || api_.mem_pool_trim_to == nullptr) return 0;
    const RelaxedCapture relaxed(api_);
    const QuietContextScope scope(api_, context->handle);
    const std::uint64_t before = pool_bytes(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    if (!scope.entered() || api_.mem_pool_trim_to(pool, 0) != CUDA_SUCCESS) return 0;
    const std::uint64_t after = pool_bytes(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    return before > after ? before - after : 0;
  }

  void zero(int device, void* memory, std::size_t bytes, Stream stream) override {
    const ContextScope scope(api_, contexts_->context(device).handle, Stage::launch);
    api_.check(api_.memset_d8_async(device_pointer(memory), 0, bytes, static_cast<CUstream>(stream.handle)),
               "cuMemsetD8Async", Stage::launch);
  }

  void copy(int device, void* dst, bool dst_on_device, const void* src, bool src_on_device,
            std::size_t bytes) override {
    if (bytes == 0) return;
    if (!dst_on_device && !src_on_device) {
      std::memcpy(dst, src, bytes);
      return;
    }
    const ContextScope scope(api_, contexts_->context(device).handle, Stage::launch);
    if (!dst_on_device) {
      api_.check(api_.memcpy_d_to_h(dst, device_pointer(src), bytes), "cuMemcpyDtoH", Stage::launch);
      return;
    }
    if (src_on_device)
      api_.check(api_.memcpy_d_to_d(device_pointer(dst), device_pointer(src), bytes), "cuMemcpyDtoD", Stage::launch);
    else
      api_.check(api_.memcpy_h_to_d(device_pointer(dst), src, bytes), "cuMemcpyHtoD", Stage::launch);
    // Into device memory the driver may return before the copy is done, and other streams would not wait for it.
    api_.check(api_.stream_synchronize(nullptr), "cuStreamSynchronize", Stage::launch);
  }

  void synchronize(int device, Stream stream) override {
    const ContextScope scope(api_, contexts_->context(device).handle, Stage::launch);
    api_.check(api_.stream_synchronize(static_cast<CUstream>(stream.handle)), "cuStreamSynchronize", Stage::launch);
  }

  double time_ms(int device, const std::function<void()>& work) override {
    const ContextScope scope(api_, contexts_->context(device).handle, Stage::launch);
    Event start(api_), end(api_);
    start.record();
    work();
    end.record();
    api_.check(api_.event_synchronize(end.get()), "cuEventSynchronize", Stage::launch);
    float milliseconds = 0;
    api_.check(api_.event_elapsed_time(&milliseconds, start.get(), end.get()), "cuEventElapsedTime", Stage::launch);
    return milliseconds;
  }

  std::shared_ptr<Recording> record(int device, const std::function<void(Stream)>& work) override {
    return record_graph(contexts_, contexts_->context(device), work);
  }

 private:
  std::uint64_t pool_bytes(CUmemoryPool pool, CUmemPool_attribute which) const noexcept {
    cuuint64_t bytes = 0;
    const bool told =
        api_.mem_pool_get_attribute != nullptr && api_.mem_pool_get_attribute(pool, which, &bytes) == CUDA_SUCCESS;
    return told ? bytes : 0;
  }

  /// The driver takes a bare pointer and trusts what it reads there.
  static void check_binary(std::string_view bytes, const std::string& symbol) {
    constexpr std::string_view kElf = "\177ELF";
    const bool cubin = bytes.size() >= 64 && bytes.starts_with(kElf);
    const bool ptx = bytes.ends_with('\0') && bytes.find(".version ") != bytes.npos && !bytes.starts_with(kElf);
    if (!cubin && !ptx)
      fail(Stage::load, Code::unsupported,
           cat("the binary of kernel \"", symbol, "\" (", bytes.size(),
               " bytes) is no cubin and no PTX; clear the kernel cache"));
  }

  std::shared_ptr<CudaContexts> contexts_;
  const CudaApi& api_;
};

}  // namespace

void launch_bare(Driver& driver, int device, const Kernel& kernel, const LaunchConfig& config,
                 std::span<const std::byte> params, Stream stream, int times) {
  if (auto* cuda = dynamic_cast<CudaDriver*>(&driver))
    return cuda->launch_bare(kernel, config, params.data(), stream, times);
  for (int i = 0; i < times; ++i) driver.launch(device, kernel, config, params.data(), params.size(), stream);
}

std::shared_ptr<Driver> open_cuda(std::string* reason) {
  std::string ignored;
  std::string& why = reason != nullptr ? *reason : ignored;
  std::unique_ptr<CudaApi> api = open_cuda_api(&why);
  if (!api) return nullptr;
  const auto refuse = [&](const char* call, CUresult result) {
    const std::string_view advice = CudaApi::forked_advice(result);
    why = cat("the NVIDIA driver at ", api->path, " finds no device: ", call, " failed with ", api->explain(result),
              advice.empty() ? "" : "; ", advice);
    return nullptr;
  };
  if (const CUresult result = api->init(0); result != CUDA_SUCCESS) return refuse("cuInit", result);
  int count = 0;
  if (const CUresult result = api->device_get_count(&count); result != CUDA_SUCCESS)
    return refuse("cuDeviceGetCount", result);
  if (count == 0) return refuse("cuDeviceGetCount", CUDA_ERROR_NO_DEVICE);
  return std::make_shared<CudaDriver>(std::make_shared<CudaContexts>(std::move(api), count));
}

}  // namespace tj::launch
