// Attention in six steps on matrix instructions of a warp, from a kernel that does one thing after the other to a tuned
// kernel. Then the library's own kernel. Runs each, checks it, and says what it changed.
//
//   04_fmha_ladder [--steps all|1,3,own,...] [--seq-len 1024,2048,...] [--iterations N] [--output-dir DIR]
//
// A step that fails is a row that says so, and the next one runs. PyTorch's attention is timed by a Python child, where
// there is a torch. Exits 0 when every step is right, 1 when one is not, 2 when one failed; files are written all the
// same, after each length. A command line that is refused ends with 2 too, and nothing was run or written.
#include <tilejit/ladder.hpp>
#include <tilejit/tilejit.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "04_fmha_ladder/problem.hpp"
#include "04_fmha_ladder/steps.hpp"
#include "common/arguments.hpp"
#include "common/files.hpp"
#include "common/fmha_reference.hpp"
#include "common/output.hpp"
#include "common/prediction.hpp"
#include "common/random.hpp"
#include "common/resources.hpp"
#include "common/step_report.hpp"
#include "common/torch_rows.hpp"

namespace {

namespace samples = tj::samples;
namespace ladder = sample::fmha_ladder;
using ladder::Problem;
using ladder::Step;

constexpr const char* kUsage =
    "04_fmha_ladder [options]\n"
    "  --steps all|1,3,own,...  steps 1 to 6, the library's own kernel, and PyTorch's: sdpa, cudnn, flash; step 1 "
    "always "
    "runs (default: all)\n"
    "  --seq-len N,N,...        default 1024,2048,4096,8192,16384 on a GPU, 192 on the model\n"
    "  --iterations N           a time is the median of so many (default: 100 on a GPU, 1 on the model)\n"
    "  --output-dir DIR         for fmha_tutorial_results.json, fmha_tutorial_results.md and fmha_tutorial_log.txt; "
    "without "
    "it nothing is written\n"
    "  --correctness-check      compare each result with f64, which is done anyway; --no-correctness-check leaves it "
    "out\n"
    "  --torch auto|on|off      time PyTorch's attention too, by a Python child (auto: on a GPU)\n"
    "  --python PROGRAM         the Python with torch (default: python3)\n"
    "  --batch N --heads N --head-dim 64|128 --dtype fp16|bf16 --causal true|false\n"
    "                           default 4 32 128 fp16 true on a GPU; on the model batch 1 and heads 1\n"
    "  --target sm_90|sm_120a|model:sm_120a|...\n"
    "                           an arch whose products are a warp's or a wave's: TJ_TARGET says the same (default: the "
    "first GPU, "
    "else model:sm_120a);\n"
    "                           sm_90+smem-sm=100K has the shared memory of sm_120a\n"
    "  --settle MS              each step runs for so long before each of its times (default: 20 on a GPU, 0 on the "
    "model)\n"
    "  --seed N                 of the random data (default: fresh, and printed)\n";

using ladder::kHost;
/// The default target where that has no steps, and the target that runs them in its place: a Hopper has both kinds of
/// instructions.
constexpr const char* kInPlace[][2] = {{"model:sm_90a", "model:sm_120a"}, {"sm_90a", "sm_90"}};
constexpr double kLeastTimedMs = 1;          // calls that are shorter are timed several in a row
constexpr double kMostModelPairs = 1 << 22;  // of queries and keys: a minute or so on the CPU model

struct Settings {
  std::vector<Step> steps;
  std::vector<std::int64_t> seq_lens;
  std::string output_dir, python;
  bool torch = false, check = true;
};

[[noreturn]] void refuse(const std::string& message) {
  throw tj::Error(tj::Stage::argument, tj::Code::invalid_argument, message);
}

std::vector<std::int64_t> parse_lengths(const std::string& text) {
  std::vector<std::int64_t> lengths;
  for (const std::string& word : ladder::split(text)) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1 || value > 1 << 20)
      refuse("--seq-len has '" + word + "'; allowed: numbers from 1 to 1048576, separated by commas");
    lengths.push_back(value);
  }
  return lengths;
}

std::string one_of(samples::Arguments& words, const char* name, const std::vector<std::string>& allowed) {
  const std::string given = words.take(name).value_or(allowed.front());
  if (std::find(allowed.begin(), allowed.end(), given) != allowed.end()) return given;
  std::string list;
  for (const std::string& each : allowed) list += (list.empty() ? "" : ", ") + each;
  refuse(std::string(name) + " is '" + given + "'; allowed: " + list);
}

/// Says whether PyTorch's rows are timed. "on" adds them where no step names one.
bool parse_torch(samples::Arguments& words, bool model, std::vector<Step>& steps, const std::string& named) {
  const std::string given = one_of(words, "--torch", {"auto", "on", "off"});
  if (given == "on" &&
      std::none_of(steps.begin(), steps.end(), [](const Step& s) { return s.rung == ladder::kNotOurs; }))
    steps = ladder::named_steps(named + ",sdpa,cudnn,flash");
  return given == "on" || (given == "auto" && !model);
}
bool parse_check(samples::Arguments& words) {
  const bool on = words.take_switch("--correctness-check"), off = words.take_switch("--no-correctness-check");
  if (on && off) refuse("--correctness-check and --no-correctness-check are both given; allowed: one of them");
  return !off;
}

Settings parse(samples::Arguments& words, samples::StepReport& report) {
  const bool model = report.on_model;
  Settings settings;
  const std::string named = words.take("--steps").value_or("all");
  settings.steps = ladder::named_steps(named);
  settings.torch = parse_torch(words, model, settings.steps, named);
  settings.python = words.take("--python").value_or("python3");
  settings.check = parse_check(words);
  settings.seq_lens = parse_lengths(words.take("--seq-len").value_or(model ? "192" : "1024,2048,4096,8192,16384"));
  settings.output_dir = words.take("--output-dir").value_or("");
  const auto number = [&](const char* name, std::uint64_t least, std::uint64_t most, std::uint64_t otherwise) {
    return words.take_number(name, least, most).value_or(otherwise);
  };
  report.batch = static_cast<std::int64_t>(number("--batch", 1, 1 << 16, model ? 1 : 4));
  report.heads = static_cast<std::int64_t>(number("--heads", 1, 1 << 16, model ? 1 : 32));
  report.head_dim = std::stoll(one_of(words, "--head-dim", {"128", "64"}));
  report.dtype = one_of(words, "--dtype", {"fp16", "f16", "bf16"}) == "bf16" ? tj::DType::bf16 : tj::DType::f16;
  report.causal = one_of(words, "--causal", {"true", "false"}) == "true";
  report.iterations = static_cast<int>(number("--iterations", 1, 100000, model ? 1 : 100));
  report.settle_ms = static_cast<int>(number("--settle", 0, 10000, model ? 0 : 20));
  report.seed = number("--seed", 0, UINT64_MAX, samples::fresh_seed());
  if (!words.rest().empty()) refuse("'" + words.rest().front() + "' means nothing to this sample; see --help");
  for (const std::int64_t length : settings.seq_lens)
    if (const double pairs = static_cast<double>(report.batch * report.heads) * static_cast<double>(length) *
                             static_cast<double>(length);
        model && pairs > kMostModelPairs)
      refuse("--seq-len " + std::to_string(length) + " with batch " + std::to_string(report.batch) + " and heads " +
             std::to_string(report.heads) +
             " is too much for the CPU model; allowed there: batch * heads * length^2 of at most " +
             std::to_string(static_cast<long>(kMostModelPairs)));
  return settings;
}

void say(samples::StepReport& report, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    std::printf("%s\n", line.c_str());
    report.log.push_back(line);
  }
  std::fflush(stdout);
}

samples::StepResult begun(const Step& step, std::int64_t length) {
  samples::StepResult result;
  result.step = step.word, result.number = step.number;
  result.name = step.name, result.description = step.description, result.key_changes = step.changes;
  result.seq_len = length;
  if (step.rung == ladder::kNotOurs) result.description += " It needs --torch on, which is usual on a GPU alone.";
  return result;
}

/// Makes a rung's kernel and looks at its schedule, beside that of the rung before.
void prepare(tj::Runtime& runtime, const Problem& problem, const Step& step, const samples::StepReport& report,
             const samples::StepResult* before, samples::StepResult& result) {
  const tj::KernelReport kernel = tj::Ladder(runtime).prepare(problem.on_device(), step.rung);
  result.kernel = kernel.name;
  result.schedule = samples::schedule_facts(kernel.schedule_json);
  result.predicted_ms = samples::predicted_ms(
      result.schedule,
      samples::fmha_tiles(result.schedule, report.batch * report.heads, result.seq_len, report.causal));
  if (before != nullptr)
    for (const std::string& change : samples::schedule_changes(before->schedule, result.schedule))
      result.key_changes.push_back("schedule: " + change);
  if (step.hints.k == 0) return;
  result.hints = samples::latency_hints(
      {{"k", step.hints.k, 0, "load_k", "qk"}, {"v", step.hints.v, 0, "load_v", "pv"}}, result.schedule);
  for (const std::string& line : samples::dropped_hints(result.hints)) result.key_changes.push_back(line);
}

/// Does `work`, whose failure is the step's and nobody else's.
template <class Work>
void attempt(samples::StepResult& result, const Work& work) {
  try {
    if (result.failed.empty()) work();
  } catch (const std::exception& error) {
    result.failed = error.what();
  }
}

/// A target without steps says why once a length.
void refuse_once(std::vector<samples::StepResult>& results) {
  const samples::StepResult* first = nullptr;
  for (samples::StepResult& result : results) {
    const std::size_t at = result.failed.find(" does not run on '");
    if (at == std::string::npos) continue;
    if (first != nullptr)
      result.failed = "the step" + result.failed.substr(at, result.failed.find(';', at) - at) + ", as step " +
                      first->step + " says";
    else
      first = &result;
  }
}

double median(std::vector<double> times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

/// A step on its way to its times.
struct Entrant {
  int rung = 0;
  samples::StepResult* result = nullptr;
  int calls = 1;
  std::function<double()> graph = {};
  std::vector<double> times = {}, graph_times = {};
};

/// Steps take turns, so that none has the cooler device, and each runs for a while before it is timed.
void time_steps(const Problem& problem, std::vector<Entrant>& entrants, const samples::StepReport& report) {
  for (Entrant& e : entrants)
    attempt(*e.result, [&] {
      const double once = report.on_model ? kLeastTimedMs : std::max(1e-3, problem.ms_of(e.rung, 1));
      e.calls = std::max(1, static_cast<int>(std::ceil(kLeastTimedMs / once)));
      e.graph = problem.recorded(e.rung, e.calls);
    });
  for (int round = 0; round < report.iterations; ++round)
    for (Entrant& e : entrants)
      attempt(*e.result, [&] {
        for (double ran = 0; ran < report.settle_ms;) ran += e.calls * problem.ms_of(e.rung, e.calls);
        e.times.push_back(problem.ms_of(e.rung, e.calls));
        if (e.graph) e.graph_times.push_back(e.graph());
      });
  for (Entrant& e : entrants) e.result->latency_ms = median(e.times), e.result->graph_ms = median(e.graph_times);
}

/// Takes the findings of PyTorch's rows of a length, or why there is nothing.
void take_torch(const std::vector<samples::TorchRow>& rows, tj::DType dtype, bool check, samples::StepResult& result) {
  result.skipped = "--torch on times PyTorch (auto: on a GPU alone)";
  for (const samples::TorchRow& row : rows) {
    if (row.row != result.step || row.seq_len != result.seq_len) continue;
    result.skipped = row.missing;
    result.kernel = row.by;
    result.latency_ms = row.latency_ms, result.graph_ms = row.graph_ms;
    result.checked = check;
    result.reference.o_error = row.error, result.reference.rows = row.rows_compared;
    result.reference.rows_total = row.rows_total, result.reference.apart = row.apart;
    result.reference.lse_error = -1;  // it gives none
    result.right = row.error <= samples::max_error(dtype) && row.apart == 0;
  }
}

void run_rungs(tj::Runtime& runtime, tj::Device device, const Settings& settings, std::int64_t length,
               const samples::StepReport& report, std::vector<samples::StepResult>& results) {
  Problem problem(runtime, device, report, length);
  const samples::StepResult* before = nullptr;
  std::vector<Entrant> entrants;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Step& step = settings.steps[i];
    if (step.rung == ladder::kNotOurs) continue;
    samples::StepResult& result = results[i];
    attempt(result, [&] {
      prepare(runtime, problem, step, report, before, result);
      before = &result;
      result.checked = settings.check;
      if (settings.check) problem.check(step.rung, result);
    });
    entrants.push_back({.rung = step.rung, .result = &result});
  }
  time_steps(problem, entrants, report);
  samples::set_gains(results, problem.flops(), !report.on_model);
}

void run_length(tj::Runtime& runtime, tj::Device device, const Settings& settings, std::int64_t length,
                const std::vector<samples::TorchRow>& torch, samples::StepReport& report) {
  std::vector<samples::StepResult> results;
  for (const Step& step : settings.steps) {
    results.push_back(begun(step, length));
    if (step.rung == ladder::kNotOurs) take_torch(torch, report.dtype, settings.check, results.back());
  }
  try {
    run_rungs(runtime, device, settings, length, report, results);
  } catch (const std::exception& error) {  // there is no problem of this length
    for (std::size_t i = 0; i < results.size(); ++i)
      if (settings.steps[i].rung != ladder::kNotOurs) results[i].failed = error.what();
  }
  refuse_once(results);
  for (samples::StepResult& result : results) {
    say(report, samples::step_lines(report, result));
    report.results.push_back(std::move(result));
  }
}

std::vector<samples::TorchRow> torch_rows(const Settings& settings, const samples::StepReport& report) {
  samples::TorchCall call;
  for (const Step& step : settings.steps)
    if (step.rung == ladder::kNotOurs) call.rows.push_back(step.word);
  if (!settings.torch || call.rows.empty()) return {};
  call.python = settings.python;
  call.script = samples::resources("04_fmha_ladder") + "/torch_rows.py";
  call.seq_lens = settings.seq_lens;
  call.batch = report.batch, call.heads = report.heads, call.head_dim = report.head_dim;
  call.dtype = report.dtype, call.causal = report.causal, call.check = settings.check;
  call.iterations = report.iterations, call.settle_ms = report.settle_ms, call.seed = report.seed;
  return samples::time_torch(call);
}

void write(const Settings& settings, const samples::StepReport& report) {
  if (settings.output_dir.empty()) return;
  samples::write_files(settings.output_dir, {{"fmha_tutorial_results.json", samples::steps_json(report)},
                                             {"fmha_tutorial_results.md", samples::steps_markdown(report)},
                                             {"fmha_tutorial_log.txt", samples::steps_log(report)}});
}

/// 0, 1 or 2, as the head of this file says. A failure is told on standard error too.
int exit_code(const samples::StepReport& report) {
  for (const samples::StepResult& result : report.results)
    if (!result.failed.empty())
      std::fprintf(stderr, "04_fmha_ladder: step %s, sequence length %lld: %s\n", result.step.c_str(),
                   static_cast<long long>(result.seq_len), result.failed.c_str());
  return report.any_failed() ? 2 : report.right() ? 0 : 1;
}

int main_checked(int argc, char** argv) {
  samples::Arguments words(argc, argv);
  if (words.take_switch("--help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  tj::Options options;
  options.target = words.take("--target");
  auto runtime = std::make_unique<tj::Runtime>(options);
  tj::Device device = options.target && options.target->rfind("model:", 0) == 0 ? kHost : runtime->default_device();
  for (const auto& [usual, other] : kInPlace) {
    if (options.target || runtime->target_of(device) != usual) continue;
    std::printf("%s has no steps: %s in its place\n", usual, other);
    options.target = other;
    runtime = std::make_unique<tj::Runtime>(options);
  }
  samples::StepReport report;
  report.target = runtime->target_of(device);
  report.device = tj::to_string(device);
  report.on_model = device.kind == tj::DeviceKind::cpu;
  const Settings settings = parse(words, report);
  if (!settings.output_dir.empty()) samples::check_writable(settings.output_dir);
  say(report, samples::head_lines(report, settings.seq_lens));
  const std::vector<samples::TorchRow> torch = torch_rows(settings, report);
  for (const std::int64_t length : settings.seq_lens) {
    run_length(*runtime, device, settings, length, torch, report);
    write(settings, report);
  }
  say(report, samples::summary_lines(report));
  write(settings, report);
  if (!settings.output_dir.empty())
    std::printf("\nwritten to %s: fmha_tutorial_results.json, fmha_tutorial_results.md, fmha_tutorial_log.txt\n",
                settings.output_dir.c_str());
  return exit_code(report);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return tj::samples::all_written("04_fmha_ladder", main_checked(argc, argv));
  } catch (const tj::Error& error) {
    std::fprintf(stderr, "04_fmha_ladder: %s\n%s", error.what(), error.log.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "04_fmha_ladder: %s\n", error.what());
  }
  return 2;
}
