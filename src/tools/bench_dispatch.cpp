// tj-bench --dispatch: what the host pays for a hot call, beside the bare launches beneath it.
//
// Decides how host time is taken and what it is compared with. The driver is the one that the process finds: a GPU's,
// or one that does nothing (--driver), whose own time is then in both numbers. Invariant: all that is compared is
// measured in turns in one run, with the same parameters. The device is idle when a sample begins, and its queue is
// never full.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <ostream>

#include <tilejit/tilejit.hpp>

#include "ops/common/tensor_list.hpp"
#include "ops/common/workloads.hpp"
#include "prepared.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "tools/bench.hpp"
#include "tools/bench_memory.hpp"
#include "tools/bench_numbers.hpp"
#include "tools/options.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::Json;
using Clock = std::chrono::steady_clock;

constexpr int kDispatchRounds = 200;
constexpr int kCallsInSample = 64;  // far fewer than a queue holds, far more than reading the clock costs
constexpr int kDiskHits = 10;

/// The times of one problem, in nanoseconds for a call.
struct Dispatch {
  std::string name, kernels;
  int launches = 0;
  std::vector<double> call, layer, bare,
      difference;             ///< with the device's context current, as in a program that uses the device
  std::vector<double> alone;  ///< a call without
  std::vector<double> plan, plan_difference;  ///< of a run of a plan, with a workspace of its own
  std::vector<double> prepare, disk_us;
  std::int64_t allocations = -1, plan_allocations = -1;  ///< of a call and of a run; -1: nobody counts
};

double ns_of(int calls, const std::function<void()>& work) {
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / calls;
}

template <class Call>
double sample(Runtime& runtime, Device device, const Call& call) {
  const double ns = ns_of(kCallsInSample, [&] {
    for (int i = 0; i < kCallsInSample; ++i) call();
  });
  runtime.synchronize(device);
  return ns;
}

/// Counts in one call. The first of all calls may make room for later ones: it is not this one.
std::int64_t allocations_of(const BenchArguments& arguments, const std::function<void()>& call) {
  if (!arguments.allocations) return -1;
  const std::uint64_t before = arguments.allocations();
  call();
  return static_cast<std::int64_t>(arguments.allocations() - before);
}

/// The addresses that a run of a plan of args takes.
std::vector<void*> addresses_of(const ops::Op& op, const void* args) {
  const std::shared_ptr<void> copy = op.copy(args);
  ops::TensorList list;
  op.tensors(copy.get(), list);
  std::vector<void*> addresses;
  for (const ops::ListedTensor& each : list.entries()) addresses.push_back(each.tensor->data);
  return addresses;
}

/// The run of a plan, and prepare(); nothing of ops that are steps of others and have neither.
void time_plans(const BenchArguments& arguments, Runtime& runtime, const ops::Op& op, const void* args, int rounds,
                const std::function<double()>& bare, launch::Driver& driver, Device device, Dispatch& result) {
  if (!op.described()) return;
  const Plan plan = runtime.plan(op.name(), args);
  const std::vector<void*> addresses = addresses_of(op, args);
  const std::shared_ptr<void> workspace =
      plan.workspace_bytes() > 0 ? driver.allocate(device.index, plan.workspace_bytes()) : nullptr;
  const auto run = [&] { plan.run(addresses, {}, workspace.get()); };
  run();
  runtime.synchronize(device);
  result.plan_allocations = allocations_of(arguments, run);
  driver.time_ms(device.index, [&] {
    for (int round = 0; round < rounds; ++round) {
      result.plan.push_back(sample(runtime, device, run));
      result.plan_difference.push_back(result.plan.back() - bare());
    }
  });
  for (int round = 0; round < rounds; ++round)
    result.prepare.push_back(sample(runtime, device, [&] { runtime.prepare(op.name(), args); }));
}

void time_calls(const BenchArguments& arguments, Runtime& runtime, CallPreparer& preparer, const ops::Op& op,
                const void* args, Dispatch& result) {
  const PreparedCall prepared = preparer.prepare(op, args);
  const Device device = prepared.device;
  for (const PreparedLaunch& launch : prepared.launches)
    result.kernels += cat(result.kernels.empty() ? "" : ", ", launch.kernel->report.name);
  result.launches = static_cast<int>(prepared.launches.size());
  const auto call = [&] { runtime.run(op.name(), args); };
  const auto layer = [&] { prepared.launch({}); };
  const auto bare = [&] {
    const double ns = ns_of(kCallsInSample, [&] {
      for (const PreparedLaunch& launch : prepared.launches) launch.launch_bare({}, kCallsInSample);
    });
    runtime.synchronize(device);
    return ns;
  };
  call();
  layer();
  runtime.synchronize(device);
  result.allocations = allocations_of(arguments, call);
  const int rounds = arguments.rounds > 0 ? arguments.rounds : kDispatchRounds;
  preparer.backends().driver(device)->time_ms(device.index, [&] {  // whose context is current meanwhile
    for (int round = 0; round < rounds; ++round) {
      result.call.push_back(sample(runtime, device, call));
      result.bare.push_back(bare());
      result.layer.push_back(sample(runtime, device, layer));
      result.difference.push_back(result.call.back() - result.bare.back());
    }
  });
  for (int round = 0; round < rounds; ++round) result.alone.push_back(sample(runtime, device, call));
  time_plans(arguments, runtime, op, args, rounds, bare, *preparer.backends().driver(device), device, result);
}

/// A runtime that has its driver and nothing else, again and again. No time where the disk did not have the kernel.
void time_disk_hits(const BenchArguments& arguments, Device device, const ops::Op& op, const void* args,
                    Dispatch& result) {
  for (int i = 0; i < kDiskHits && op.described(); ++i) {
    Runtime runtime(bench_options(arguments));
    runtime.target_of(device);  // opens the driver
    KernelReport report;
    const double ns = ns_of(1, [&] { report = runtime.prepare(op.name(), args); });
    if (report.origin == KernelOrigin::disk) result.disk_us.push_back(ns * 1e-3);
  }
}

struct Problem {
  const ops::Op* op = nullptr;
  ops::Trial trial;
};
/// Small ones where no flags name them: what the device does meanwhile is not what is timed.
std::vector<Problem> problems_of(const BenchArguments& arguments, Backends& backends, Device device) {
  std::vector<const ops::Op*> chosen;
  for (const std::string& name : arguments.ops) chosen.push_back(&find_op(name));
  if (chosen.empty()) chosen = ops::all();
  std::vector<Problem> problems;
  for (const ops::Op* op : chosen) {
    const arch::Arch& arch = *backends.target(device, *op).arch;
    try {
      if (arguments.op_flags.empty()) {
        problems.push_back({op, op->trials({}, arch).front()});
        continue;
      }
      for (ops::Workload& workload : ops::workloads(*op, arguments.op_flags, arch))
        problems.push_back({op, std::move(workload.trial)});
    } catch (const Error& e) {  // nobody named an op that the target does not serve
      if (e.code != Code::unsupported || !arguments.ops.empty()) throw;
    }
  }
  return problems;
}

std::string median_text(const std::vector<double>& samples, int digits) {
  return samples.empty() ? "-" : number_text(spread_of(samples).median, digits);
}

void print(const std::vector<Dispatch>& results, const std::string& where, int rounds, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {{"problem", "launches", "call ns", "p10", "p90", "bare launch ns",
                                                 "call minus bare", "plan ns", "plan minus bare", "launch layer ns",
                                                 "no context ns", "allocations", "prepare ns", "disk hit us"}};
  for (const Dispatch& result : results) {
    const Spread call = spread_of(result.call);
    rows.push_back({result.name, cat(result.launches), number_text(call.median, 0), number_text(call.p10, 0),
                    number_text(call.p90, 0), median_text(result.bare, 0), median_text(result.difference, 0),
                    median_text(result.plan, 0), median_text(result.plan_difference, 0), median_text(result.layer, 0),
                    median_text(result.alone, 0), result.allocations < 0 ? "-" : cat(result.allocations),
                    median_text(result.prepare, 0), median_text(result.disk_us, 1)});
  }
  print_table(rows, out);
  out << "on " << where << "; medians of " << rounds << " samples of " << kCallsInSample
      << " calls, taken in turns. 'bare launch': the driver's own call with the same parameters;\n"
      << "'launch layer': the library's, without arguments that are checked, kernels that are looked up and tensor "
         "maps; 'plan': a run of a plan;\n'no context': a call "
      << "where the device's context is not current. 'prepare': of what is in memory; 'disk hit': in a runtime that "
         "has only its driver\n";
}

Json to_json(const Dispatch& result) {
  Json json = {{"problem", result.name}, {"kernels", result.kernels}, {"launches", result.launches}};
  const auto add = [&](const char* name, const std::vector<double>& samples) {
    json[name] = samples.empty() ? Json(nullptr) : to_json(spread_of(samples));
  };
  add("call_ns", result.call);
  add("bare_ns", result.bare);
  add("call_minus_bare_ns", result.difference);
  add("plan_ns", result.plan);
  add("plan_minus_bare_ns", result.plan_difference);
  add("layer_ns", result.layer);
  add("no_context_ns", result.alone);
  add("prepare_ns", result.prepare);
  add("disk_hit_us", result.disk_us);
  json["allocations"] = result.allocations < 0 ? Json(nullptr) : Json(result.allocations);
  json["plan_allocations"] = result.plan_allocations < 0 ? Json(nullptr) : Json(result.plan_allocations);
  return json;
}

}  // namespace

int run_dispatch(const BenchArguments& arguments) {
  if (arguments.targets.size() > 1)
    bad_use(cat("--target is given ", arguments.targets.size(), " times; allowed without --compile: one"));
  Runtime runtime(bench_options(arguments));
  const Device device = runtime.default_device();
  if (device.kind == DeviceKind::cpu)
    support::fail(Stage::launch, Code::unsupported,
                  cat("calls on ", runtime.target_of(device),
                      " run on the CPU, where there is no launch to compare with; give a GPU, or --driver with a "
                      "libcuda.so.1 that does nothing"));
  const arch::Target target = arch::parse_target(runtime.target_of(device));
  CallPreparer preparer(support::resolve_settings(bench_options(arguments)), bench_log(arguments));
  const auto driver = preparer.backends().driver(device);
  const std::string where = cat(driver->device_info(device.index).name, " (", target.name(), ")");
  std::vector<Dispatch> results;
  for (const Problem& problem : problems_of(arguments, preparer.backends(), device)) {
    Dispatch result;
    result.name = cat(problem.op->name(), ' ', problem.trial.name);
    const WorkloadMemory memory(problem.trial, *driver, device, arguments.seed);
    try {
      memory.with_args([&](const void* args) {
        time_calls(arguments, runtime, preparer, *problem.op, args, result);
        time_disk_hits(arguments, device, *problem.op, args, result);
      });
      results.push_back(std::move(result));
    } catch (const Error& e) {
      if (e.code != Code::unsupported || !arguments.ops.empty()) throw;
      *arguments.err << "left out, as " << target.name() << " does not serve it: " << result.name << '\n';
    }
  }
  const int rounds = arguments.rounds > 0 ? arguments.rounds : kDispatchRounds;
  print(results, where, rounds, *arguments.out);
  Json problems = Json::array();
  for (const Dispatch& result : results) problems.push_back(to_json(result));
  write_json(arguments, {{"mode", "dispatch"},
                         {"device", where},
                         {"rounds", rounds},
                         {"calls_in_sample", kCallsInSample},
                         {"problems", std::move(problems)}});
  return kExitOk;
}

}  // namespace tj::tools
