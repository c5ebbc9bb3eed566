// See timeline_run.hpp.
#include "tools/timeline_run.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "backends.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/tunable.hpp"
#include "ops/common/workloads.hpp"
#include "ops/op.hpp"
#include "prepared.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "tools/bench_memory.hpp"
#include "tools/facts.hpp"
#include "tools/options.hpp"

namespace tj::tools {
namespace {

using support::cat;

constexpr std::size_t kParamsAlignment = 64;

/// A launch's parameter, and where records go behind it.
struct alignas(kParamsAlignment) ParamBytes {
  std::array<std::byte, ops::LaunchPlan::kMaxParamsBytes + 2 * kParamsAlignment> bytes{};
};

class Runner {
 public:
  Runner(const TimelineProblem& problem, const support::Log& log)
      : problem_(problem),
        log_(log),
        settings_(settings_of(problem)),
        backends_(settings_, log_),
        op_(problem.graph != nullptr ? *problem.graph : find_op(problem.op)),
        device_(backends_.default_device()),
        target_(backends_.target(device_, op_)),
        driver_(backends_.driver(device_)) {
    if (problem.needs_device && target_.model)
      support::fail(Stage::target, Code::not_found,
                    cat("cycles of node bodies are measured on a GPU, and there is none here that is served; --target ",
                        target_.name(), " counts steps of the CPU model, which are no cycles"));
    run_.on_model = target_.model;
    run_.target = target_.name();
    run_.device = driver_->device_info(device_.index).name;
  }

  RecordedRun run() {
    const ops::Trial trial = trial_of();
    run_.problem = trial.name;
    WorkloadMemory(trial, *driver_, device_, problem_.seed).with_args([&](const void* args) { run_args(trial, args); });
    return std::move(run_);
  }

 private:
  static support::Settings settings_of(const TimelineProblem& problem) {
    Options options;
    if (!problem.target.empty()) options.target = problem.target;
    options.use_disk_cache = false;
    set_facts(options.facts_file, problem.facts);
    if (problem.seed != 1) options.model_seed = problem.seed;
    return support::resolve_settings(options);
  }

  /// The first of those that the flags name: of a tool that shows one kernel. What keeps a device busy takes the model
  /// too long.
  ops::Trial trial_of() const {
    std::vector<ops::Trial> trials;
    if (problem_.graph != nullptr)
      trials = problem_.graph->timed_trials(problem_.flags, *target_.arch);
    else if (run_.on_model)
      trials = op_.trials(problem_.flags, *target_.arch);
    else
      for (ops::Workload& workload : ops::workloads(op_, problem_.flags, *target_.arch))
        trials.push_back(std::move(workload.trial));
    if (trials.empty())
      support::fail(Stage::argument, Code::unsupported,
                    cat("op '", op_.name(), "' has no problem of these flags for ", target_.name()));
    return std::move(trials.front());
  }

  void copy_in(void* to, const void* from, std::size_t bytes) {
    driver_->copy(device_.index, to, !run_.on_model, from, false, bytes);
  }
  std::unique_ptr<LoadedKernel> load(const Artifact& artifact) {
    return loaded_kernel(driver_, device_.index, *target_.arch, artifact);
  }

  /// A launch of the call; one of them is also there with marks.
  struct Made {
    const ops::Op* op;
    ops::Request request;
    std::unique_ptr<LoadedKernel> plain;
    int registers = 0;
    bool marked = false;
  };

  void run_args(const ops::Trial& trial, const void* args) {
    op_.validate(args, run_.on_model);
    const ops::Kernel kernel = ops::resolve(op_, args, trial.choice, *target_.arch);
    if (problem_.graph != nullptr) {
      run_.candidate = problem_.graph->candidate_of(kernel.choice);
      run_.form = problem_.graph->resolved(kernel.choice, *target_.arch);
    }
    std::vector<Made> steps;
    const auto scratch = driver_->allocate(device_.index, op_.scratch_bytes(args, kernel));
    std::size_t own_place = 0;
    ops::OwnStep own(op_);
    op_.steps(args, kernel, scratch.get(), [&](const ops::Step& step) {
      if (own.is(step)) own_place = steps.size();
      steps.push_back(make_step(step));
    });
    make_marked(steps[own_place]);
    run_.warps = recording_->shape.threads / static_cast<unsigned>(target_.arch->warp_size);
    run_.warp_records = problem_.warp_records;
    const auto all = [&](bool marked) {
      std::size_t next = 0;
      op_.steps(args, kernel, scratch.get(), [&](const ops::Step& step) { launch(steps[next++], step, marked); });
    };
    const std::size_t bytes = std::size_t{problem_.blocks} * run_.warps * run_.warp_records * sizeof(codegen::Record);
    run_.records.assign(bytes / sizeof(codegen::Record), {});
    buffer_ = driver_->allocate(device_.index, bytes);
    if (!run_.on_model) time_both(all);
    copy_in(buffer_.get(), run_.records.data(), bytes);
    all(true);
    driver_->synchronize(device_.index, {});
    driver_->copy(device_.index, run_.records.data(), false, buffer_.get(), !run_.on_model, bytes);
    require_blocks();
  }

  void time_both(const std::function<void(bool)>& all) {
    for (const bool marked : {false, true}) {
      all(marked);
      (marked ? run_.recording_ms : run_.ms) = driver_->time_ms(device_.index, [&] {
        for (int i = 0; i < problem_.launches; ++i) all(marked);
      }) / std::max(1, problem_.launches);
    }
  }

  Made make_step(const ops::Step& step) {
    const ops::Request request = step.op->request_of(step.kernel);
    const Artifact plain = make(*step.op, request, target_, backends_.compiler(target_), settings_, log_);
    return {step.op, request, load(plain), plain.report.registers, false};
  }
  void make_marked(Made& step) {
    step.marked = true;
    run_.made = make_recording(*step.op, step.request, target_, backends_.compiler(target_), settings_, log_);
    run_.kernel = step.request.name;
    run_.registers = step.registers;
    run_.recording_registers = run_.made.artifact.report.registers;
    recording_ = load(run_.made.artifact);
  }

  void launch(const Made& made, const ops::Step& step, bool marked) {
    const bool records = marked && made.marked;
    const LoadedKernel& loaded = records ? *recording_ : *made.plain;
    ops::LaunchPlan plan;
    plan_launch(step, loaded, plan, [&](const support::WalkMemory& memory) {
      if (memory != walk_memory_) walk_ = make_walk_memory(*driver_, device_.index, memory);
      walk_memory_ = memory;
      return support::WalkPlace{walk_.get(), memory.zeroed};
    });
    ParamBytes params;
    std::memcpy(params.bytes.data(), plan.params.data(), plan.params_bytes);
    std::size_t params_bytes = plan.params_bytes;
    if (records) {
      run_.grid = plan.blocks;
      run_.first_block = problem_.first_block;
      run_.blocks =
          problem_.first_block < plan.blocks ? std::min(problem_.blocks, plan.blocks - problem_.first_block) : 0;
      params_bytes = add_records(params, params_bytes, loaded);
    }
    driver_->launch(device_.index, *loaded.kernel, loaded.config(plan), params.bytes.data(), params_bytes, {});
  }

  /// Returns the bytes of both. Some drivers tell how many the kernel takes; others read as many as it says.
  std::size_t add_records(ParamBytes& params, std::size_t params_bytes, const LoadedKernel& loaded) const {
    codegen::RecordsParam records;
    records.buffer = reinterpret_cast<std::uint64_t>(buffer_.get());
    records.first_block = problem_.first_block;
    records.blocks = problem_.blocks;
    records.warps = static_cast<std::uint32_t>(run_.warps);
    records.warp_bytes = static_cast<std::uint32_t>(run_.warp_records * sizeof(codegen::Record));
    const std::size_t offset = codegen::records_offset(params_bytes);
    std::memcpy(params.bytes.data() + offset, &records, sizeof(records));
    const std::size_t known = loaded.kernel->params_bytes();
    if (known != 0 && known < offset + sizeof(records))
      support::fail(Stage::launch, Code::internal,
                    cat("the recording kernel takes a parameter of ", known, " bytes, and records begin behind ",
                        offset, " of them"));
    return known != 0 ? known : (offset + sizeof(records) + kParamsAlignment - 1) / kParamsAlignment * kParamsAlignment;
  }

  void require_blocks() const {
    if (run_.blocks == 0)
      support::fail(Stage::argument, Code::invalid_argument,
                    cat("--first-block is ", problem_.first_block, "; the launch of ", run_.problem, " has ", run_.grid,
                        " blocks, counted from 0"));
    const auto written = [](const codegen::Record& record) { return record.word != 0; };
    if (std::none_of(run_.records.begin(), run_.records.end(), written))
      support::fail(Stage::launch, Code::internal, cat("the kernel ran on ", run_.device, " and wrote no record"));
  }

  const TimelineProblem& problem_;
  const support::Log& log_;
  const support::Settings settings_;
  Backends backends_;
  const ops::Op& op_;
  const Device device_;
  const arch::Target target_;
  const std::shared_ptr<launch::Driver> driver_;
  RecordedRun run_;
  std::unique_ptr<LoadedKernel> recording_;
  std::shared_ptr<void> buffer_, walk_;
  support::WalkMemory walk_memory_;
};

}  // namespace

RecordedRun run_recorded(const TimelineProblem& problem, const support::Log& log) { return Runner(problem, log).run(); }

}  // namespace tj::tools
