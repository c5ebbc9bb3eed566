// Steps of one kernel's ladder at several sizes as a log, JSON and Markdown.
//
// Decides columns, keys and layout. Measures nothing, and knows no step. Invariant: the three say the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/fmha_reference.hpp"
#include "common/schedule_changes.hpp"

namespace tj::samples {

/// One step at one sequence length.
struct StepResult {
  std::string step, name, description;   ///< "1", "basic", one sentence
  std::vector<std::string> key_changes;  ///< its changes from the step before, then their effect on the schedule
  std::string kernel;                    ///< KernelReport::name
  std::int64_t seq_len = 0;
  double latency_ms = 0, tflops = 0;
  double gain_baseline = 1, gain_previous = 1;  ///< how many times as fast
  FmhaComparison reference;                     ///< beside f64
  double baseline_error = 0;                    ///< ||o - baseline's o|| / ||baseline's o||
  bool right = false;
  ScheduleFacts schedule;
};

struct StepReport {
  std::string target, device;  ///< "sm_90", "cuda:0"
  bool on_model = false;
  std::int64_t batch = 0, heads = 0, head_dim = 0;
  DType dtype = DType::f16;
  bool causal = true;
  int iterations = 0, settle_ms = 0;
  std::uint64_t seed = 0;
  std::vector<StepResult> results;
  std::vector<std::string> log;  ///< lines

  bool right() const;
  std::string timing_text() const;
};

/// Lines for one result, and for the head of a run.
std::vector<std::string> step_lines(const StepReport& report, const StepResult& result);
std::vector<std::string> head_lines(const StepReport& report, const std::vector<std::int64_t>& seq_lens);
/// The table of all results.
std::vector<std::string> summary_lines(const StepReport& report);

std::string steps_json(const StepReport& report);
std::string steps_markdown(const StepReport& report);
std::string steps_log(const StepReport& report);

}  // namespace tj::samples
