// See prepared.hpp.
#include "prepared.hpp"

#include <utility>

#include "ops/common/tunable.hpp"

namespace tj {

std::unique_ptr<LoadedKernel> loaded_kernel(std::shared_ptr<launch::Driver> driver, int device,
                                            std::shared_ptr<launch::Kernel> kernel, const arch::Arch& arch,
                                            const Artifact& artifact) {
  auto made = std::make_unique<LoadedKernel>();
  made->driver = std::move(driver);
  made->kernel = std::move(kernel);
  made->device = device;
  made->sm_count = static_cast<unsigned>(made->driver->device_info(device).sm_count);
  made->shape = artifact.shape;
  made->waits_itself = arch.overlapped_launch;                    // every emitted unit does
  if (const unsigned cluster = made->shape.cluster; cluster > 1)  // the driver tells all blocks that fit
    made->sm_count = cluster * made->driver->resident_clusters(device, *made->kernel, made->config(cluster));
  made->geometry = artifact.geometry;
  made->report = artifact.report;
  return made;
}

CallPreparer::CallPreparer(const support::Settings& settings, support::Log log)
    : settings_(settings),
      log_(std::move(log)),
      backends_(settings_, log_),
      store_(!settings_.use_disk_cache ? nullptr
                                       : std::make_unique<cache::Store>(
                                             settings_.cache_dir, settings_.cache_max_size_bytes,
                                             [this](LogLevel level, std::string_view text) { log_(level, text); })),
      tunings_(store_.get(), log_, backends_, settings_.use_tuning) {}

const LoadedKernel& CallPreparer::kernel_of(const ops::Op& op, const ops::Request& request, Device device) {
  for (const Kept& kept : kernels_)
    if (kept.name == request.name && kept.device == device) return *kept.kernel;
  const arch::Target target = backends_.target(device, op);
  const auto driver = backends_.driver(device);
  compile::Compiler& compiler = backends_.compiler(target);
  const cache::Key key = key_of(request, target, compiler);
  std::optional<Artifact> artifact;
  if (store_ != nullptr)
    if (const auto entry = store_->load(key)) artifact = from_entry(*entry, op);
  if (!artifact) {
    artifact = make(op, request, target, compiler, settings_, log_);
    if (store_ != nullptr) store_->store(key, to_entry(*artifact, op));
  }
  auto loaded = driver->load(device.index, artifact->binary, artifact->shape.symbol, artifact->shape.smem_bytes);
  kernels_.push_back(
      {request.name, device, loaded_kernel(driver, device.index, std::move(loaded), *target.arch, *artifact)});
  return *kernels_.back().kernel;
}

PreparedCall CallPreparer::prepare(const ops::Op& op, const void* args, int choice) {
  PreparedCall call;
  call.device = op.device_of(args);
  op.validate(args, backends_.on_model(call.device));
  call.choice = choice;
  if (choice == ops::kNoChoice && op.tunable() != nullptr) {
    tunings_.refresh(call.device);
    const int tuned = tunings_.choice(op, args, call.device);
    call.choice = tuned != kNotTuned ? tuned : op.tunable()->predicted(args, backends_.arch(call.device, op));
  }
  if (const std::size_t bytes = op.scratch_bytes(args, call.choice); bytes > 0)
    call.scratch = backends_.driver(call.device)->allocate(call.device.index, bytes);
  op.steps(args, call.choice, call.scratch.get(), [&](const ops::Op& step, const void* step_args) {
    step.validate(step_args, backends_.on_model(call.device));
    const bool own = &step == &op && call.choice != ops::kNoChoice;
    const LoadedKernel& kernel = kernel_of(step,
                                           own ? op.tunable()->request_of(step_args, call.choice)
                                               : step.request_of(step_args, backends_.arch(call.device, step)),
                                           call.device);
    PreparedLaunch& launch = call.launches.emplace_back();
    launch.kernel = &kernel;
    plan_launch(step, step_args, kernel, launch.plan);
  });
  return call;
}

}  // namespace tj
