// The pipeline, top to bottom: request -> kernel in memory, on disk or made -> launch. Knows no op by name.
//
// Decides the order of look-ups. Who makes a kernel when several ask at once is maker.hpp's, the steps themselves are
// pipeline.hpp's. Invariant: a hot call takes no lock, allocates nothing and does no I/O, unless it needs scratch
// memory; nothing is made inside a graph capture.
#include "runtime_impl.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "ops/common/empty.hpp"
#include "ops/known_ops.hpp"
#include "pipeline.hpp"
#include "placement.hpp"
#include "prepared.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"
#include "support/uncancelled.hpp"
#include "support/variables.hpp"
#include "support/walk_param.hpp"
#include "tuning/tune.hpp"

namespace tj {

using support::cat;
using support::fail;

Runtime::Impl::Impl(const Options& options)
    : settings(support::resolve_settings(options)),
      allocator(options.allocator),
      log(settings.log_level, options.log_sink),
      backends(settings, log) {
  if (allocator && (!allocator->allocate || !allocator->deallocate))
    fail(Stage::argument, Code::invalid_argument,
         cat("Options::allocator has no ", allocator->allocate ? "deallocate" : "allocate",
             "; allowed: both functions, or no allocator"));
  remote = open_remote(options.remote);
  kernel_maker.use(remote.get());
  support::warn_of_unknown_variables(log);
  support::look_for_tool();
}

std::unique_ptr<cache::RemoteLayer> Runtime::Impl::open_remote(const std::optional<Remote>& functions) {
  constexpr int kAtOnce = 2;  // one that hangs leaves the other
  if (!functions) return nullptr;
  return std::make_unique<cache::RemoteLayer>(
      *functions, settings.pack_keys, [this](LogLevel level, std::string_view message) { log(level, message); },
      workers.queue(kAtOnce));
}

std::unique_ptr<cache::Store> Runtime::Impl::open_store() {
  if (!settings.use_disk_cache) return nullptr;
  return std::make_unique<cache::Store>(
      settings.cache_dir, settings.cache_max_size_bytes,
      [this](LogLevel level, std::string_view message) { log(level, message); }, settings.pack_keys);
}

namespace {

// Of a call. Steps of products have the most: two copies, the product and its sums.
constexpr std::size_t kMostKernels = 8;

struct StepKernel {
  const ops::Op* op = nullptr;
  ops::Kernel kernel;
  KernelTable::Hold hold;
};

}  // namespace

void Runtime::Impl::run(const ops::Op& op, const void* args, Stream stream) {
  const Device device = op.device_of(args);
  op.validate(args, backends.on_model(device));
  if (settings.check_lists) check_lists(op, args, device, stream);
  if (op.asks_for_nothing(args)) return;
  run({&op, args, kernel_of(op, op.problem_key(args), device)}, device, stream);
}

void Runtime::Impl::check_lists(const ops::Op& op, const void* args, Device device, Stream stream) {
  const auto& driver = backends.driver(device);
  if (driver->capturing(device.index, stream)) return;  // nothing has run that may have written them
  bool waited = false;
  op.check_lists(args, [&](const Tensor& list) {
    if (ops::is_empty(list)) return std::vector<std::int32_t>();
    if (!waited) driver->synchronize(device.index, stream);
    waited = true;
    std::int64_t last = 0;
    for (int i = 0; i < list.rank; ++i) last += (list.shape[support::at(i)] - 1) * list.strides[support::at(i)];
    std::vector<std::int32_t> numbers(support::at(last + 1));
    driver->copy(device.index, numbers.data(), false, list.data, true, numbers.size() * sizeof(std::int32_t));
    return numbers;
  });
}

ops::Kernel Runtime::Impl::kernel_of(const ops::Op& op, const ops::ProblemKey& problem, Device device) {
  return tunings.kernel_of(op, problem, device, backends.arch(device, op));
}

void Runtime::Impl::run_rung(const ops::Op& op, const void* args, int rung, Stream stream) {
  const Device device = op.device_of(args);
  op.validate(args, backends.on_model(device));
  if (op.asks_for_nothing(args)) return;
  run({&op, args, rung_kernel(op, op.problem_key(args), rung, device)}, device, stream);
}

void Runtime::Impl::run(const ops::Step& call, Device device, Stream stream) {
  const ops::Op& op = *call.op;
  if (!op.in_steps(call.args, call.kernel)) return launch(call, loaded(call, device, stream), stream);
  // All kernels first: what is refused leaves nothing in the stream. They stay until the last launch.
  std::array<StepKernel, kMostKernels> kernels;
  std::size_t count = 0;
  op.steps(call.args, call.kernel, ops::nowhere(), [&](const ops::Step& step) {
    const auto end = kernels.begin() + static_cast<std::ptrdiff_t>(count);
    const bool held = std::any_of(
        kernels.begin(), end, [&](const StepKernel& each) { return each.op == step.op && each.kernel == step.kernel; });
    if (!held) kernels.at(count++) = {step.op, step.kernel, loaded(step, device, stream)};
  });
  const std::size_t scratch_bytes = op.scratch_bytes(call.args, call.kernel);
  const auto scratch = scratch_bytes > 0 ? workspace(device, scratch_bytes, stream) : nullptr;
  op.steps(call.args, call.kernel, scratch.get(),
           [&](const ops::Step& step) { launch(step, loaded(step, device, stream), stream); });
}

KernelTable::Hold Runtime::Impl::loaded(const ops::Step& step, Device device, Stream stream) {
  KernelTable::Hold kernel = table.find(hot_key(*step.op, step.kernel.small_key, device));
  return kernel ? std::move(kernel)
                : get(*step.op, step.op->request_of(step.kernel), step.kernel.small_key, device, stream);
}

TuneReport Runtime::Impl::tune(const ops::Op& op, const ops::Problem& problem, Device device,
                               const TuneOptions& options) {
  const support::Uncancelled whole;
  if (device.kind == DeviceKind::cpu)
    fail(Stage::target, Code::unsupported,
         cat("tuning measures on a GPU, and the device is ", to_string(device), "; run it where the kernels will run"));
  TuneSteps steps{backends.driver(device), device, {}, {}};
  steps.load = [&](const ops::Step& call) { load_steps(call, device); };
  steps.launch = [&](const ops::Step& call, Stream stream) { run(call, device, stream); };
  return tj::tune(op, problem, options, steps, tunings);
}

TuneReport Runtime::Impl::tune(const ops::Op& op, const void* args, const TuneOptions& options) {
  if (op.tunable() == nullptr)
    fail(Stage::argument, Code::unsupported,
         cat("op is '", op.name(), "', which has one kernel for each call: there is nothing to measure"));
  Placement placement(op, args);
  const Device device = op.device_of(args);
  op.validate(placement.get(), backends.on_model(device));
  if (op.asks_for_nothing(placement.get()))
    fail(Stage::argument, Code::invalid_argument,
         cat("the call of '", op.name(), "' writes nothing; allowed in a measurement: calls that launch something"));
  return tune(op, op.tunable()->problem_of(placement.get()), device, options);
}

HotKey Runtime::Impl::hot_key(const ops::Maker& maker, std::uint64_t small_key, Device device) {
  return {&maker, small_key, device};
}

const ops::Op& detail::find_op(std::string_view name) {
  const ops::Op* op = ops::find(name);
  if (op == nullptr)
    fail(Stage::argument, Code::invalid_argument,
         cat("op '", support::shown(name), "' is unknown; ops are ", ops::known_ops(name)));
  return *op;
}

std::shared_ptr<void> Runtime::Impl::workspace(Device device, std::size_t bytes, Stream stream) {
  if (!allocator) return backends.driver(device)->scratch(device.index, bytes, stream);
  void* const memory = allocator->allocate(device, bytes, stream);
  std::shared_ptr<void> owner(memory, [give_back = allocator->deallocate, device, bytes, stream](void* given) {
    if (given != nullptr) give_back(device, given, bytes, stream);
  });
  if (memory == nullptr)
    fail(Stage::load, Code::out_of_memory,
         cat("Options::allocator gave no memory for a workspace of ", bytes, " bytes on ", to_string(device),
             "; free some, or use smaller tensors"));
  if (reinterpret_cast<std::uintptr_t>(memory) % ops::kScratchAlignment != 0)
    fail(Stage::load, Code::invalid_argument,
         cat("Options::allocator gave the address ", memory, "; allowed: multiples of ", ops::kScratchAlignment));
  return owner;
}

std::shared_ptr<void> Runtime::Impl::walk_memory(const LoadedKernel& kernel, const support::WalkMemory& memory,
                                                 Device device, Stream stream) {
  auto owner = workspace(device, memory.bytes(), stream);
  kernel.driver->zero(kernel.device, owner.get(), memory.zeroed, stream);
  return owner;
}

void Runtime::Impl::ask_for_graph(const KernelTable::Hold& kernel, Stream stream) const {
  // Without a bound nobody pays for the question: each launch counts as a graph's then, where one can be recorded.
  if (settings.code_max_size_bytes == 0 || kernel->driver->capturing(kernel->device, stream)) kernel.stays_for_graph();
}

void Runtime::Impl::launch(const ops::Step& step, const KernelTable::Hold& held, Stream stream) {
  const LoadedKernel& kernel = *held;
  ops::LaunchPlan plan;
  const Device device = step.op->device_of(step.args);
  std::shared_ptr<void> owner;
  ops::Touched memory(backends.on_model(device) ? step.op : nullptr, step.args);
  plan_launch(step, kernel, plan, [&](const support::WalkMemory& walk) {
    owner = walk_memory(kernel, walk, device, stream);
    memory.scratch(static_cast<std::byte*>(owner.get()) + walk.zeroed, walk.pieces);
    return support::WalkPlace{owner.get(), walk.zeroed};
  });
  const support::ToolRange range = tell_launch(step.op->name(), kernel, plan.blocks);
  note_graph(held, stream);
  kernel.driver->launch(kernel.device, *kernel.kernel, kernel.config(plan, memory.ranges()), plan.params.data(),
                        plan.params_bytes, stream);
}

Runtime::Runtime(Options options) : impl_((support::require_locks(), support::made_whole<Impl>(options))) {}
Runtime::~Runtime() {
  const support::Uncancelled whole;
  if (support::locks_are_lost()) {  // it stays: its parts would wait for locks
    static_cast<void>(new (std::nothrow) std::shared_ptr<Impl>(std::move(impl_)));
    return;
  }
  impl_->workers.stop();
}

Runtime& Runtime::instance() {
  // Never destroyed: kernels may be launched by other static objects' destructors.
  static constinit support::Lasting<Runtime> runtime;
  support::may_end_here();
  return runtime.get_made_outside([] { return Runtime(); });  // it may warn, and nobody may empty standard error
}

std::string Runtime::target_of(Device device) const { return used(impl_)->backends.target(device).name(); }
std::string Runtime::target_of(Device device, std::string_view op) const {
  return used(impl_)->backends.target(device, detail::find_op(op)).name();
}
Counters Runtime::counters() const { return used(impl_)->counters(); }
TrimReport Runtime::trim(std::optional<Device> device) { return used(impl_)->trim(device); }
Device Runtime::default_device() const { return used(impl_)->backends.default_device(); }

std::shared_ptr<void> Runtime::allocate(Device device, std::size_t bytes) {
  return used(impl_)->backends.driver(device)->allocate(device.index, bytes);
}

void Runtime::copy(void* dst, Device dst_device, const void* src, Device src_device, std::size_t bytes) {
  for (const auto& [name, device] : {std::pair{"dst_device", dst_device}, std::pair{"src_device", src_device}})
    if (device.kind == DeviceKind::cpu && device.index != 0)
      fail(Stage::argument, Code::invalid_argument, cat(name, " is cpu with index ", device.index, "; allowed: 0"));
  const bool to_device = dst_device.kind != DeviceKind::cpu, from_device = src_device.kind != DeviceKind::cpu;
  if (to_device && from_device && !(dst_device == src_device))
    fail(Stage::argument, Code::unsupported,
         cat("copy from ", to_string(src_device), " to ", to_string(dst_device),
             "; allowed are copies within a device or to and from cpu"));
  const Device device = to_device ? dst_device : src_device;
  used(impl_)->backends.driver(device)->copy(device.index, dst, to_device, src, from_device, bytes);
}

void Runtime::synchronize(Device device, Stream stream) {
  used(impl_)->backends.driver(device)->synchronize(device.index, stream);
}
double Runtime::time_ms(Device device, const std::function<void()>& work) {
  if (!work)
    fail(Stage::argument, Code::invalid_argument, "work is empty; allowed: a function that enqueues what is timed");
  return used(impl_)->backends.driver(device)->time_ms(device.index, work);
}

}  // namespace tj
