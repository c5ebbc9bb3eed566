// See prepared.hpp.
#include "prepared.hpp"

#include <utility>

#include "manifest.hpp"

namespace tj {

std::shared_ptr<void> make_walk_memory(launch::Driver& driver, int device, const support::WalkMemory& memory) {
  std::shared_ptr<void> owner = driver.allocate(device, memory.bytes());
  driver.zero(device, owner.get(), memory.zeroed, {});
  driver.synchronize(device, {});
  return owner;
}

CallPreparer::CallPreparer(const support::Settings& settings, support::Log log)
    : settings_(settings),
      log_(std::move(log)),
      backends_(settings_, log_),
      store_(!settings_.use_disk_cache
                 ? nullptr
                 : std::make_unique<cache::Store>(
                       settings_.cache_dir, settings_.cache_max_size_bytes,
                       [this](LogLevel level, std::string_view text) { log_(level, text); }, settings_.pack_keys)),
      maker_(settings_, log_, backends_, store_.get()),
      tunings_(
          store_.get(), log_, [this](Device device) { return tuned_machine(backends_, device); }, settings_.use_tuning,
          recording(maker_.record())) {}

const LoadedKernel& CallPreparer::kernel_of(const ops::Op& op, const ops::Request& request, Device device) {
  for (const Kept& kept : kernels_)
    if (kept.name == request.name && kept.device == device) return *kept.kernel;
  arch::Target target = backends_.target(device, op);
  const auto driver = backends_.driver(device);
  const Artifact artifact = maker_.get_for(op, request, target, device);
  kernels_.push_back({request.name, device, maker_.load(op, request, target, driver, device.index, artifact)});
  return *kernels_.back().kernel;
}

PreparedCall CallPreparer::prepare(const ops::Op& op, const void* args, std::optional<int> choice) {
  PreparedCall call;
  call.device = op.device_of(args);
  op.validate(args, backends_.on_model(call.device));
  if (op.asks_for_nothing(args)) return call;
  tunings_.refresh(call.device);
  const ops::ProblemKey problem = op.problem_key(args);
  call.kernel = choice ? op.kernel_of(problem, *choice)
                       : tunings_.kernel_of(op, problem, call.device, backends_.arch(call.device, op));
  if (const std::size_t bytes = op.scratch_bytes(args, call.kernel); bytes > 0)
    call.scratch = backends_.driver(call.device)->allocate(call.device.index, bytes);
  op.steps(args, call.kernel, call.scratch.get(), [&](const ops::Step& step) {
    const LoadedKernel& kernel = kernel_of(*step.op, step.op->request_of(step.kernel), call.device);
    PreparedLaunch& launch = call.launches.emplace_back();
    launch.kernel = &kernel;
    plan_launch(step, kernel, launch.plan, [&](const support::WalkMemory& memory) {
      call.walks.push_back(make_walk_memory(*kernel.driver, call.device.index, memory));
      return support::WalkPlace{call.walks.back().get(), memory.zeroed};
    });
  });
  return call;
}

}  // namespace tj
