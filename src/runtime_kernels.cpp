// The first call of a kind: kernels that are made, found on disk or prepared, and come into the table. Knows no op by
// name.
//
// Decides which calls obey Options::on_miss, and what replaces a quick kernel. Who makes a kernel when several ask at
// once is maker.hpp's. Invariants: nothing is made inside a graph capture; who asked for the best kernel gets no quick
// one.
#include "runtime_impl.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ops/common/op_flags.hpp"
#include "placement.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/process_end.hpp"
#include "support/seconds.hpp"
#include "support/uncancelled.hpp"

namespace tj {

using support::cat;
using support::fail;

KernelTable::Hold Runtime::Impl::get(const ops::Maker& op, const ops::Request& request, std::uint64_t small_key,
                                     Device device, Stream stream) {
  const support::Uncancelled whole;
  if (KernelTable::Hold settled = table.find_settled(hot_key(op, small_key, device))) return settled;
  if (backends.driver(device)->capturing(device.index, stream))
    fail(
        Stage::load, Code::cold_in_capture,
        cat("'", request.name,
            "' is not prepared and the stream is capturing a graph; call tj::prepare() with the same arguments "
            "before the capture",
            settings.code_max_size_bytes != 0 ? ", and keep a plan of the call, as the bound TJ_CODE_MAX_SIZE may have "
                                                "had the kernel unloaded"
                                              : "",
            ". The capture goes on"));
  if (settings.on_miss == MissPolicy::quick) upgrades->go_on();
  return load(op, request, small_key, device, settings.on_miss);
}

KernelTable::Hold Runtime::Impl::load(const ops::Maker& op, const ops::Request& request, std::uint64_t small_key,
                                      Device device, MissPolicy on_miss, KernelReport* how) {
  const support::Uncancelled whole;
  const HotKey key = hot_key(op, small_key, device);
  arch::Target target = backends.target(device, op);  // before the driver: a wrong target is the better thing to say
  const auto driver = backends.driver(device);
  if (on_miss == MissPolicy::quick && workers.stopped()) on_miss = MissPolicy::wait;
  const Artifact artifact = kernel_maker.get_for(op, request, target, device, on_miss);
  if (how != nullptr) *how = artifact.report;
  if (KernelTable::Hold present = table.find(key); present && (!present->quick || artifact.quick)) return present;
  auto kernel = artifact.quick ? load_quick(op, request, target, driver, device, artifact)
                               : load(op, request, target, driver, device, artifact, on_miss);
  if (how != nullptr) *how = kernel->report;
  return insert(op, request, small_key, device, target, std::move(kernel));
}

KernelTable::Hold Runtime::Impl::insert(const ops::Maker& op, const ops::Request& request, std::uint64_t small_key,
                                        Device device, const arch::Target& target,
                                        std::unique_ptr<LoadedKernel> kernel) {
  KernelTable::Kept outcome;
  const std::uint64_t code_bytes = kernel->code_bytes;
  KernelTable::Hold kept = table.insert(hot_key(op, small_key, device), std::move(kernel), &outcome);
  if (outcome == KernelTable::Kept::present) kernel_maker.count_unloaded(1, code_bytes);  // another thread's came first
  if (outcome == KernelTable::Kept::replaced) kernel_maker.count_replaced();
  if (outcome == KernelTable::Kept::own && kept->quick) {
    kernel_maker.count_quick();
    replace_later(op, request, small_key, device, target);
  }
  if (settings.code_max_size_bytes != 0) unload(device, settings.code_max_size_bytes);
  return kept;
}

/// One that the driver does not load, as may be for want of registers, is no reason for the call to fail.
std::unique_ptr<LoadedKernel> Runtime::Impl::load_quick(const ops::Maker& op, const ops::Request& request,
                                                        const arch::Target& target,
                                                        const std::shared_ptr<launch::Driver>& driver, Device device,
                                                        const Artifact& artifact) {
  try {
    return load(op, request, target, driver, device, artifact);
  } catch (const Error& error) {
    log(LogLevel::info,
        cat("a quick ", request.name, " does not load, so the call waits for the best one: ", error.message));
  }
  return load(op, request, target, driver, device, kernel_maker.best(op, request, target));
}

void Runtime::Impl::replace_later(const ops::Maker& op, const ops::Request& request, std::uint64_t small_key,
                                  Device device, const arch::Target& target) {
  const auto remains = [this, name = request.name](const std::string& why) {
    log(LogLevel::warn,
        cat("the best kernel of ", name, " could not be made in the background, so the quick one stays: ", why));
  };
  try {
    upgrades->add([this, &op, request, small_key, device, target, remains] {
      try {
        const HotKey key = hot_key(op, small_key, device);
        const auto driver = backends.driver(device);
        KernelTable::Kept outcome;
        auto kernel = load(op, request, target, driver, device, kernel_maker.best(op, request, target));
        const std::uint64_t code_bytes = kernel->code_bytes;
        table.insert(key, std::move(kernel), &outcome);
        if (outcome == KernelTable::Kept::present) kernel_maker.count_unloaded(1, code_bytes);
        if (settings.code_max_size_bytes != 0) unload(device, settings.code_max_size_bytes);
        if (outcome != KernelTable::Kept::replaced) return;  // by a call that asked for it
        kernel_maker.count_replaced();
        log(LogLevel::info, cat("the best kernel of ", request.name, " serves instead of the quick one"));
      } catch (const std::exception& error) {
        remains(error.what());
      }
    });
  } catch (const Error& error) {
    remains(error.message);
  }
}

std::unique_ptr<LoadedKernel> Runtime::Impl::load(const ops::Maker& op, const ops::Request& request,
                                                  const arch::Target& target,
                                                  const std::shared_ptr<launch::Driver>& driver, Device device,
                                                  const Artifact& artifact, MissPolicy on_miss, const Error* refused) {
  const support::Seconds taken;
  auto kernel = kernel_maker.load(op, request, target, driver, device.index, artifact, on_miss, refused);
  kernel->report.load_ms = taken.so_far() * 1e3;
  return kernel;
}

KernelReport Runtime::Impl::prepare(const ops::Op& op, const void* args, std::optional<int> rung) {
  Placement placement(op, args);
  if (placement.any_null()) args = placement.get();
  const Device device = op.device_of(args);
  op.validate(args, backends.on_model(device));
  if (op.asks_for_nothing(args)) return {};
  tunings.refresh(device);
  const ops::ProblemKey problem = op.problem_key(args);
  return load_steps({&op, args, rung ? rung_kernel(op, problem, *rung, device) : kernel_of(op, problem, device)},
                    device);
}

ops::Kernel Runtime::Impl::rung_kernel(const ops::Op& op, const ops::ProblemKey& problem, int rung, Device device) {
  return ops::rung_kernel(op, problem, rung, backends.arch(device, op), [&] { return kernel_of(op, problem, device); });
}

KernelReport Runtime::Impl::load_steps(const ops::Step& call, Device device, MissPolicy on_miss) {
  KernelReport standing;
  ops::OwnStep own(*call.op);
  call.op->steps(call.args, call.kernel, ops::nowhere(), [&](const ops::Step& step) {
    KernelReport each = report(*step.op, step.op->request_of(step.kernel), step.kernel.small_key, device, on_miss);
    if (own.is(step)) standing = std::move(each);
  });
  return standing;
}

ops::Kernel Runtime::Impl::prepared_kernel(const ops::Op& op, const ops::ProblemKey& problem, Device device) {
  tunings.refresh(device);
  return kernel_of(op, problem, device);
}

ops::ChooseKernel Runtime::Impl::choosing(const ops::Op& op, Device device) {
  const auto arch = [this, &op, device]() -> const arch::Arch& { return backends.arch(device, op); };
  return {[this, &op, device, arch](const ops::ProblemKey& problem) {
            arch();  // before a driver is opened: a wrong target is the better thing to say
            return prepared_kernel(op, problem, device);
          },
          arch};
}
ops::ChooseKernel Runtime::Impl::choosing(const ops::Op& op, const arch::Target& target) {
  return {[&op, arch = target.arch](const ops::ProblemKey& problem) { return op.choose(problem, *arch); },
          [arch = target.arch]() -> const arch::Arch& { return *arch; }};
}

std::vector<ops::NeededKernel> Runtime::Impl::needed_kernels(const ops::Op& op, std::string_view flags, Device device) {
  const ops::Flags given = ops::flags_of_text(flags);
  return op.needed_kernels(given, backends.arch(device, op), choosing(op, device));
}

/// Work that is shared by threads: who comes later finds none left, and touches neither the runtime nor the results.
/// Nothing is made here: what the driver refuses is left to the caller's thread, and so is, in a child that a function
/// of the user's forks, all that other threads had begun.
class Runtime::Impl::FoundOnDisk {
 public:
  FoundOnDisk(Impl& runtime, const std::vector<ops::NeededKernel>& kernels, Device device)
      : runtime_(runtime), kernels_(kernels), device_(device), results_(kernels.size()), done_(kernels.size()) {}

  void work() {
    if (in_child()) return;  // nobody waits for this thread there
    for (std::size_t at; (at = next_.fetch_add(1)) < kernels_.size();) {
      const auto gone = [this, at] { tell(at); };
      const support::IfExitComes if_exit_comes(gone);
      try {
        if (!is_again(at)) load(kernels_[at], results_[at]);
      } catch (abi::__forced_unwind&) {  // the thread ends in a function of the user's; nobody waits for its kernel
        tell(at);
        throw;
      } catch (...) {  // the caller's thread meets it again
      }
      tell(at);
    }
  }
  std::vector<OnDisk> wait() {
    std::vector<OnDisk> results(kernels_.size());
    for (std::size_t at = 0; at < kernels_.size(); ++at)
      if (is_done(at)) results[at] = std::move(results_[at]);
    return results;
  }

 private:
  bool in_child() const { return generation_ != support::process_generation(); }
  void tell(std::size_t at) {
    done_[at].store(true);
    bell_.ring();
  }
  /// Waits for the thread that does it. False where that one stayed in the parent.
  bool is_done(std::size_t at) {
    for (;;) {
      const std::uint32_t rung = bell_.rung();
      if (done_[at].load()) return true;
      if (in_child()) return false;
      bell_.wait(rung, std::chrono::seconds(1));
    }
  }
  bool is_again(std::size_t at) const {
    const auto same = [&](const ops::NeededKernel& each) {
      return each.op == kernels_[at].op && each.kernel == kernels_[at].kernel;
    };
    return std::any_of(kernels_.begin(), kernels_.begin() + static_cast<std::ptrdiff_t>(at), same);
  }
  void load(const ops::NeededKernel& needed, OnDisk& result) {
    const ops::Op& op = *needed.op;
    const std::uint64_t small_key = needed.kernel.small_key;
    if (runtime_.table.find(hot_key(op, small_key, device_))) return;
    const ops::Request request = op.request_of(needed.kernel);
    const arch::Target target = runtime_.backends.target(device_, op);
    const auto driver = runtime_.backends.driver(device_);
    result.artifact = runtime_.kernel_maker.find(op, request, target);
    if (!result.artifact) return;
    const support::Seconds taken;
    std::unique_ptr<LoadedKernel> kernel;
    try {
      kernel = runtime_.kernel_maker.load_once(op, request, target, driver, device_.index, *result.artifact);
    } catch (const Error& error) {
      if (error.code == Code::unsupported) result.refused = error;
      return;
    }
    kernel->report.load_ms = taken.so_far() * 1e3;
    KernelReport report = kernel->report;
    runtime_.insert(op, request, small_key, device_, target, std::move(kernel));
    result.report = std::move(report);
    result.artifact.reset();
  }

  Impl& runtime_;
  const std::vector<ops::NeededKernel> kernels_;
  const Device device_;
  const std::uint32_t generation_ = support::process_generation();
  std::atomic<std::size_t> next_{0};
  support::Bell bell_;
  std::vector<OnDisk> results_;
  std::vector<std::atomic<bool>> done_;  ///< results that stay as they are
};

std::vector<Runtime::Impl::OnDisk> Runtime::Impl::load_found(const std::vector<ops::NeededKernel>& kernels,
                                                             Device device) {
  if (store == nullptr || kernels.size() < 2) return std::vector<OnDisk>(kernels.size());
  const auto found = std::make_shared<FoundOnDisk>(*this, kernels, device);
  const std::size_t helpers = std::min<std::size_t>(kLoadThreads, kernels.size()) - 1;
  try {
    for (std::size_t i = 0; i < helpers; ++i) loads->add([found] { found->work(); });
  } catch (const Error&) {  // the system gives no thread
  }
  found->work();
  return found->wait();
}

std::vector<KernelReport> Runtime::Impl::prepare(const std::vector<ops::NeededKernel>& kernels, Device device) {
  const support::Uncancelled whole;
  std::vector<OnDisk> found = load_found(kernels, device);
  std::vector<KernelReport> reports;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const ops::Op& op = *kernels[i].op;
    const ops::Kernel& kernel = kernels[i].kernel;
    if (found[i].report)
      reports.push_back(std::move(*found[i].report));
    else if (found[i].artifact && !table.find(hot_key(op, kernel.small_key, device)))
      reports.push_back(load_again(op, kernel, device, found[i]));
    else
      reports.push_back(report(op, kernel, device));
  }
  return reports;
}

KernelReport Runtime::Impl::load_again(const ops::Op& op, const ops::Kernel& kernel, Device device,
                                       const OnDisk& found) {
  const ops::Request request = op.request_of(kernel);
  const arch::Target target = backends.target(device, op);
  auto loaded = load(op, request, target, backends.driver(device), device, *found.artifact, MissPolicy::wait,
                     found.refused ? &*found.refused : nullptr);
  KernelReport report = loaded->report;
  insert(op, request, kernel.small_key, device, target, std::move(loaded));
  return report;
}

std::vector<KernelReport> Runtime::Impl::warm(const std::vector<ops::NeededKernel>& kernels,
                                              const arch::Target& target) {
  std::vector<KernelReport> reports;
  for (const ops::NeededKernel& needed : kernels)
    reports.push_back(kernel_maker.get(*needed.op, needed.op->request_of(needed.kernel), target).report);
  return reports;
}

KernelReport Runtime::Impl::report(const ops::Op& op, const ops::Kernel& kernel, Device device) {
  return report(op, op.request_of(kernel), kernel.small_key, device);
}

KernelReport Runtime::Impl::report(const ops::Maker& op, const ops::Request& request, std::uint64_t small_key,
                                   Device device, MissPolicy on_miss) {
  const KernelTable::Hold kernel = table.find(hot_key(op, small_key, device));
  if (kernel && !kernel->quick) return without_times(kernel->report, KernelOrigin::memory);
  KernelReport how;  // this call's own: another thread may have made the kernel that is kept
  load(op, request, small_key, device, on_miss, &how);
  return how;
}

}  // namespace tj
