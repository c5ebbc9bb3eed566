// The calls of ops: by their descriptors and configurations, by name, by flags.
//
// Decides which op a call is for, and nothing else: how it is served is runtime.cpp's. Knows no op by name.
#include <tilejit/ladder.hpp>
#include <tilejit/preparation.hpp>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ops/common/op_flags.hpp"
#include "ops/common/tunable.hpp"
#include "runtime_impl.hpp"
#include "support/fail.hpp"

namespace tj {

using support::cat;
using support::fail;

namespace {

/// An op by name, with a descriptor that somebody points at.
const ops::Op& op_for(std::string_view name, const void* args) {
  const ops::Op& op = detail::find_op(name);
  if (args == nullptr)
    fail(Stage::argument, Code::invalid_argument,
         cat("args of '", name, "' is null; it must point at the op's descriptor"));
  return op;
}

}  // namespace

void Runtime::run(const ops::Op& op, const void* args, Stream stream) { used(impl_)->run(op, args, stream); }
void Runtime::run(std::string_view op, const void* args, Stream stream) { run(op_for(op, args), args, stream); }
Plan Runtime::plan(std::string_view op, const void* args) { return plan(op_for(op, args), args); }

KernelReport Runtime::prepare(const ops::Op& op, const void* args) { return used(impl_)->prepare(op, args); }
KernelReport Runtime::prepare(std::string_view op, const void* args) { return prepare(op_for(op, args), args); }
KernelReport Runtime::prepare_config(const ops::Op& op, const void* config, Device device) {
  return used(impl_)->prepare(op.needed_kernels(config, used(impl_)->choosing(op, device)), device).back();
}
std::vector<KernelReport> Runtime::prepare_flags(std::string_view name, std::string_view flags, Device device) {
  return used(impl_)->prepare(used(impl_)->needed_kernels(detail::find_op(name), flags, device), device);
}

Preparation& Preparation::add(std::string_view op, const void* args) { return add(op_for(op, args), args); }

KernelReport Runtime::warm_config(const ops::Op& op, const void* config, std::string_view target) {
  const arch::Target parsed = used(impl_)->backends.named(target);
  return used(impl_)->warm(op.needed_kernels(config, Impl::choosing(op, parsed)), parsed).back();
}
std::vector<KernelReport> Runtime::warm_flags(std::string_view name, std::string_view flags, std::string_view target) {
  const ops::Op& op = detail::find_op(name);
  const arch::Target parsed = used(impl_)->backends.named(target);
  return used(impl_)->warm(op.needed_kernels(ops::flags_of_text(flags), *parsed.arch, Impl::choosing(op, parsed)),
                           parsed);
}
KernelReport Runtime::warm_op(const ops::Request& request, std::string_view target) {
  return used(impl_)
      ->kernel_maker.get(detail::find_op(request.op), request, used(impl_)->backends.named(target))
      .report;
}

KernelReport Runtime::warm_op(const ops::Request& request, Device device) {
  const ops::Op& op = detail::find_op(request.op);
  arch::Target target = used(impl_)->backends.target(device, op);
  return used(impl_)->kernel_maker.get_for(op, request, target, device).report;
}

TuneReport Runtime::tune_op(std::string_view op, const ops::Problem& problem, Device device,
                            const TuneOptions& options) {
  return used(impl_)->tune(detail::find_op(op), problem, device, options);
}
TuneReport Runtime::tune(const ops::Op& op, const void* args, const TuneOptions& options) {
  return used(impl_)->tune(op, args, options);
}
TuneReport Runtime::tune(std::string_view op, const void* args, const TuneOptions& options) {
  return tune(op_for(op, args), args, options);
}

void Ladder::run(const ops::Op& op, const void* args, int rung, Stream stream) {
  used(runtime_->impl_)->run_rung(op, args, rung, stream);
}
void Ladder::run(std::string_view op, const void* args, int rung, Stream stream) {
  run(op_for(op, args), args, rung, stream);
}
std::function<double()> Ladder::record(const ops::Op& op, const void* args, int rung, int calls) {
  if (calls < 1) fail(Stage::argument, Code::invalid_argument, cat("calls is ", calls, "; allowed: 1 and up"));
  const Device device = op.device_of(args);
  std::shared_ptr<launch::Driver> driver = used(runtime_->impl_)->backends.driver(device);
  std::shared_ptr<launch::Recording> recording = driver->record(device.index, [&](Stream stream) {
    for (int call = 0; call < calls; ++call) run(op, args, rung, stream);
  });
  return [driver = std::move(driver), recording = std::move(recording), index = device.index] {
    return driver->time_ms(index, [&] { recording->replay({}); });
  };
}
KernelReport Ladder::prepare(const ops::Op& op, const void* args, int rung) {
  return used(runtime_->impl_)->prepare(op, args, rung);
}
KernelReport Ladder::prepare(std::string_view op, const void* args, int rung) {
  return prepare(op_for(op, args), args, rung);
}
KernelReport Ladder::prepare_config(const ops::Op& op, const void* config, int rung, Device device) {
  Runtime::Impl& impl = *used(runtime_->impl_);
  impl.tunings.refresh(device);
  const ops::ChooseKernel choose{
      [&](const ops::ProblemKey& problem) { return impl.rung_kernel(op, problem, rung, device); },
      [&]() -> const arch::Arch& { return impl.backends.arch(device, op); }};
  return impl.prepare(op.needed_kernels(config, choose), device).back();
}

}  // namespace tj
