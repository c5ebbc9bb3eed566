// See devices.hpp.
#include "launch/hip/devices.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "support/fail.hpp"

namespace tj::launch {
namespace {

// A pool gives all free memory back whenever somebody waits for the device, unless told otherwise, and the next call
// has to map it again. More than the sums of any product in parts, which is what short calls take.
constexpr std::uint64_t kKeptPoolBytes = 128 * 1024 * 1024;
constexpr int kReleaseThreshold = 4;  // hipMemPoolAttrReleaseThreshold
constexpr int kBufferId = 7;          // HIP_POINTER_ATTRIBUTE_BUFFER_ID: the runtime writes 4 bytes

int number_of(const HipApi& api, void* piece, std::uint64_t& number) noexcept {
  number = 0;
  const int result = api.pointer_get_attribute(&number, kBufferId, piece);
  if (result != kHipSuccess) api.forget_failure();
  return result;
}

}  // namespace

HipDevices::HipDevices(std::unique_ptr<HipApi> api, int device_count) : api_(std::move(api)) {
  for (int index = 0; index < device_count; ++index) devices_.push_back(std::make_unique<Device>());
}

HipDevices::~HipDevices() {
  for (const auto& device : devices_) {
    const HipLife* const life = device->life.load();
    if (life == nullptr || !alive(*life)) continue;
    if (life->pool.load() != nullptr) hip_quietly(*api_, api_->mem_pool_destroy(life->pool.load()));
    if (life->piece != nullptr) hip_quietly(*api_, api_->mem_free(life->piece));
  }
}

void HipDevices::check_index(int index) const {
  if (index < 0 || index >= count())
    support::fail(Stage::argument, Code::invalid_argument,
                  support::cat("device hip:", index, " does not exist; this process sees ", count(),
                               " HIP device(s), numbered from 0 (HIP_VISIBLE_DEVICES limits them)"));
}

HipDevices::Device& HipDevices::device(int index) {
  check_index(index);
  return *devices_[static_cast<std::size_t>(index)];
}

const HipProperties& HipDevices::properties(int index) {
  Device& device = this->device(index);
  if (const HipProperties* known = device.known.load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(mutex_);
  if (!device.properties) device.properties = std::make_unique<HipProperties>(read_hip_properties(*api_, index));
  device.known.store(device.properties.get(), std::memory_order_release);
  return *device.properties;
}

bool HipDevices::alive(const HipLife& life) const noexcept {
  if (life.number == 0) return true;
  std::uint64_t number = 0;
  const int result = number_of(*api_, life.piece, number);
  if (result == kHipSuccess) return number == life.number;  // the piece's address may have been given to somebody else
  return result != kHipInvalidValue;
}

HipLife& HipDevices::life(int index) {
  Device& device = this->device(index);
  HipLife* const life = device.life.load(std::memory_order_acquire);
  return life != nullptr && alive(*life) ? *life : begin_life(device, index);
}

HipLife* HipDevices::known_life(int index) const noexcept {
  if (index < 0 || index >= count()) return nullptr;
  HipLife* const life = devices_[static_cast<std::size_t>(index)]->life.load(std::memory_order_acquire);
  return life != nullptr && alive(*life) ? life : nullptr;
}

HipLife& HipDevices::begin_life(Device& device, int index) {
  const std::lock_guard lock(mutex_);
  HipLife* const before = device.life.load();
  if (before != nullptr && alive(*before)) return *before;
  auto made = std::make_unique<HipLife>();
  device.lives.reserve(device.lives.size() + 1);
  if (api_->pointer_get_attribute != nullptr) {
    const RelaxedHipCapture relaxed(*api_);
    const HipDeviceScope scope(*api_, index, Stage::load);
    api_->check(api_->mem_alloc(&made->piece, 1), "hipMalloc", Stage::load);
    if (number_of(*api_, made->piece, made->number) != kHipSuccess || made->number == 0) {
      made->number = 0;
      hip_quietly(*api_, api_->mem_free(std::exchange(made->piece, nullptr)));
    }
  }
  device.lives.push_back(std::move(made));
  HipLife& life = *device.lives.back();
  device.life.store(&life, std::memory_order_release);
  return life;
}

void* HipDevices::pool(int index, HipLife& life) {
  if (life.pool_known.load(std::memory_order_acquire)) return life.pool.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (life.pool_known.load()) return life.pool.load();
  HipPoolProperties properties;
  properties.device = index;
  void* pool = nullptr;
  const RelaxedHipCapture relaxed(*api_);
  const int made = api_->has_pools() ? api_->mem_pool_create(&pool, &properties) : kHipNotSupported;
  if (made == kHipSuccess) {
    std::uint64_t kept = kKeptPoolBytes;
    hip_quietly(*api_,
                api_->mem_pool_set_attribute(pool, kReleaseThreshold, &kept));  // without it, it is a pool all the same
    life.pool.store(pool);
  } else {
    api_->forget_failure();
  }
  life.pool_known.store(true, std::memory_order_release);
  return life.pool.load();
}

HipDeviceScope::HipDeviceScope(const HipApi& api, int device, Stage stage) : api_(api) {
  int current = -1;
  api_.check(api_.get_device(&current), "hipGetDevice", stage);
  if (current == device) return;
  api_.check(api_.set_device(device), "hipSetDevice", stage);
  before_ = current;
}

HipDeviceScope::~HipDeviceScope() {
  if (before_ >= 0) hip_quietly(api_, api_.set_device(before_));
}

QuietHipDeviceScope::QuietHipDeviceScope(const HipApi& api, int device) noexcept : api_(api) {
  int current = -1;
  if (api_.get_device(&current) != kHipSuccess) {
    api_.forget_failure();
    return;
  }
  entered_ = current == device || api_.set_device(device) == kHipSuccess;
  if (!entered_)
    api_.forget_failure();
  else if (current != device)
    before_ = current;
}

QuietHipDeviceScope::~QuietHipDeviceScope() {
  if (before_ >= 0) hip_quietly(api_, api_.set_device(before_));
}

RelaxedHipCapture::RelaxedHipCapture(const HipApi& api) noexcept : api_(api) {
  if (api_.exchange_capture_mode == nullptr) return;
  exchanged_ = api_.exchange_capture_mode(&mode_) == kHipSuccess;
  if (!exchanged_) api_.forget_failure();
}

RelaxedHipCapture::~RelaxedHipCapture() {
  if (exchanged_) hip_quietly(api_, api_.exchange_capture_mode(&mode_));
}

}  // namespace tj::launch
