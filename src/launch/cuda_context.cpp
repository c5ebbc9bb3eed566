// Retain, push, pop and release; see the header.
#include "launch/cuda_context.hpp"

#include <cstddef>
#include <utility>

#include "support/fail.hpp"

namespace tj::launch {

CudaContexts::CudaContexts(std::unique_ptr<CudaApi> api, int device_count) : api_(std::move(api)) {
  for (int index = 0; index < device_count; ++index) {
    devices_.push_back(std::make_unique<Device>());
    api_->check(api_->device_get(&devices_.back()->handle, index), "cuDeviceGet", Stage::load);
  }
}

CudaContexts::~CudaContexts() {
  // At the end of a process the driver may be gone already; then there is nothing left to release.
  for (const auto& device : devices_)
    if (device->context.load() != nullptr) api_->primary_ctx_release(device->handle);
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

CUcontext CudaContexts::context(int index) {
  check_index(index);
  Device& device = *devices_[static_cast<std::size_t>(index)];
  const CUcontext context = device.context.load(std::memory_order_acquire);
  return context != nullptr ? context : retain(device);
}

CUcontext CudaContexts::retain(Device& device) {
  const std::lock_guard lock(mutex_);
  CUcontext context = device.context.load();
  if (context != nullptr) return context;
  api_->check(api_->primary_ctx_retain(&context, device.handle), "cuDevicePrimaryCtxRetain", Stage::load);
  device.context.store(context, std::memory_order_release);
  return context;
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
