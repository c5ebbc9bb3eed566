// The drivers and compilers of one runtime, opened when first needed.
//
// Decides which driver a device needs and which target a device runs, and an op on it. Invariant: opened once, then
// constant; thread safe.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "compile/compiler.hpp"
#include "launch/driver.hpp"
#include "ops/op.hpp"
#include "support/environment.hpp"
#include "support/fork_safe.hpp"
#include "support/log.hpp"

namespace tj {

struct TunedMachine;

/// The arch whose kernels of an op devices of `usual` take: `usual`, or where it has none, the first other one of the
/// same devices that has. `usual` where none has. Thread safe.
const arch::Arch& serving_arch(const ops::Op& op, const arch::Arch& usual);

class Backends {
 public:
  /// log outlives this.
  Backends(const support::Settings& settings, const support::Log& log);

  /// Throws tj::Error(launch, not_found) with what was searched.
  std::shared_ptr<launch::Driver> driver(Device device);
  /// Null instead.
  std::shared_ptr<launch::Driver> driver_if_present(DeviceKind kind);
  /// The reason that driver() was told where it found none, without advice: "no driver for cuda:0: ...".
  std::string no_driver(Device device);
  /// Throws tj::Error(target) when nothing serves the device or the setting contradicts it.
  arch::Target target(Device device);
  /// The target that the op's kernels are made for there: target(device), or the first other target of the same devices
  /// that serves the op. The other target is taken only if nobody asked for the first, with a warning, one for each
  /// device and op. If none serves the op, it is target(device), which the op refuses.
  arch::Target target(Device device, const ops::Maker& op);
  /// The target that a caller names, with the facts of the settings' file. Throws tj::Error(target), also where the
  /// file is of another arch.
  arch::Target named(std::string_view text) const;
  /// The target's PTX, for a device whose target the compiler at hand is too old for. None where that is no way: the
  /// target was asked for, or its instructions are of one generation.
  std::optional<arch::Target> ptx_of(Device device, const arch::Target& target) const;
  /// Warns that PTX is taken, once for each device.
  void warn_of_ptx(Device device, const arch::Target& ptx, const std::string& why);
  /// The arch of target(); without a lock once it is known.
  const arch::Arch& arch(Device device);
  const arch::Arch& arch(Device device, const ops::Maker& op);
  /// Does this runtime use the CPU model for tensors on this device?
  bool on_model(Device device) const noexcept { return forced_ ? forced_->model : device.kind == DeviceKind::cpu; }
  Device default_device();

  /// The one that makes binaries for the target.
  compile::Compiler& compiler(const arch::Target& target);

 private:
  /// The archs of a device: `usual`, but for ops that it does not serve and another of the same devices does.
  struct Archs {
    const arch::Arch* usual = nullptr;
    std::vector<std::pair<std::string_view, const arch::Arch*>>
        others;  ///< by the op's name: all steps of a name go the same way
    const arch::Arch& of(std::string_view op) const noexcept {
      for (const auto& [name, arch] : others)
        if (name == op) return *arch;
      return *usual;
    }
  };

  arch::Target detect(Device device);
  arch::Target with_facts(Device device, const arch::Target& detected) const;
  bool first_time(Device device, std::string_view topic);
  Archs archs_of(const arch::Target& target) const;
  /// Null for a device that is not kept.
  const Archs* known(Device device);
  /// The first device that an arch is for, or that the requested arch is for; 0 when there is none.
  int first_served(launch::Driver& driver) const;

  /// A vendor's driver, once it was tried to open it.
  struct Gpu {
    std::shared_ptr<launch::Driver> driver;
    bool tried = false;
    std::string reason;  ///< why there is none, or what to know of it
  };

  static constexpr std::size_t kKnownDevices = 64;
  using KnownArchs = std::array<std::atomic<const Archs*>, kKnownDevices>;  ///< by index, null until asked for
  KnownArchs cuda_archs_{}, hip_archs_{};
  const support::Log& log_;
  std::string hip_compiler_;
  double compile_limit_s_;
  const support::ModelSettings model_settings_;
  const arch::FactFile* facts_;  ///< null: the shipped ones
  std::unique_ptr<arch::Target> forced_;
  support::Mutex mutex_;
  std::vector<std::unique_ptr<const Archs>> kept_archs_;
  std::set<std::pair<std::string, std::string_view>> warned_;  ///< device and op, or "PTX"
  std::shared_ptr<launch::Driver> model_;
  Gpu cuda_, hip_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<compile::Compiler>> compilers_;  ///< by kind and arch
};

/// The machine behind a device, as records of measured choices name it. Throws as driver() and arch() do.
TunedMachine tuned_machine(Backends& backends, Device device);

}  // namespace tj
