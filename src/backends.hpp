// The drivers and compilers of one runtime, opened when first needed.
//
// Decides which driver a device needs and which target a device runs. Invariant: opened once, then constant; thread safe.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "arch/arch.hpp"
#include "compile/compiler.hpp"
#include "launch/driver.hpp"
#include "support/environment.hpp"

namespace tj {

class Backends {
 public:
  explicit Backends(const support::Settings& settings);

  /// Throws tj::Error(launch, not_found) with what was searched.
  std::shared_ptr<launch::Driver> driver(Device device);
  /// Null instead.
  std::shared_ptr<launch::Driver> driver_if_present(DeviceKind kind);
  /// Throws tj::Error(target) when nothing serves the device or the setting contradicts it.
  arch::Target target(Device device);
  /// That of target(); without a lock once it is known.
  const arch::Arch& arch(Device device);
  /// Does this runtime use the CPU model for tensors on this device?
  bool on_model(Device device) const noexcept { return forced_ ? forced_->model : device.kind == DeviceKind::cpu; }
  Device default_device();

  /// The one that makes binaries for the target.
  compile::Compiler& compiler(const arch::Target& target);

 private:
  arch::Target detect(Device device);
  /// The first device that an arch, or the one that is asked for, is for; 0 when there is none. Throws nothing.
  int first_served(launch::Driver& driver) const;

  /// A vendor's driver, once it was tried to open it.
  struct Gpu {
    std::shared_ptr<launch::Driver> driver;
    bool tried = false;
    std::string reason;  ///< why there is none
  };

  static constexpr std::size_t kKnownDevices = 64;
  using KnownArchs = std::array<std::atomic<const arch::Arch*>, kKnownDevices>;  ///< by index, null until asked for
  KnownArchs cuda_archs_{}, hip_archs_{};
  std::string hip_compiler_;
  const support::ModelSettings model_settings_;
  std::unique_ptr<arch::Target> forced_;
  std::mutex mutex_;
  std::shared_ptr<launch::Driver> model_;
  Gpu cuda_, hip_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<compile::Compiler>> compilers_;  ///< by kind and arch
};

}  // namespace tj
