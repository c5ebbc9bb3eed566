// tj-bench --timeline: when a kernel's roles came to their nodes and waits, beside when the schedule says.
//
// Decides the command line, what is printed, and what a trace and a picture show. Does not decide what is recorded
// (codegen/record.hpp), nor how a kernel is run (timeline_run).
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "tools/timeline_compare.hpp"
#include "tools/timeline_records.hpp"
#include "tools/timeline_run.hpp"

namespace tj::tools {

/// Runs all of it but the process. words: without the program's name and --timeline. Returns 0, 1 (it did not run, or
/// what was recorded is not the schedule) or 2 (bad use); throws nothing.
int timeline(const std::vector<std::string>& words, std::ostream& out, std::ostream& err);

/// The records of a run, read and checked.
struct MeasuredTimeline {
  RecordedRun run;
  std::vector<BlockSpans> blocks;
  Comparison comparison;
  const graph::Graph& graph() const { return run.made.choice.candidate.graph; }
  const sched::Schedule& schedule() const { return run.made.choice.schedule; }
  const char* unit() const { return run.on_model ? "steps" : "cycles"; }
};
/// Throws tj::Error(launch, internal) where records are not complete, or not in the schedule's order.
MeasuredTimeline measure_timeline(RecordedRun run);

/// The meaning of each kind of bar, a sentence a line, for whoever reads a trace or a picture.
std::vector<std::string> bar_meanings(bool on_model);

/// Chrome trace events, of which Perfetto makes a page. Each block has a process of what was predicted and one of what
/// was measured; each role is a thread. One microsecond is a cycle; on the model one of what was measured is a step.
std::string timeline_trace(const MeasuredTimeline& measured);

/// Some iterations in the middle of the longest tile that a block recorded whole: of each role what was predicted, and
/// below it what was measured.
std::string timeline_svg(const MeasuredTimeline& measured, std::size_t block, int iterations);

void print_timeline(const MeasuredTimeline& measured, std::ostream& out);

}  // namespace tj::tools
