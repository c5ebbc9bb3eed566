// tj-bench --op: calls of an op on the device at hand, timed in both ways that count.
//
// Decides how often, in which order, and what is printed. Does not decide which problems there are
// (ops/common/workloads.hpp) nor what a call launches (runtime). Single calls find no operand in a cache; replayed ones
// follow each other, as the device's power and its caches let them. Invariant: the two ways take turns, so that a clock
// that drifts meets both; without a device nothing is made up.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ostream>

#include <tilejit/tilejit.hpp>

#include "ops/common/workloads.hpp"
#include "prepared.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "tools/bench.hpp"
#include "tools/bench_clock.hpp"
#include "tools/bench_memory.hpp"
#include "tools/bench_numbers.hpp"
#include "tools/bench_predict.hpp"
#include "tools/calibrate_lab.hpp"
#include "tools/options.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::Json;

constexpr int kUsualRounds = 20;
constexpr int kSinglesInRound = 3, kReplaysInRound = 3;
constexpr double kReplayUs = 2000;  // of calls in one recording: starting it must not count
constexpr int kMostCalls = 40;
constexpr int kClockRepeats = 4000;  // 1 ms: a launch's own time must not count, nor the clock change meanwhile

/// The machine, opened once.
struct Bench {
  const BenchArguments& arguments;
  Runtime runtime;
  CallPreparer preparer;
  Device device;
  std::shared_ptr<launch::Driver> driver;
  std::string device_name;

  explicit Bench(const BenchArguments& of)
      : arguments(of),
        runtime(bench_options(of)),
        preparer(support::resolve_settings(bench_options(of)), bench_log(of)),
        device(runtime.default_device()),
        driver(preparer.backends().driver(device)),
        device_name(driver->device_info(device.index).name) {}
  /// An op that the device's usual target does not serve may have another.
  arch::Target target(const ops::Op& op) { return preparer.backends().target(device, op); }
  /// MHz, under --cycles; its kernel is made once a target. 0 where nothing tells.
  double clock_mhz(const ops::Op& op) {
    if (!arguments.cycles) return 0;
    const arch::Target of = target(op);
    std::unique_ptr<Lab>& lab = labs_[of.name()];
    if (!lab) lab = std::make_unique<Lab>(preparer.backends(), device, of, 1);
    return lab->clock_mhz(kClockRepeats);
  }

 private:
  std::map<std::string, std::unique_ptr<Lab>> labs_;
};

/// A problem and its measured times.
struct Timed {
  std::string name, target, kernels, choice, unwritten;
  double flops = 0, bytes = 0, predicted_us = 0;
  int calls = 0;          ///< of a replay, or that follow each other
  bool recorded = false;  ///< replayed, and not enqueued one after the other
  std::vector<double> single_us, replayed_us, clock_mhz;
  double most_mhz = 0;
  // Under --cycles:
  std::vector<double> single_mhz, replayed_mhz;  ///< measured right behind the samples
  Json schedules = Json::array();                ///< of the kernels, in the order of their launches
};

Json schedule_json(const PreparedLaunch& launch) {
  const KernelReport& report = launch.kernel->report;
  const auto all = support::SortedJson::parse(report.schedule_json);
  Json some = {{"kernel", report.name}};
  for (const char* key :
       {"graph", "ii", "proven_ii", "length", "overhead_cycles", "blocks_per_sm", "walk", "certificate"})
    some[key] = all.at(key);
  return some;
}

/// Calls as the workload wants them: by the library's own choice, or launches of the choice that was named, or such as
/// --overlap wants.
class Calls {
 public:
  Calls(Bench& bench, const ops::Op& op, const ops::Trial& trial, const void* args)
      : bench_(bench),
        op_(op),
        args_(args),
        forced_(trial.choice.has_value() || !bench.arguments.overlap.empty()),
        prepared_(bench.preparer.prepare(op, args, trial.choice)) {
    if (bench.arguments.overlap.empty()) return;
    for (PreparedLaunch& launch : prepared_.launches) launch.plan.overlaps = bench.arguments.overlap == "true";
  }

  void operator()(Stream stream) const {
    if (forced_)
      prepared_.launch(stream);
    else
      bench_.runtime.run(op_.name(), args_, stream);
  }
  const PreparedCall& prepared() const { return prepared_; }

 private:
  Bench& bench_;
  const ops::Op& op_;
  const void* args_;
  bool forced_;
  PreparedCall prepared_;
};

double time_us(Bench& bench, const std::function<void()>& work) {
  return bench.driver->time_ms(bench.device.index, work) * 1e3;
}

/// Null where there are no graphs: what is not the driver's refusal of those is let through.
std::shared_ptr<launch::Recording> recording_of(Bench& bench, const Calls& call, int count) {
  try {
    return bench.driver->record(bench.device.index, [&](Stream stream) {
      for (int i = 0; i < count; ++i) call(stream);
    });
  } catch (const Error& e) {
    if (e.stage != Stage::launch || e.code != Code::unsupported) throw;
    return nullptr;
  }
}

void measure(Bench& bench, const ops::Op& op, const Calls& call, Timed& timed) {
  const auto add_clock = [&](std::vector<double>& to) {
    if (const double mhz = bench.clock_mhz(op); mhz > 0) to.push_back(mhz);
  };
  CacheFlush flush(bench.runtime, *bench.driver, bench.device);
  const SmClock clock(bench.device);
  timed.most_mhz = clock.most_mhz();
  const auto single = [&] {
    flush();  // runs while the host records the first event and enqueues the call, so that neither is timed
    return time_us(bench, [&] { call({}); });
  };
  single();
  timed.calls = std::clamp(static_cast<int>(kReplayUs / std::max(single(), 1.0)), 2, kMostCalls);
  const auto recording = recording_of(bench, call, timed.calls);
  timed.recorded = recording != nullptr;
  const auto replay = [&] {
    if (recording != nullptr) return recording->replay({});
    for (int i = 0; i < timed.calls; ++i) call({});
  };
  const int rounds = bench.arguments.rounds > 0 ? bench.arguments.rounds : kUsualRounds;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSinglesInRound; ++i) timed.single_us.push_back(single());
    add_clock(timed.single_mhz);
    replay();  // caches and clocks as in the replays that count
    for (int i = 0; i < kReplaysInRound; ++i) timed.replayed_us.push_back(time_us(bench, replay) / timed.calls);
    add_clock(timed.replayed_mhz);
    replay();
    replay();
    if (const double mhz = clock.mhz(); mhz > 0) timed.clock_mhz.push_back(mhz);  // while those run
    bench.driver->synchronize(bench.device.index, {});
  }
}

using Work = std::vector<std::pair<const ops::Op*, ops::Workload>>;

std::string name_of(const ops::Op& op, const ops::Trial& trial) {
  return cat(op.name(), ' ', trial.flags.empty() ? trial.name : trial.flags);
}

Timed time_workload(Bench& bench, const ops::Op& op, const ops::Workload& workload) {
  const ops::Trial& trial = workload.trial;
  Timed timed;
  timed.name = name_of(op, trial);
  timed.target = bench.target(op).name();
  timed.flops = workload.flops;
  const WorkloadMemory memory(trial, *bench.driver, bench.device, bench.arguments.seed);
  timed.bytes = memory.bytes();
  memory.with_args([&](const void* args) {
    const Calls call(bench, op, trial, args);
    const PreparedCall& prepared = call.prepared();
    for (const PreparedLaunch& launch : prepared.launches) {
      timed.kernels += cat(timed.kernels.empty() ? "" : ", ", launch.kernel->report.name);
      if (bench.arguments.cycles) timed.schedules.push_back(schedule_json(launch));
    }
    timed.choice = ops::choice_text(op, prepared.kernel.choice);
    timed.predicted_us = predicted_us(op, args, prepared, *bench.target(op).arch);
    call({});
    bench.driver->synchronize(bench.device.index, {});
    timed.unwritten = memory.unwritten();
    measure(bench, op, call, timed);
  });
  return timed;
}

std::string rate_text(double amount, double us, double unit, int digits) {
  return amount > 0 && us > 0 ? number_text(amount / us / unit, digits) : "-";
}

std::vector<std::string> row_of(const Timed& timed, const std::string& name, const Spread& us) {
  return {"  " + name,
          number_text(us.median, 2),
          number_text(us.p10, 2),
          number_text(us.p90, 2),
          rate_text(timed.flops, us.median, 1e6, 1),
          rate_text(timed.bytes, us.median, 1e3, 0),
          number_text(us.median / timed.predicted_us, 3)};
}

std::string replayed_text(const Timed& timed) {
  return cat(timed.recorded ? "graph of " : "back to back, ", timed.calls, " calls");
}

void print(const Bench& bench, const Timed& timed, std::ostream& out) {
  out << timed.name << " on " << bench.device_name << " (" << timed.target << ")\n  kernels: " << timed.kernels << '\n';
  if (!timed.choice.empty()) out << "  tile: " << timed.choice << '\n';
  std::vector<std::vector<std::string>> rows = {{"", "median us", "p10", "p90", "TFLOP/s", "GB/s", "x predicted"}};
  if (std::isfinite(timed.predicted_us)) {
    rows.push_back(row_of(timed, "predicted", {timed.predicted_us, timed.predicted_us, timed.predicted_us, 1}));
    rows.back()[2] = rows.back()[3] = rows.back()[6] = "-";
  }
  rows.push_back(row_of(timed, "single, caches flushed", spread_of(timed.single_us)));
  rows.push_back(row_of(timed, replayed_text(timed), spread_of(timed.replayed_us)));
  print_table(rows, out);
  if (!timed.clock_mhz.empty()) {
    const Spread mhz = spread_of(timed.clock_mhz);
    out << "  SM clock under replays: " << number_text(mhz.median, 0) << " MHz (" << number_text(mhz.p10, 0) << " to "
        << number_text(mhz.p90, 0) << "), at most " << number_text(timed.most_mhz, 0) << '\n';
  }
  for (const Json& of : timed.schedules)
    out << "  " << of["kernel"].get<std::string>() << ": II " << of["ii"] << " cycles, "
        << of["graph"].get<std::string>() << '\n';
  if (!timed.single_mhz.empty() && !timed.replayed_mhz.empty())
    out << "  SM clock, measured: " << number_text(spread_of(timed.single_mhz).median, 0)
        << " MHz behind single calls, " << number_text(spread_of(timed.replayed_mhz).median, 0) << " behind replays\n";
  out << std::flush;
}

Json way_json(const Timed& timed, const std::vector<double>& samples, const std::vector<double>& mhz) {
  const Spread us = spread_of(samples);
  Json json = {{"us", to_json(us)}};
  if (timed.flops > 0) json["tflops"] = timed.flops / us.median * 1e-6;
  json["gb_per_s"] = timed.bytes / us.median * 1e-3;
  if (!mhz.empty()) json["clock_mhz"] = to_json(spread_of(mhz));
  return json;
}

Json to_json(const Timed& timed) {
  Json json = {
      {"problem", timed.name}, {"target", timed.target}, {"ok", timed.unwritten.empty()}, {"kernels", timed.kernels}};
  if (!timed.choice.empty()) json["tile"] = timed.choice;
  if (!timed.unwritten.empty()) json["error"] = timed.unwritten;
  json.update({{"flops", timed.flops}, {"bytes", timed.bytes}});
  json["predicted_us"] = std::isfinite(timed.predicted_us) ? Json(timed.predicted_us) : Json(nullptr);
  json["single"] = way_json(timed, timed.single_us, timed.single_mhz);
  json["replayed"] = way_json(timed, timed.replayed_us, timed.replayed_mhz);
  json["replayed"]["calls"] = timed.calls;
  json["replayed"]["graph"] = timed.recorded;
  if (!timed.schedules.empty()) json["schedules"] = timed.schedules;
  if (!timed.clock_mhz.empty()) json["sm_clock_mhz"] = to_json(spread_of(timed.clock_mhz));
  return json;
}

/// No device, no time: says of what.
int name_untimed(Bench& bench, const Work& work) {
  Json problems = Json::array();
  const std::string target = bench.runtime.target_of(bench.device);
  const std::string why =
      cat("the CPU model (", target,
          ") has no time of its own; give a GPU, or take --compile, which needs none, or --dispatch with --driver");
  for (const auto& [op, workload] : work) {
    const std::string name = name_of(*op, workload.trial);
    *bench.arguments.err << "not timed: " << name << ": " << why << '\n';
    problems.push_back({{"problem", name}, {"ok", false}, {"error", why}});
  }
  write_json(bench.arguments, {{"mode", "op"}, {"target", target}, {"problems", std::move(problems)}});
  return kExitFailures;
}

}  // namespace

int run_calls(const BenchArguments& arguments) {
  if (arguments.ops.empty()) bad_use("give --op and its sizes, or another way of working; see --help");
  if (arguments.targets.size() > 1)
    bad_use(cat("--target is given ", arguments.targets.size(), " times; allowed without --compile: one"));
  Bench bench(arguments);
  Work work;
  for (const std::string& name : arguments.ops)
    for (ops::Workload& workload : ops::workloads(find_op(name), arguments.op_flags, *bench.target(find_op(name)).arch))
      work.emplace_back(&find_op(name), std::move(workload));
  if (bench.device.kind == DeviceKind::cpu) return name_untimed(bench, work);
  Json problems = Json::array();
  int failures = 0;
  for (const auto& [op, workload] : work) {
    try {
      const Timed timed = time_workload(bench, *op, workload);
      print(bench, timed, *arguments.out);
      problems.push_back(to_json(timed));
      if (timed.unwritten.empty()) continue;
      *arguments.err << "failed: " << timed.name << ": " << timed.unwritten << '\n';
    } catch (const Error& error) {
      *arguments.err << "failed: " << name_of(*op, workload.trial) << ": " << error.what() << '\n' << error.log;
      problems.push_back({{"problem", name_of(*op, workload.trial)}, {"ok", false}, {"error", error.what()}});
    }
    ++failures;
  }
  write_json(
      arguments,
      {{"mode", "op"}, {"device", bench.device_name}, {"seed", arguments.seed}, {"problems", std::move(problems)}});
  return failures > 0 ? kExitFailures : kExitOk;
}

}  // namespace tj::tools
