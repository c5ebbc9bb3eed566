// See backends.hpp.
#include "backends.hpp"

#include <algorithm>
#include <string_view>

#include "model_reports.hpp"
#include "support/fail.hpp"

namespace tj {

using support::cat;
using support::fail;

namespace {

const arch::Arch* first_arch(std::string_view vendor) {
  return *std::find_if(arch::all().begin(), arch::all().end(), [&](const arch::Arch* each) { return each->vendor == vendor; });
}

}  // namespace

Backends::Backends(const support::Settings& settings) : hip_compiler_(settings.hip_compiler), model_settings_(settings.model) {
  if (!settings.target.empty()) forced_ = std::make_unique<arch::Target>(arch::parse_target(settings.target));
}

std::shared_ptr<launch::Driver> Backends::driver_if_present(DeviceKind kind) {
  const std::lock_guard lock(mutex_);
  const auto once = [](Gpu& gpu, std::shared_ptr<launch::Driver> (*open)(std::string*)) {
    if (!gpu.tried) gpu.driver = open(&gpu.reason);
    gpu.tried = true;
    return gpu.driver;
  };
  switch (kind) {
    case DeviceKind::cpu:
      if (!model_) model_ = model_settings_.given() ? open_reporting_model(model_settings_) : launch::open_model();
      return model_;
    case DeviceKind::cuda: return once(cuda_, launch::open_cuda);
    case DeviceKind::hip: return once(hip_, launch::open_hip);
  }
  return nullptr;
}

std::shared_ptr<launch::Driver> Backends::driver(Device device) {
  auto found = driver_if_present(device.kind);
  if (!found) {
    const bool amd = device.kind == DeviceKind::hip;
    const arch::Target model{forced_ ? forced_->arch : first_arch(amd ? "amd" : "nvidia"), true};
    fail(Stage::launch, Code::not_found, cat("no driver for ", to_string(device), ": ", (amd ? hip_ : cuda_).reason, "; without a GPU use cpu tensors and TJ_TARGET=", model.name()));
  }
  if (device.index < 0 || device.index >= found->device_count())
    fail(Stage::argument, Code::invalid_argument, cat("device ", to_string(device), " does not exist; there are ", found->device_count()));
  return found;
}

arch::Target Backends::detect(Device device) {
  if (device.kind == DeviceKind::cpu) return {arch::all().front(), true};
  const launch::DeviceInfo info = driver(device)->device_info(device.index);
  const bool by_name = !info.processor.empty();
  const arch::Arch* found = by_name ? arch::for_device(info.vendor, info.processor) : arch::for_device(info.vendor, info.major, info.minor);
  if (found == nullptr)
    fail(Stage::target, Code::unsupported,
         cat(to_string(device), " (", info.name, ") is not served: ", by_name ? arch::why_unserved(info.vendor, info.processor) : arch::why_unserved(info.vendor, info.major, info.minor)));
  return {found, false};
}

arch::Target Backends::target(Device device) {
  if (!forced_) return detect(device);
  if (forced_->model) {
    if (device.kind != DeviceKind::cpu)
      fail(Stage::target, Code::invalid_argument, cat("target '", forced_->name(), "' runs on the cpu, but the device is ", to_string(device)));
    return *forced_;
  }
  const arch::Target detected = device.kind == DeviceKind::cpu ? arch::Target{} : detect(device);
  if (detected.arch == nullptr || !arch::same_devices(*detected.arch, *forced_->arch))
    fail(Stage::target, Code::invalid_argument,
         cat("target '", forced_->name(), "' does not run on ", to_string(device), detected.arch ? " (" + detected.name() + ")" : std::string(),
             "; unset TJ_TARGET or Options::target, or use model:", forced_->arch->name, " with cpu tensors"));
  return *forced_;
}

const arch::Arch& Backends::arch(Device device) {
  const auto index = static_cast<std::size_t>(device.index);
  if (device.kind == DeviceKind::cpu || index >= kKnownDevices) return *target(device).arch;
  std::atomic<const arch::Arch*>& place = (device.kind == DeviceKind::hip ? hip_archs_ : cuda_archs_)[index];
  if (const arch::Arch* known = place.load(std::memory_order_acquire)) return *known;
  const arch::Arch* found = target(device).arch;
  place.store(found, std::memory_order_release);
  return *found;
}

Device Backends::default_device() {
  const Device cpu{DeviceKind::cpu, 0};
  if (forced_ && forced_->model) return cpu;
  for (const DeviceKind kind : {DeviceKind::cuda, DeviceKind::hip}) {
    if (forced_ && (forced_->arch->vendor == "amd") != (kind == DeviceKind::hip)) continue;  // nothing there could run it
    const auto found = driver_if_present(kind);
    if (found && found->device_count() > 0) return {kind, kind == DeviceKind::hip ? first_served(*found) : 0};
    if (forced_) return {kind, 0};  // the CPU would not be what was asked for: whoever uses the device is told why it is not there
  }
  return cpu;
}

// A processor's own graphics often stand beside the card that is meant, and may come first.
int Backends::first_served(launch::Driver& driver) const {
  for (int index = 0; index < driver.device_count(); ++index) {
    try {
      const launch::DeviceInfo info = driver.device_info(index);
      const arch::Arch* found = arch::for_device(info.vendor, info.processor);
      if (found != nullptr && (!forced_ || arch::same_devices(*found, *forced_->arch))) return index;
    } catch (const Error&) {  // whoever uses that device is told
    }
  }
  return 0;
}

compile::Compiler& Backends::compiler(const arch::Target& target) {
  const std::string kind = target.model ? "host" : target.arch->compiler;
  const std::string& arch = target.arch->compiler_name();  // which one "auto" is may depend on it
  const std::lock_guard lock(mutex_);
  auto& slot = compilers_[{kind, target.model ? std::string() : arch}];
  if (!slot) slot = compile::make_compiler(kind, {hip_compiler_, arch});
  return *slot;
}

}  // namespace tj
