// A kernel as the library emits it for a graph, on the model, with sites switched off. Tests look at what the model
// notices.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "codegen/load_unit.hpp"
#include "model/model.hpp"
#include "ops/op.hpp"
#include "sched/schedule.hpp"

namespace tj::test {

class EmittedKernel {
 public:
  EmittedKernel(const graph::Graph& graph, const sched::Options& options)
      : EmittedKernel(graph, sched::schedule(graph, options)) {}
  EmittedKernel(const graph::Graph& graph, const sched::Schedule& schedule,
                const arch::Arch& arch = *arch::find("sm_90a"))
      : waits_itself_(graph.machine.overlapped_launch) {
    unit = codegen::emit(graph, schedule, arch.primitives);
    kernel_ = test::load_unit(*driver_, unit, arch.name);
  }

  /// "" when the launch ended without a fault, else the fault. memory: all that it may touch; empty: not known.
  std::string launch(ops::LaunchPlan& plan, unsigned blocks, std::uint64_t seed, std::vector<int> disabled,
                     std::span<const support::MemoryRange> memory = {}) {
    model::ModelOptions options;
    options.seed = seed;
    options.disabled_sites = std::move(disabled);
    driver_->set_options(options);
    for (std::size_t m = 0; m < plan.map_count; ++m)
      driver_->encode_tensor_map(0, plan.maps[m].desc, plan.params.data() + plan.maps[m].offset);
    try {
      driver_->launch(0, *kernel_, {{blocks, 1, 1}, unit.shape, waits_itself_, memory}, plan.params.data(),
                      plan.params_bytes, {});
    } catch (const Error& e) {
      return e.message;
    }
    return {};
  }

  codegen::Unit unit;

 private:
  bool waits_itself_;  ///< for the grids before
  std::shared_ptr<model::ModelDriver> driver_ = model::open_model_driver();
  std::shared_ptr<launch::Kernel> kernel_;
};

}  // namespace tj::test
