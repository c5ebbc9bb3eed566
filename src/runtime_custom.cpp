// Users' own kernels in a runtime: found by the choice among their candidates, launched, tuned; see
// tilejit/custom.hpp.
//
// Decides how such a launch is put together. Does not decide what a description may be (custom/custom.hpp).
#include <tilejit/custom.hpp>

#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "custom/custom.hpp"
#include "graph_op.hpp"
#include "ops/common/graph_choice.hpp"
#include "runtime_impl.hpp"
#include "support/fail.hpp"
#include "support/uncancelled.hpp"
#include "support/walk_param.hpp"

namespace tj {

using support::cat;
using support::fail;

const CustomMaker& Runtime::Impl::keep(std::unique_ptr<CustomMaker> made) {
  const std::lock_guard lock(customs_mutex);
  auto& kept = customs[made->identity()];
  if (!kept) kept = std::move(made);
  return *kept;
}

namespace {

// Most bytes of a parameter whose blocks draw their tiles, the walk behind it included: CUDA and HIP take as many.
constexpr std::size_t kMaxDrawnBytes = 4096;

void check_params(const CustomMaker& maker, const LoadedKernel& kernel, const CustomLaunch& what) {
  const std::size_t taken = kernel.kernel->params_bytes(), walk = kernel.draws() ? sizeof(support::WalkParam) : 0;
  const std::size_t own = taken == 0 ? 0 : taken - walk,
                    given = kernel.draws() ? support::walk_offset(what.bytes) : what.bytes;
  const bool fits = !kernel.draws() || (what.bytes <= kMaxDrawnBytes && given + walk <= kMaxDrawnBytes);
  if (what.params != nullptr && what.bytes != 0 && fits && (own == 0 || own == given)) [[likely]]
    return;
  const std::string has = !fits      ? cat("at most ", kMaxDrawnBytes - walk, " bytes where blocks draw their tiles")
                          : own == 0 ? std::string("more")
                                     : cat(own, " bytes", kernel.draws() ? " or a little less" : "");
  fail(Stage::argument, Code::invalid_argument,
       cat("params of '", maker.request().name, "' is ",
           what.params == nullptr ? "null" : cat("of ", what.bytes, " bytes"), "; the kernel's params_type has ", has));
}

}  // namespace

int Runtime::Impl::choice_of(const CustomMaker& maker, Device device) {
  return maker.problem() == nullptr ? 0 : kernel_of(ops::graph_choice(), maker.problem_key(), device).choice;
}

const GraphOp& Runtime::Impl::graph_op(const CustomMaker& maker) {
  const std::lock_guard lock(customs_mutex);
  auto& kept = graph_ops[&maker];
  if (!kept) kept = std::make_unique<GraphOp>(maker);
  return *kept;
}

void Runtime::Impl::run(const CustomMaker& maker, Device device, const CustomLaunch& what, Stream stream) {
  constexpr unsigned kMaxBlocks = std::numeric_limits<std::int32_t>::max();  // of a grid's x, in CUDA and HIP
  const int choice = choice_of(maker, device);
  const auto small_key = static_cast<std::uint64_t>(choice);
  KernelTable::Hold kernel = table.find(hot_key(maker, small_key, device));
  if (!kernel) kernel = get(maker, maker.request_of(choice), small_key, device, stream);
  check_params(maker, *kernel, what);
  if (what.blocks == 0 || what.blocks > kMaxBlocks) [[unlikely]]
    fail(Stage::argument, Code::invalid_argument,
         cat("blocks of '", maker.request().name, "' is ", what.blocks, "; allowed: 1 to ", kMaxBlocks));
  if (what.blocks % kernel->shape.cluster != 0) [[unlikely]]
    fail(Stage::argument, Code::invalid_argument,
         cat("blocks of '", maker.request().name, "' is ", what.blocks, "; it must be a multiple of ",
             kernel->shape.cluster, ", the blocks of a cluster"));
  const support::ToolRange range = tell_launch(maker.name(), *kernel, what.blocks);
  note_graph(kernel, stream);
  if (!kernel->draws())
    return kernel->driver->launch(kernel->device, *kernel->kernel, kernel->config(what.blocks), what.params, what.bytes,
                                  stream);
  alignas(support::WalkParam) std::array<std::byte, kMaxDrawnBytes> params;
  std::memcpy(params.data(), what.params, what.bytes);
  const support::WalkMemory walk = support::walk_memory(kernel->shape, what.blocks);
  const std::shared_ptr<void> owner = walk_memory(*kernel, walk, device, stream);
  const std::size_t bytes = support::add_walk(params, what.bytes, {owner.get(), walk.zeroed}, what.blocks);
  kernel->driver->launch(kernel->device, *kernel->kernel, kernel->config(what.blocks), params.data(), bytes, stream);
}

void Runtime::Impl::encode(const CustomMaker& maker, Device device, const support::TensorMapDesc& desc, void* out) {
  const KernelTable::Hold kernel = table.find(hot_key(maker, 0, device));
  (kernel ? kernel->driver : backends.driver(device))->encode_tensor_map(device.index, desc, out);
}

namespace custom {

Kernel::Kernel(Runtime& runtime, const Description& description)
    : runtime_(runtime.impl_), maker_(&runtime_->keep(read_custom(description))) {}
Kernel::Kernel(const Description& description) : Kernel(Runtime::instance(), description) {}

KernelReport Kernel::prepare(Device device) const {
  const auto& maker = *static_cast<const CustomMaker*>(maker_);
  runtime_->tunings.refresh(device);
  const int choice = runtime_->choice_of(maker, device);
  return runtime_->report(maker, maker.request_of(choice), static_cast<std::uint64_t>(choice), device);
}
KernelReport Kernel::warm(std::string_view target) const {
  const auto& maker = *static_cast<const CustomMaker*>(maker_);
  return runtime_->kernel_maker.get(maker, maker.request(), runtime_->backends.named(target)).report;
}

TuneReport Kernel::tune(Device device, const TuneOptions& options) const {
  const support::Uncancelled whole;
  const auto& maker = *static_cast<const CustomMaker*>(maker_);
  if (maker.problem() == nullptr)
    fail(Stage::argument, Code::unsupported,
         cat("graph '", maker.request().name, "' has no candidates: there is nothing to measure"));
  const GraphOp& op = runtime_->graph_op(maker);
  return runtime_->tune(op, *maker.problem(), device, options);
}

TensorMap Kernel::tensor_map(const Tensor& tensor, const Box& box) const {
  const support::TensorMapDesc desc = describe(tensor, box);
  // Encoded here, not where the caller wants it: compilers do not align every temporary that a call returns into.
  alignas(TensorMap) std::byte encoded[sizeof(TensorMap)];
  try {
    runtime_->encode(*static_cast<const CustomMaker*>(maker_), tensor.device, desc, encoded);
  } catch (const Error& e) {
    if (e.code != Code::invalid_argument) throw;
    fail(Stage::argument, e.code, e.message + " (its dimensions are counted from the innermost)");
  }
  TensorMap map;
  std::memcpy(&map, encoded, sizeof(map));
  return map;
}

unsigned Kernel::sm_count(Device device) const {
  return static_cast<unsigned>(runtime_->backends.driver(device)->device_info(device.index).sm_count);
}

void Kernel::launch_bytes(Device device, const void* params, std::size_t bytes, unsigned blocks, Stream stream) const {
  runtime_->run(*static_cast<const CustomMaker*>(maker_), device, {params, bytes, blocks}, stream);
}

}  // namespace custom

}  // namespace tj
