// See backends.hpp.
#include "backends.hpp"
#include "model/model.hpp"

#include <algorithm>
#include <string_view>

#include "arch/fact_file.hpp"
#include "arch/named_target.hpp"
#include "model_reports.hpp"
#include "support/fail.hpp"
#include "support/uncancelled.hpp"
#include "tuning/tunings.hpp"

namespace tj {

using support::cat;
using support::fail;

namespace {

const arch::Arch* first_arch(std::string_view vendor) {
  return *std::find_if(arch::all().begin(), arch::all().end(),
                       [&](const arch::Arch* each) { return each->vendor == vendor; });
}

/// Before a driver is asked: there is one CPU, and no fourth kind.
void require_possible(Device device) {
  if (device.kind < DeviceKind::cpu || device.kind > DeviceKind::hip)
    fail(Stage::argument, Code::invalid_argument,
         cat("device.kind is ", static_cast<int>(device.kind), "; allowed: 0 (cpu), 1 (cuda), 2 (hip)"));
  if (device.kind == DeviceKind::cpu && device.index != 0)
    fail(Stage::argument, Code::invalid_argument, cat("device cpu has index ", device.index, "; allowed: 0"));
}

}  // namespace

Backends::Backends(const support::Settings& settings, const support::Log& log)
    : log_(log),
      hip_compiler_(settings.hip_compiler),
      compile_limit_s_(settings.compile_limit_s),
      model_settings_(settings.model),
      facts_(settings.facts_file.empty() ? nullptr : &arch::load_facts(settings.facts_file, settings.facts_from)) {
  if (settings.target.empty()) return;
  arch::Target target = settings.target_from_variable ? arch::parse_target(settings.target, "TJ_TARGET")
                                                      : arch::parse_target(settings.target);
  target.arch = &arch::with_facts(*target.arch, facts_);
  forced_ = std::make_unique<arch::Target>(target);
}

arch::Target Backends::named(std::string_view text) const {
  arch::Target target = arch::parse_target(text);
  target.arch = &arch::with_facts(*target.arch, facts_);
  return target;
}

/// Nobody has named the model's arch, and nothing is timed there: another file's facts are no mistake.
arch::Target Backends::with_facts(Device device, const arch::Target& detected) const {
  if (facts_ == nullptr || (device.kind == DeviceKind::cpu && !arch::fits(*detected.arch, *facts_))) return detected;
  return {&arch::with_facts(*detected.arch, facts_), detected.model};
}

std::shared_ptr<launch::Driver> Backends::driver_if_present(DeviceKind kind) {
  const support::Uncancelled whole;
  std::string remark;
  const auto once = [&](Gpu& gpu, std::shared_ptr<launch::Driver> (*open)(std::string*)) {
    if (gpu.tried) return gpu.driver;
    gpu.driver = open(&gpu.reason);
    gpu.tried = true;
    if (gpu.driver) remark = gpu.reason;
    return gpu.driver;
  };
  const auto locked = [&]() -> std::shared_ptr<launch::Driver> {
    const std::lock_guard lock(mutex_);
    switch (kind) {
      case DeviceKind::cpu:
        if (!model_)
          model_ = model_settings_.given() ? open_reporting_model(model_settings_, log_) : model::open_model();
        return model_;
      case DeviceKind::cuda:
        return once(cuda_, launch::open_cuda);
      case DeviceKind::hip:
        return once(hip_, launch::open_hip);
    }
    return nullptr;
  };
  auto found = locked();
  if (!remark.empty()) log_(LogLevel::warn, remark);  // a sink may call the runtime
  return found;
}

std::string Backends::no_driver(Device device) {
  const std::lock_guard lock(mutex_);
  return cat("no driver for ", to_string(device), ": ", (device.kind == DeviceKind::hip ? hip_ : cuda_).reason);
}

std::shared_ptr<launch::Driver> Backends::driver(Device device) {
  require_possible(device);
  auto found = driver_if_present(device.kind);
  if (!found) {
    const bool amd = device.kind == DeviceKind::hip;
    const arch::Target model{forced_ ? forced_->arch : first_arch(amd ? "amd" : "nvidia"), true};
    fail(Stage::launch, Code::not_found,
         cat(no_driver(device), "; without a GPU use cpu tensors and TJ_TARGET=", model.name()));
  }
  if (device.index < 0 || device.index >= found->device_count())
    fail(Stage::argument, Code::invalid_argument,
         cat("device ", to_string(device), " does not exist; there are ", found->device_count()));
  return found;
}

arch::Target Backends::detect(Device device) {
  if (device.kind == DeviceKind::cpu) return {arch::all().front(), true};
  const launch::DeviceInfo info = driver(device)->device_info(device.index);
  const bool by_name = !info.processor.empty();
  const arch::Arch* found =
      by_name ? arch::for_device(info.vendor, info.processor) : arch::for_device(info.vendor, info.major, info.minor);
  if (found != nullptr) return {found, false};
  const std::string why = by_name ? arch::why_unserved(info.vendor, info.processor)
                                  : arch::why_unserved(info.vendor, info.major, info.minor);
  if (!by_name) found = arch::for_newer_device(info.vendor, info.major, info.minor, info.smem_per_block_bytes);
  if (found == nullptr)
    fail(Stage::target, Code::unsupported, cat(to_string(device), " (", info.name, ") is not served: ", why));
  if (!forced_) warn_of_ptx(device, {found, false}, cat(info.name, ": ", why));
  return {found, false};
}

bool Backends::first_time(Device device, std::string_view topic) {
  const std::lock_guard lock(mutex_);
  return warned_.emplace(to_string(device), topic).second;
}

void Backends::warn_of_ptx(Device device, const arch::Target& ptx, const std::string& why) {
  if (!first_time(device, "PTX")) return;
  log_(LogLevel::warn,
       cat(to_string(device), " takes kernels as PTX, target '", ptx.name(),
           "': the driver compiles them when they are loaded, and they may be slower than binaries. ", why));
}

std::optional<arch::Target> Backends::ptx_of(Device device, const arch::Target& target) const {
  if (forced_ || target.model || device.kind != DeviceKind::cuda || !target.arch->ptx.empty()) return std::nullopt;
  const arch::Arch* const ptx = arch::as_ptx(*target.arch);
  return ptx != nullptr ? std::optional(arch::Target{ptx, false}) : std::nullopt;
}

arch::Target Backends::target(Device device) {
  require_possible(device);
  if (!forced_) return with_facts(device, detect(device));
  if (forced_->model) {
    if (device.kind != DeviceKind::cpu)
      fail(Stage::target, Code::invalid_argument,
           cat("target '", forced_->name(), "' runs on the cpu, but the device is ", to_string(device)));
    return *forced_;
  }
  const arch::Target detected = device.kind == DeviceKind::cpu ? arch::Target{} : detect(device);
  if (detected.arch == nullptr || !arch::runs_on(*forced_->arch, *detected.arch))
    fail(Stage::target, Code::invalid_argument,
         cat("target '", forced_->name(), "' does not run on ", to_string(device),
             detected.arch ? " (" + detected.name() + ")" : std::string(),
             "; unset TJ_TARGET or Options::target, or use model:", forced_->arch->name, " with cpu tensors"));
  return *forced_;
}

const arch::Arch& serving_arch(const ops::Op& op, const arch::Arch& usual) {
  if (op.serves(usual)) return usual;
  const auto other = std::find_if(arch::all().begin(), arch::all().end(), [&](const arch::Arch* each) {
    return arch::same_devices(*each, usual) && op.serves(*each);
  });
  return other != arch::all().end() ? **other : usual;
}

Backends::Archs Backends::archs_of(const arch::Target& target) const {
  Archs archs{target.arch, {}};
  if (forced_ || target.model || !target.arch->ptx.empty())
    return archs;  // a target that was asked for is obeyed, and the model stands for an arch that serves everything
  for (const ops::Op* op : ops::all()) {
    const arch::Arch& serving = serving_arch(*op, *target.arch);
    if (&serving != target.arch) archs.others.emplace_back(op->name(), &serving);
  }
  return archs;
}

const Backends::Archs* Backends::known(Device device) {
  const auto index = static_cast<std::size_t>(device.index);
  if (device.kind == DeviceKind::cpu || index >= kKnownDevices) return nullptr;
  std::atomic<const Archs*>& place = (device.kind == DeviceKind::hip ? hip_archs_ : cuda_archs_)[index];
  if (const Archs* present = place.load(std::memory_order_acquire)) return present;
  auto found = std::make_unique<const Archs>(archs_of(target(device)));
  const std::lock_guard lock(mutex_);
  if (const Archs* present = place.load(std::memory_order_acquire)) return present;
  kept_archs_.push_back(std::move(found));
  place.store(kept_archs_.back().get(), std::memory_order_release);
  return kept_archs_.back().get();
}

const arch::Arch& Backends::arch(Device device) {
  const Archs* archs = known(device);
  return archs != nullptr ? *archs->usual : *target(device).arch;
}

const arch::Arch& Backends::arch(Device device, const ops::Maker& op) {
  const Archs* archs = known(device);
  return archs != nullptr ? archs->of(op.name()) : archs_of(target(device)).of(op.name());
}

arch::Target Backends::target(Device device, const ops::Maker& op) {
  arch::Target target = this->target(device);
  const arch::Arch& taken = arch(device, op);
  if (&taken == target.arch) return target;
  if (first_time(device, op.name()))
    log_(LogLevel::warn,
         cat(op.name(), " has no kernel for '", target.name(), "', the usual target of ", to_string(device),
             "; it takes '", taken.name, "' there, which is for the same devices. TJ_TARGET=", taken.name,
             " takes it for every op"));
  target.arch = &taken;
  return target;
}

Device Backends::default_device() {
  const support::Uncancelled whole;
  const Device cpu{DeviceKind::cpu, 0};
  if (forced_ && forced_->model) return cpu;
  for (const DeviceKind kind : {DeviceKind::cuda, DeviceKind::hip}) {
    if (forced_ && (forced_->arch->vendor == "amd") != (kind == DeviceKind::hip))
      continue;  // nothing there could run it
    const auto found = driver_if_present(kind);
    if (found && found->device_count() > 0) return {kind, kind == DeviceKind::hip ? first_served(*found) : 0};
    if (forced_)
      return {kind, 0};  // the CPU would not be what was asked for: whoever uses the device is told why it is not there
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
  const support::Uncancelled whole;
  const std::string kind = target.model ? "host" : target.arch->compiler;
  const std::string& arch = target.arch->compiler_name();  // which one "auto" is may depend on it
  const std::lock_guard lock(mutex_);
  auto& slot = compilers_[{kind, target.model ? std::string() : arch}];
  if (!slot) slot = compile::make_compiler(kind, {hip_compiler_, arch, compile_limit_s_});
  return *slot;
}

TunedMachine tuned_machine(Backends& backends, Device device) {
  const launch::DeviceInfo info = backends.driver(device)->device_info(device.index);
  TunedMachine machine{&backends.arch(device), info.name, info.sm_count, info.driver};
  for (const ops::Op* op : ops::all())
    if (const arch::Arch& arch = backends.arch(device, *op); &arch != machine.arch)
      machine.others.emplace_back(op, &arch);
  return machine;
}

}  // namespace tj
