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

/// Copies of a value that were to be issued so many iterations before their use.
struct LatencyHint {
  std::string value;         ///< "k"
  int asked = 0, given = 0;  ///< whole iterations; given is what the schedule has
  std::string load, use;     ///< nodes: that of the copy, and its first reader without the number of its copy
  int slots = 0;             ///< of the value's ring
  bool met() const { return given >= asked; }
};

/// The hints beside what a schedule has: whole iterations from the issue of a copy to its use.
std::vector<LatencyHint> latency_hints(const std::vector<LatencyHint>& asked, const ScheduleFacts& schedule);
/// Sentences on those that are not met.
std::vector<std::string> dropped_hints(const std::vector<LatencyHint>& hints);

/// One step at one sequence length.
struct StepResult {
  std::string step, name, description;   ///< "1", "basic", one sentence
  int number = 0;                        ///< the tutorial's, in JSON and Markdown
  std::vector<std::string> key_changes;  ///< its changes from the step before, then their effect on the schedule
  std::string kernel;                    ///< KernelReport::name; of another library, what it calls itself
  std::int64_t seq_len = 0;
  double latency_ms = 0;  ///< of a call among calls in a row
  double graph_ms = 0;    ///< of a call in a graph that is replayed; 0: not timed so
  double tflops = 0;
  double gain_baseline = 0, gain_previous = 0;  ///< how many times as fast; 0: there is nothing to compare with
  bool checked = true;                          ///< false: nobody asked for a comparison
  FmhaComparison reference;                     ///< beside f64
  double baseline_error = -1;                   ///< ||o - first rung's o|| / ||first rung's o||; -1: not compared
  std::int64_t baseline_apart = 0;              ///< elements that are not close to the first rung's
  bool right = false;
  std::string failed;   ///< why it ended before its end; empty: it did not
  std::string skipped;  ///< why it did not run, where that is no failure
  std::vector<LatencyHint> hints;
  ScheduleFacts schedule;
  double predicted_ms = 0;                          ///< by the schedule; 0: unknown
  double predicted_tflops = 0, predicted_gain = 0;  ///< of that; the latter over the step before, 0: nothing
  std::string slower;                               ///< why it is slower than the step before; empty: it is not

  bool ran() const { return failed.empty() && skipped.empty(); }
  /// The time that gains and rates are of: that in a graph, where there is one.
  double ms() const { return graph_ms > 0 ? graph_ms : latency_ms; }
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

  /// Were the results right of all steps that ran?
  bool right() const;
  bool any_ran() const;
  bool any_failed() const;
  std::string timing_text() const;
};

/// Sets rates and gains of one length's results, in their order, measured and predicted. The baseline is the first that
/// ran. `timed`: times are a device's, so one that is slower gets its reason.
void set_gains(std::vector<StepResult>& results, double flops, bool timed);

/// Lines for one result, and for the head of a run.
std::vector<std::string> step_lines(const StepReport& report, const StepResult& result);
std::vector<std::string> head_lines(const StepReport& report, const std::vector<std::int64_t>& seq_lens);
/// The table of all results.
std::vector<std::string> summary_lines(const StepReport& report);

/// Each result has the tutorial's keys: step, name, description, latency_ms, tflops, speedup_vs_baseline,
/// speedup_vs_previous, correct, key_changes; and more of this sample's. Steps that failed or did not run stand in
/// not_run, in the place of results. The report has logs.
std::string steps_json(const StepReport& report);
/// The tutorial's table and its detailed steps for each length, then a table with more columns.
std::string steps_markdown(const StepReport& report);
std::string steps_log(const StepReport& report);

}  // namespace tj::samples
