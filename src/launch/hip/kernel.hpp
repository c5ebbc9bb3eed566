// A kernel of a code object on a HIP device.
//
// Decides what of the object's own words is checked before the runtime sees it. HIP tells little of a kernel, and some
// of its releases end the process for a foreign object. Invariant: the bytes stay as long as the kernel, since the
// runtime reads them when it likes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "launch/driver.hpp"
#include "launch/hip/devices.hpp"

namespace tj::launch {

class HipKernel final : public Kernel {
 public:
  HipKernel(std::shared_ptr<HipDevices> devices, int device) : devices_(std::move(devices)), device_(device) {}
  ~HipKernel() override;

  /// Once. Throws tj::Error(load).
  void load(std::string_view bytes, const std::string& symbol, std::int64_t smem_bytes);

  int device() const noexcept { return device_; }
  void* function() const noexcept { return function_; }
  unsigned max_threads() const noexcept { return max_threads_; }
  std::size_t params_bytes() const noexcept override { return params_bytes_; }

 private:
  void check(std::string_view bytes, const std::string& symbol, std::int64_t smem_bytes);

  std::shared_ptr<HipDevices> devices_;
  int device_;
  std::string bytes_;
  void* module_ = nullptr;
  void* function_ = nullptr;
  unsigned max_threads_ = 0;
  std::size_t params_bytes_ = 0;
};

}  // namespace tj::launch
