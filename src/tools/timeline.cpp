// Command line of a timeline; see timeline.hpp.
#include "tools/timeline.hpp"

#include <CLI/CLI.hpp>
#include <exception>
#include <optional>
#include <ostream>

#include "ops/common/op_flags.hpp"
#include "support/fail.hpp"
#include "tools/command_line.hpp"
#include "tools/facts.hpp"
#include "tools/options.hpp"
#include "tools/output_file.hpp"

namespace tj::tools {
namespace {

using support::cat;

struct TimelineSettings {
  TimelineProblem problem;
  std::string trace, svg;  ///< files to write
  int iterations = 3;      ///< in the picture
};

/// Fills settings; an exit code when there is nothing left to do (help, or a mistake that was reported).
std::optional<int> parse(const std::vector<std::string>& words, TimelineSettings& settings, std::ostream& out,
                         std::ostream& err) {
  TimelineProblem& problem = settings.problem;
  CLI::App app(
      "Runs a kernel that records when its roles come to their nodes and waits, and shows it beside the schedule.",
      "tj-bench --timeline");
  app.add_option("--op", problem.op,
                 "fmha, gemm, ...; further flags (--dtype, --head-dim, --seq-q, ...) are the op's: kernel and sizes, "
                 "as tj-check takes them")
      ->required();
  app.add_option("--target", problem.target,
                 "sm_90a, model:sm_90a, ... (default: TJ_TARGET, else the first GPU, else the CPU model)");
  add_facts_option(app, problem.facts);
  app.add_option(
         "--trace", settings.trace,
         "write a trace for Perfetto (ui.perfetto.dev) or chrome://tracing to this file, one microsecond a cycle")
      ->check(no_flag);
  app.add_option("--svg", settings.svg,
                 "write a picture to this file: some iterations of the first block, with a predicted row for each role "
                 "and below it a measured one")
      ->check(no_flag);
  bounded(app.add_option("--iterations", settings.iterations, "iterations in that picture (default 3)"), 1, 64);
  bounded(app.add_option("--first-block", problem.first_block, "first of the blocks that record (default 0)"), 0,
          1 << 30);
  bounded(app.add_option("--blocks", problem.blocks, "blocks that record (default 4)"), 1, 1024);
  bounded(app.add_option(
              "--records", problem.warp_records,
              "most records of a role of a block, a power of two (default 8192): what comes later is not recorded"),
          64, 1 << 20)
      ->check([](const std::string& text) {
        return (std::stoul(text) & (std::stoul(text) - 1)) == 0 ? std::string() : text + " is no power of two";
      });
  bounded(app.add_option("--launches", problem.launches,
                         "launches that are timed before, with marks and without, on a device (default 10)"),
          1, 100000);
  app.add_option("--seed", problem.seed, "of the tensors' values, and of the model's order (default 1)");
  app.footer(
      "Exit codes: 0 done, 1 the kernel could not be made or run, 2 bad use or an output that cannot be written.");
  app.allow_extras();
  if (const std::optional<int> done = parse_words(app, words, out, err)) return done;
  for (const ops::GivenFlag& flag : ops::read_flags(app.remaining())) {
    if (problem.flags.count(flag.name) != 0) bad_use(cat("--", flag.name, " is given twice; give it once"));
    problem.flags[flag.name] = flag.values.empty() ? std::vector<std::string>{"true"} : flag.values;
  }
  return std::nullopt;
}

}  // namespace

MeasuredTimeline measure_timeline(RecordedRun run) {
  MeasuredTimeline measured;
  measured.run = std::move(run);
  const RecordedRun& of = measured.run;
  for (unsigned b = 0; b < of.blocks; ++b) {
    measured.blocks.push_back(read_block(measured.graph(), of.made.unit, measured.schedule(), of.first_block + b,
                                         of.of_block(b), of.warp_records));
    if (const std::string wrong = check_block(measured.graph(), measured.schedule(), measured.blocks.back());
        !wrong.empty())
      support::fail(Stage::launch, Code::internal, cat("what was recorded is not the schedule: ", wrong));
  }
  measured.comparison = compare(measured.graph(), measured.schedule(), measured.blocks);
  return measured;
}

int timeline(const std::vector<std::string>& words, std::ostream& out, std::ostream& err) {
  try {
    TimelineSettings settings;
    if (const auto code = parse(words, settings, out, err)) return *code;
    require_different_files({{"--trace", settings.trace}, {"--svg", settings.svg}});
    const support::Log log(LogLevel::warn,
                           [&err](LogLevel, std::string_view text) { err << "tj-bench: " << text << '\n'; });
    const MeasuredTimeline measured = measure_timeline(run_recorded(settings.problem, log));
    print_timeline(measured, out);
    if (!settings.trace.empty()) write_output_file("--trace", settings.trace, timeline_trace(measured));
    if (!settings.svg.empty()) write_output_file("--svg", settings.svg, timeline_svg(measured, 0, settings.iterations));
    out.flush();
    return kExitOk;
  } catch (const Error& e) {
    err << "tj-bench: " << e.what() << '\n' << e.log;
    return e.stage == Stage::argument ? kExitBadUse : kExitFailures;
  } catch (const std::exception& e) {
    err << "tj-bench: " << e.what() << '\n';
    return kExitFailures;
  }
}

}  // namespace tj::tools
