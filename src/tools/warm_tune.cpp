// tj-warm --tune: problems from flags, their kernels made by several threads, timed one problem after the other.
//
// Like tj-warm itself it knows no op: sizes and kinds belong to the op, which says what it allows.
#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "backends.hpp"
#include "ops/common/tunable.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/log.hpp"
#include "support/text.hpp"
#include "tools/facts.hpp"
#include "tools/warm.hpp"
#include "tools/warm_keep.hpp"
#include "tools/warm_make.hpp"
#include "tuning/tune.hpp"

namespace tj::tools {
namespace {

/// A seed for the operands' values. <random>'s device is not used: it asks for a newer C library than all else, and
/// would bar the tools of a wheel from older systems.
std::uint64_t fresh_seed() {
  std::uint32_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) seed = 1;
  return seed;
}

using support::cat;
using support::Json;

struct Task {
  const ops::Op* op = nullptr;  ///< null: a graph's
  ops::Problem problem;
  std::optional<custom::Kernel> graph = {};
};

TuneReport measure(const Task& task, Runtime& runtime, Device gpu, const TuneOptions& how) {
  return task.graph ? task.graph->tune(gpu, how) : runtime.tune_op(task.op->name(), task.problem, gpu, how);
}

std::vector<const ops::Op*> tunable_ops(const std::vector<std::string>& names) {
  std::string known;
  std::vector<const ops::Op*> all, chosen;
  for (const ops::Op* op : ops::all())
    if (op->tunable() != nullptr) {
      all.push_back(op);
      known += cat(known.empty() ? "" : ", ", op->name());
    }
  for (const std::string& name : names) {
    chosen.push_back(&find_op(name));
    if (chosen.back()->tunable() == nullptr)
      bad_use(cat("--op is '", support::shown(name),
                  "', which has one kernel for each problem; allowed with --tune: ", known));
  }
  return names.empty() ? all : chosen;
}

/// Without --op the problems of each op that a flag gives sizes of; a command line without sizes is a mistake.
std::vector<Task> tasks_of(const TuneWork& work, const std::vector<const ops::Op*>& ops) {
  std::vector<Task> tasks;
  std::string known;
  for (const ops::Op* op : ops) {
    const auto flags = op->tunable()->size_flags();
    for (const char* flag : flags) known += cat(known.empty() ? "--" : ", --", flag, " (", op->name(), ")");
    const bool meant =
        std::any_of(flags.begin(), flags.end(), [&](const char* flag) { return work.flags.count(flag) > 0; });
    if (work.op_names.empty() && !meant) continue;
    for (ops::Problem& problem : op->tunable()->problems(work.flags)) tasks.push_back({op, std::move(problem)});
  }
  if (tasks.empty()) bad_use(cat("--tune measures for sizes, and none are given; allowed: ", known));
  return tasks;
}

/// Throws tj::Error that says why there is no first GPU, or that it runs none of the targets that are asked for.
void check_gpu(const TuneWork& work, const support::Settings& settings, const Runtime& runtime, Device gpu) {
  std::string target;
  try {
    target = runtime.target_of(gpu);
  } catch (const Error& error) {
    const support::Log silent{LogLevel::off, {}};
    Backends backends(settings, silent);
    // A call without a driver is told of the model, which measures nothing.
    const bool no_driver = error.stage == Stage::launch && !backends.driver_if_present(gpu.kind);
    support::fail(Stage::target, error.code,
                  cat("--tune measures on a GPU: ", no_driver ? backends.no_driver(gpu) : error.message));
  }
  for (const std::string& name : work.targets)
    if (parse_target(name, "--target", given_facts(work.facts)).name() != target)
      bad_use(cat("--target is '", name, "'; allowed with --tune: one that this machine's first GPU runs, such as ",
                  target));
}

struct Made {
  std::vector<Job> jobs;
  std::vector<Outcome> outcomes;
};

/// Entries that must be in the cache at the end: the choice of each problem, and the chosen kernel.
struct Wanted {
  Made ahead;                         ///< kernels that were made before any was timed
  Made all;                           ///< choices and kernels
  std::vector<std::size_t> problems;  ///< whose each of them is
  void add(std::size_t problem, std::string name, const std::string& target, Outcome outcome = {}) {
    outcome.ok = true;
    all.jobs.push_back({{{}, {}, std::move(name)}, target});
    all.outcomes.push_back(std::move(outcome));
    problems.push_back(problem);
  }
};

void add_choice(std::size_t place, const ops::Op& op, const ops::Problem& problem, const TuneReport& report,
                Wanted& wanted) {
  wanted.add(place, report.problem, report.target);
  const std::string& chosen = report.variants[static_cast<std::size_t>(report.chosen)].name;
  const Made& ahead = wanted.ahead;
  for (const ops::Variant& variant : op.tunable()->variants(problem, *arch::parse_target(report.target).arch)) {
    if (variant.name != chosen) continue;
    const std::string name = op.request_of(variant.kernel).name;
    const auto made =
        std::find_if(ahead.jobs.begin(), ahead.jobs.end(), [&](const Job& job) { return job.request.name == name; });
    const auto at = static_cast<std::size_t>(made - ahead.jobs.begin());
    wanted.add(place, name, report.target, made == ahead.jobs.end() ? Outcome() : ahead.outcomes[at]);
  }
}
void add_choice(std::size_t place, const Task& task, const custom::Description& graph, const TuneReport& report,
                Wanted& wanted) {
  if (task.op != nullptr) return add_choice(place, *task.op, task.problem, report, wanted);
  const GraphOp op(graph);
  add_choice(place, op, op.problem_of(nullptr), report, wanted);
}

/// Returns how many problems lack their choice or its kernel; where there is JSON, it says so of each.
std::size_t check_wanted(const support::Settings& settings, Wanted& wanted, std::uint64_t evictions, Progress& progress,
                         Json& problems) {
  std::set<std::size_t> failed;
  check_kept(settings, wanted.all.jobs, wanted.all.outcomes, evictions, progress);
  for (std::size_t i = 0; i < wanted.problems.size(); ++i) {
    const Outcome& outcome = wanted.all.outcomes[i];
    const std::size_t place = wanted.problems[i];
    if (outcome.ok || !failed.insert(place).second || problems.empty()) continue;
    problems[place]["ok"] = false;
    problems[place]["error"] = cat(wanted.all.jobs[i].request.name, ": ", outcome.error);
  }
  return failed.size();
}

/// A tile that cannot be made is left to the table, which says so.
Made make_ahead(const std::vector<Task>& tasks, Device gpu, const TuneOptions& how, int threads, Runtime& runtime,
                Progress& progress) {
  Made made;
  std::vector<Job>& jobs = made.jobs;
  std::set<std::string> seen;
  for (const Task& task : tasks) {
    if (task.op == nullptr) continue;  // its runtime makes the kernels of a graph
    const std::string target = runtime.target_of(gpu, task.op->name());
    std::vector<ops::Variant> variants;
    try {
      variants = variants_of(*task.op->tunable(), task.problem, *arch::parse_target(target).arch, how);
    } catch (const Error&) {  // nothing is made ahead for this problem: tuning it says why
    }
    for (const ops::Variant& variant : variants)
      if (ops::Request request = task.op->request_of(variant.kernel); seen.insert(request.name).second)
        jobs.push_back({std::move(request), target});
  }
  progress.started(jobs.size());
  std::vector<std::size_t> all(jobs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  made.outcomes.resize(jobs.size());
  make_all(runtime, jobs, all, threads_for(threads, jobs.size()), progress, made.outcomes);
  progress.end();
  return made;
}

std::string number(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

void print(const TuneReport& report, std::ostream& out) {
  std::size_t width = 6;
  for (const TunedVariant& variant : report.variants) width = std::max(width, variant.name.size());
  const auto row = [&](const std::string& name, std::initializer_list<std::string> cells, const std::string& note) {
    out << "  " << name << std::string(width - std::min(width, name.size()), ' ');
    for (const std::string& cell : cells)
      out << "  " << std::string(cell.size() < 12 ? 12 - cell.size() : 0, ' ') << cell;
    out << (note.empty() ? "" : "  ") << note << '\n';
  };
  out << report.problem << '\n';
  row("kernel", {"predicted us", "measured us", "TFLOP/s"}, "");
  for (std::size_t i = 0; i < report.variants.size(); ++i) {
    const TunedVariant& v = report.variants[i];
    const std::string predicted = v.predicted_us > 0 ? number(v.predicted_us, 1) : "-";
    if (!v.refused.empty()) {
      row(v.name, {predicted, "-", "-"}, cat("refused: ", v.refused));
      continue;
    }
    const std::string rate = report.flops > 0 ? number(report.flops / v.measured_us * 1e-6, 1) : "-";
    row(v.name, {predicted, number(v.measured_us, 1), rate}, static_cast<int>(i) == report.chosen ? "chosen" : "");
  }
  out << std::flush;
}

Json to_json(const TuneReport& report) {
  Json variants = Json::array();
  for (const TunedVariant& v : report.variants) {
    Json variant = {{"name", v.name}, {"predicted_cycles", v.predicted_cycles}, {"predicted_us", v.predicted_us}};
    if (v.refused.empty())
      variant.update(
          {{"measured_us", v.measured_us}, {"times", v.times}, {"tflops", report.flops / v.measured_us * 1e-6}});
    else
      variant["refused"] = v.refused;
    variants.push_back(std::move(variant));
  }
  const TunedVariant& chosen = report.variants[static_cast<std::size_t>(report.chosen)];
  Json json = {
      {"problem", report.problem}, {"ok", report.kept}, {"sm_count", report.sm_count}, {"chosen", chosen.name}};
  if (report.usual >= 0) {
    const TunedVariant& usual = report.variants[static_cast<std::size_t>(report.usual)];
    json["predicted"] = usual.name;
    if (usual.times > 0) json["gain"] = usual.measured_us / chosen.measured_us;
  }
  json["kernels"] = std::move(variants);
  return json;
}

struct Tuned {
  Json problems = Json::array();  ///< one for each, where JSON is wanted
  std::size_t failures = 0, changed = 0;
  std::string device;
};
void print(const Tuned& tuned, std::size_t count, const TuneWork& work, const TuneOptions& how, std::ostream& out) {
  if (work.json) {
    const Json document = {{"cache_dir", work.cache_dir}, {"device", tuned.device},     {"seed", how.seed},
                           {"rounds", how.rounds},        {"failures", tuned.failures}, {"problems", tuned.problems}};
    out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  } else {
    out << count << " problems on " << (tuned.device.empty() ? "no device" : tuned.device) << ": " << tuned.changed
        << " with another kernel than predicted, " << tuned.failures << " failed; " << how.rounds
        << " rounds, normal random operands (seed " << how.seed << "); cache " << work.cache_dir << '\n';
  }
}

/// The tasks of ops; where a graph is given, none yet, and its description.
std::vector<Task> tasks_or_graph(const TuneWork& work, custom::Description& graph, std::ostream& err) {
  if (!work.graph.given()) return tasks_of(work, tunable_ops(work.op_names));
  if (!work.op_names.empty() || !work.flags.empty())
    bad_use("--graph is given with --op or flags of ops; allowed: one of them");
  graph = read_graph_files("tj-warm", work.graph, err);
  return {};
}

void need_room(const TuneWork& work) {
  if (const std::string reason = cache::Store(work.cache_dir, 0, {}).cannot_keep(); !reason.empty())
    support::fail(Stage::cache, Code::io,
                  cat("no choice can be kept in the cache at '", support::shown_path(work.cache_dir),
                      "', so nothing was measured: ", reason,
                      ". Give --cache-dir, or TJ_CACHE_DIR, a folder of your own with room"));
}

}  // namespace

int tune_problems(const TuneWork& work, const support::Settings& settings, std::ostream& out, std::ostream& err,
                  bool terminal) {
  custom::Description graph;
  std::vector<Task> tasks = tasks_or_graph(work, graph, err);

  Progress progress(out, err, terminal, work.json, settings.log_level);
  Options options;
  options.cache_dir = work.cache_dir;
  set_facts(options.facts_file, work.facts);
  progress.follow(options);
  if (!work.targets.empty() && !arch::parse_target(work.targets.front()).model)
    options.target = work.targets.front();  // of those that the GPU can run
  Runtime runtime(options);
  Device gpu = runtime.default_device();
  if (gpu.kind == DeviceKind::cpu) gpu = {DeviceKind::cuda, 0};  // whose absence is said
  TuneOptions how;
  how.only = work.only;
  how.limit = work.limit;
  if (work.rounds > 0) how.rounds = work.rounds;
  how.seed = fresh_seed();
  check_gpu(work, settings, runtime, gpu);
  need_room(work);
  if (work.graph.given()) tasks.push_back({nullptr, {{}, graph.name, 0}, custom::Kernel(runtime, graph)});
  Wanted wanted;
  wanted.ahead = make_ahead(tasks, gpu, how, work.jobs, runtime, progress);
  Tuned tuned;
  for (std::size_t place = 0; place < tasks.size(); ++place) {
    const Task& task = tasks[place];
    try {
      const TuneReport report = measure(task, runtime, gpu, how);
      tuned.device = report.device;
      if (report.kept) add_choice(place, task, graph, report, wanted);
      tuned.changed += report.chosen != report.usual ? 1 : 0;
      if (work.json)
        tuned.problems.push_back(to_json(report));
      else
        print(report, out);
      if (report.kept) continue;
      progress.failed(task.problem.name, cat("the choice is not in the cache at '", support::shown_path(work.cache_dir),
                                             "': ", why_not_kept(work.cache_dir)));
    } catch (const Error& error) {
      progress.failed(task.problem.name, error.what());
      if (work.json) tuned.problems.push_back({{"problem", task.problem.name}, {"ok", false}, {"error", error.what()}});
    }
    ++tuned.failures;
  }
  tuned.failures += check_wanted(settings, wanted, runtime.counters().evictions, progress, tuned.problems);
  progress.end();
  print(tuned, tasks.size(), work, how, out);
  return tuned.failures > 0 ? kExitFailures : kExitOk;
}

}  // namespace tj::tools
