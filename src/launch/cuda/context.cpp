// Retain, push, pop and release; see the header.
#include "launch/cuda/context.hpp"

#include <cstddef>
#include <utility>

#include "support/fail.hpp"

namespace tj::launch {
namespace {

// The default pool gives all free memory back whenever somebody waits for the device, and the next call has to map it
// again. More than the sums of any product in parts, which is what short calls take.
constexpr cuuint64_t kKeptPoolBytes = 128 * 1024 * 1024;

}  // namespace

CudaContexts::CudaContexts(std::unique_ptr<CudaApi> api, int device_count) : api_(std::move(api)) {
  for (int index = 0; index < device_count; ++index) {
    devices_.push_back(std::make_unique<Device>());
    api_->check(api_->device_get(&devices_.back()->handle, index), "cuDeviceGet", Stage::load);
  }
}

CudaContexts::~CudaContexts() {
  // At the end of a process the driver may be gone already; then there is nothing left to release.
  for (const auto& device : devices_) {
    const CudaContext* const context = device->context.load();
    if (context == nullptr) continue;
    if (context->pool.load() != nullptr && alive(*context)) api_->mem_pool_destroy(context->pool.load());
    api_->primary_ctx_release(device->handle);
  }
}

void CudaContexts::check_index(int index) const {
  if (index < 0 || index >= count())
    support::fail(Stage::argument, Code::invalid_argument,
                  support::cat("device cuda:", index, " does not exist; this process sees ", count(),
                               " CUDA device(s), numbered from 0 (CUDA_VISIBLE_DEVICES limits them)"));
}

CUdevice CudaContexts::device(int index) const {
  check_index(index);
  return devices_[static_cast<std::size_t>(index)]->handle;
}

bool CudaContexts::alive(const CudaContext& context) const noexcept {
  if (context.id == 0) return true;
  unsigned long long id = 0;
  const CUresult result = api_->ctx_get_id(context.handle, &id);
  if (result == CUDA_SUCCESS) return id == context.id;  // the next context of a device may have the same handle
  return result != CUDA_ERROR_CONTEXT_IS_DESTROYED && result != CUDA_ERROR_INVALID_CONTEXT;
}

CudaContext& CudaContexts::context(int index) {
  check_index(index);
  Device& device = *devices_[static_cast<std::size_t>(index)];
  CudaContext* const context = device.context.load(std::memory_order_acquire);
  return context != nullptr && alive(*context) ? *context : retain(device);
}

CudaContext* CudaContexts::known_context(int index) const noexcept {
  if (index < 0 || index >= count()) return nullptr;
  CudaContext* const context = devices_[static_cast<std::size_t>(index)]->context.load(std::memory_order_acquire);
  return context != nullptr && alive(*context) ? context : nullptr;
}

CudaContext& CudaContexts::retain(Device& device) {
  const std::lock_guard lock(mutex_);
  CudaContext* const before = device.context.load();
  if (before != nullptr && alive(*before)) return *before;
  auto made = std::make_unique<CudaContext>();
  device.contexts.reserve(device.contexts.size() + 1);
  api_->check(api_->primary_ctx_retain(&made->handle, device.handle), "cuDevicePrimaryCtxRetain", Stage::load);
  // A reset destroys what a context has, and does not release it.
  if (before != nullptr) api_->primary_ctx_release(device.handle);
  if (api_->ctx_get_id == nullptr || api_->ctx_get_id(made->handle, &made->id) != CUDA_SUCCESS) made->id = 0;
  device.contexts.push_back(std::move(made));
  CudaContext& context = *device.contexts.back();
  device.context.store(&context, std::memory_order_release);
  return context;
}

CUmemoryPool CudaContexts::pool(int index, CudaContext& context) {
  if (!context.pool_known.load(std::memory_order_acquire)) make_pool(device(index), context);
  return context.pool.load(std::memory_order_relaxed);
}

void CudaContexts::make_pool(CUdevice device, CudaContext& context) {
  const std::lock_guard lock(mutex_);
  if (context.pool_known.load()) return;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  CUmemoryPool pool = nullptr;
  const RelaxedCapture relaxed(*api_);
  if (api_->mem_pool_create(&pool, &properties) == CUDA_SUCCESS) {
    cuuint64_t kept = kKeptPoolBytes;
    api_->mem_pool_set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                 &kept);  // without it, it is a pool all the same
    context.pool.store(pool);
  }
  context.pool_known.store(true, std::memory_order_release);
}

ContextScope::ContextScope(const CudaApi& api, CUcontext context, Stage stage) : api_(api) {
  CUcontext current = nullptr;
  api_.check(api_.ctx_get_current(&current), "cuCtxGetCurrent", stage);
  if (current == context) return;
  api_.check(api_.ctx_push_current(context), "cuCtxPushCurrent", stage);
  pushed_ = true;
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  if (pushed_) api_.ctx_pop_current(&popped);
}

QuietContextScope::QuietContextScope(const CudaApi& api, CUcontext context) noexcept
    : api_(api), entered_(api.ctx_push_current(context) == CUDA_SUCCESS) {}

QuietContextScope::~QuietContextScope() {
  CUcontext popped = nullptr;
  if (entered_) api_.ctx_pop_current(&popped);
}

RelaxedCapture::RelaxedCapture(const CudaApi& api) noexcept
    : api_(api), exchanged_(api.exchange_capture_mode(&mode_) == CUDA_SUCCESS) {}

RelaxedCapture::~RelaxedCapture() {
  if (exchanged_) api_.exchange_capture_mode(&mode_);
}

}  // namespace tj::launch
