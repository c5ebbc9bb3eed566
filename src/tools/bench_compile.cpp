// tj-bench --compile: how long each step of making a kernel takes, for each target.
//
// Decides which kernels are made, how often, and what is printed. The steps are the pipeline's own (pipeline.hpp);
// no kernel that was made before is looked at, in the cache or elsewhere. Invariant: a time is that of the step as a
// first call pays it. A compiler that is a process runs again to tell its phases apart; these runs are not counted in
// its time.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <ostream>
#include <utility>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "arch/fact_file.hpp"
#include "arch/named_target.hpp"
#include "backends.hpp"
#include "maker.hpp"
#include "pipeline.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/text.hpp"
#include "tools/bench.hpp"
#include "tools/bench_numbers.hpp"
#include "tools/documents.hpp"
#include "tools/facts.hpp"
#include "tools/options.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::Json;
using Clock = std::chrono::steady_clock;

/// The backend, asked for its phases.
class PhasedCompiler final : public compile::Compiler {
 public:
  explicit PhasedCompiler(compile::Compiler& of) : of_(of) {}
  compile::Identity identity() const override { return of_.identity(); }
  std::vector<std::string> base_options(std::string_view arch) const override { return of_.base_options(arch); }
  std::string version() override { return of_.version(); }
  compile::Binary compile(const compile::Job& job) override {
    compile::Job asked = job;
    asked.time_phases = true;
    compile::Binary binary = of_.compile(asked);
    phases_ = binary.phases;
    return binary;
  }
  const std::vector<compile::Phase>& phases() const { return phases_; }

 private:
  compile::Compiler& of_;
  std::vector<compile::Phase> phases_;
};

/// A kernel that is made, and what was measured of it.
struct Subject {
  const ops::Op* op = nullptr;
  ops::Request request;
  arch::Target target;
  std::vector<std::pair<std::string, std::vector<double>>> steps;  ///< name, milliseconds of each round
  int registers = 0;
  std::string no_load;  ///< why it was not loaded
  std::string failed;   ///< why there is no kernel

  void add(const std::string& step, double milliseconds) {
    const auto found = std::find_if(steps.begin(), steps.end(), [&](const auto& each) { return each.first == step; });
    if (found != steps.end())
      found->second.push_back(milliseconds);
    else
      steps.push_back({step, {milliseconds}});
  }
};

constexpr const char* kAll = "all";

struct CompileWork {
  std::vector<Subject> subjects;
  std::vector<std::string> left_out;
};

std::vector<arch::Target> targets_of(const BenchArguments& arguments, const Runtime& runtime) {
  std::vector<arch::Target> targets;
  const arch::FactFile* const facts = given_facts(arguments.facts);
  for (const std::string& name : arguments.targets) {
    if (name == kAll) {
      for (const arch::Arch* arch : arch::all())
        targets.push_back(
            {facts != nullptr && arch::fits(*arch, *facts) ? &arch::with_facts(*arch, facts) : arch, false});
    } else if (const std::string meant = support::meant(name, {kAll}); !meant.empty()) {
      bad_use(cat("--target is '", support::shown(name), "'; allowed: names of targets, and ", kAll, meant));
    } else {
      targets.push_back(parse_target(name, "--target", facts));
    }
  }
  if (!targets.empty()) return targets;
  const std::string asked = support::environment_variable("TJ_TARGET").value_or("");
  if (!asked.empty()) return {parse_target(asked, "TJ_TARGET", facts)};
  const Device device = runtime.default_device();
  if (device.kind == DeviceKind::cpu) return {usual_target(facts)};
  return {arch::parse_target(runtime.target_of(device))};
}

/// The first kernel of each op's defaults, or all that flags name.
CompileWork find_work(const BenchArguments& arguments, const Runtime& runtime) {
  std::vector<const ops::Op*> chosen;
  for (const std::string& name : arguments.ops) chosen.push_back(&find_op(name));
  if (chosen.empty()) chosen = ops::all();
  CompileWork work;
  for (const arch::Target& target : targets_of(arguments, runtime))
    for (const ops::Op* op : chosen) {
      std::vector<ops::Request> requests = op->requests_for(arguments.op_flags, *target.arch);
      const auto served = std::stable_partition(requests.begin(), requests.end(), [&](const ops::Request& request) {
        return serves(*op, request, *target.arch) && !(request.beside && arguments.op_flags.empty());
      });
      if (served == requests.begin()) {
        work.left_out.push_back(cat(op->name(), " on ", target.name()));
        continue;
      }
      requests.erase(arguments.op_flags.empty() ? requests.begin() + 1 : served, requests.end());
      for (ops::Request& request : requests) work.subjects.push_back({op, std::move(request), target, {}, 0, {}, {}});
    }
  if (work.subjects.empty())
    support::fail(Stage::target, Code::unsupported,
                  cat("no target that was asked for serves any op that was asked for; ", document("src/arch/README.md"),
                      " lists targets"));
  return work;
}

/// The device that runs the target; empty, with a reason, when none here does.
std::optional<Device> device_of(const arch::Target& target, Backends& backends, std::string& reason) {
  if (target.model) return Device{DeviceKind::cpu, 0};
  const Device device{target.arch->vendor == "amd" ? DeviceKind::hip : DeviceKind::cuda, 0};
  try {
    const arch::Target there = backends.target(device);
    if (arch::runs_on(*target.arch, *there.arch)) return device;
    reason = cat("the device at hand runs ", there.name());
  } catch (const Error& e) {
    reason = e.message;
  }
  return std::nullopt;
}

void make_once(Subject& subject, Backends& backends, const support::Settings& settings) {
  PhasedCompiler compiler(backends.compiler(subject.target));
  const Artifact artifact =
      make(*subject.op, subject.request, subject.target, compiler, settings, support::Log(LogLevel::off, {}));
  subject.add("schedule", artifact.report.schedule_ms);
  subject.add("source", artifact.report.codegen_ms);
  subject.add("compiler", artifact.report.compile_ms);
  for (const compile::Phase& phase : compiler.phases()) subject.add(phase.name, phase.milliseconds);
  subject.registers = artifact.report.registers;
  const std::optional<Device> device = device_of(subject.target, backends, subject.no_load);
  if (!device) return;
  const auto driver = backends.driver(*device);
  const Clock::time_point start = Clock::now();
  driver->load(device->index, artifact.binary, artifact.shape.symbol, artifact.shape.smem_bytes);
  subject.add("load", ms_since(start));
}

/// Opening a compiler costs the first kernel of a process alone: it is a line of its own.
std::map<std::string, double> open_compilers(const CompileWork& work, Backends& backends) {
  std::map<std::string, double> opened;
  for (const Subject& subject : work.subjects) {
    const std::string kind = subject.target.model ? "host" : subject.target.arch->compiler;
    if (opened.count(kind) > 0) continue;
    const Clock::time_point start = Clock::now();
    try {
      const std::string version = backends.compiler(subject.target).version();
      opened[kind] = ms_since(start);
    } catch (const Error&) {  // each of its kernels says so
    }
  }
  return opened;
}

constexpr const char* kPhaseNote =
    "ms, medians. 'compiler' is the whole of it; the columns behind it are its parts, as far as it tells them apart: "
    "NVRTC by its own clock, a compiler\n"
    "that is a process by runs that end earlier, hiprtc not at all. 'load' is there where a device (or the model) "
    "takes the binary.\n";

void print(const CompileWork& work, const std::map<std::string, double>& opened, int rounds, std::ostream& out) {
  std::vector<std::string> columns;
  for (const Subject& subject : work.subjects)
    for (const auto& [name, samples] : subject.steps)
      if (name != "load" && std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
  columns.push_back("load");
  std::vector<std::vector<std::string>> rows = {{"kernel", "target"}};
  rows[0].insert(rows[0].end(), columns.begin(), columns.end());
  rows[0].emplace_back("registers");
  for (const Subject& subject : work.subjects) {
    if (!subject.failed.empty()) continue;
    std::vector<std::string> row = {subject.request.name, subject.target.name()};
    for (const std::string& column : columns) {
      const auto found = std::find_if(subject.steps.begin(), subject.steps.end(),
                                      [&](const auto& step) { return step.first == column; });
      row.push_back(found == subject.steps.end() ? "-" : number_text(spread_of(found->second).median, 1));
    }
    row.push_back(subject.registers > 0 ? cat(subject.registers) : "-");
    rows.push_back(std::move(row));
  }
  print_table(rows, out);
  out << kPhaseNote;
  for (const auto& [kind, ms] : opened) out << "opening " << kind << ": " << number_text(ms, 1) << " ms\n";
  for (const std::string& each : work.left_out) out << "left out, as the target does not serve it: " << each << '\n';
  out << work.subjects.size() << " kernels, " << rounds << " rounds\n";
}

Json to_json(const CompileWork& work, const std::map<std::string, double>& opened, int rounds) {
  Json kernels = Json::array();
  for (const Subject& subject : work.subjects) {
    Json kernel = {{"name", subject.request.name},
                   {"op", subject.request.op},
                   {"target", subject.target.name()},
                   {"ok", subject.failed.empty()}};
    if (!subject.failed.empty()) kernel["error"] = subject.failed;
    Json steps = Json::object();
    for (const auto& [name, samples] : subject.steps) steps[name] = to_json(spread_of(samples));
    if (!subject.no_load.empty()) kernel["not_loaded"] = subject.no_load;
    kernel["ms"] = std::move(steps);
    kernel["registers"] = subject.registers;
    kernels.push_back(std::move(kernel));
  }
  return {{"mode", "compile"},
          {"rounds", rounds},
          {"opening_ms", opened},
          {"left_out", work.left_out},
          {"kernels", std::move(kernels)}};
}

}  // namespace

int run_compile(const BenchArguments& arguments) {
  BenchArguments own = arguments;
  own.targets.clear();  // each kernel has its own
  Options options = bench_options(own);
  Runtime runtime(options);
  options.target = "";
  const support::Settings settings = support::resolve_settings(options);
  CompileWork work = find_work(arguments, runtime);
  const support::Log log = bench_log(own);
  Backends backends(settings, log);
  const std::map<std::string, double> opened = open_compilers(work, backends);
  const int rounds = arguments.rounds > 0 ? arguments.rounds : 1;
  KernelMaker maker(settings, log, backends, nullptr);  // no cache: nothing that is timed here is written there
  int failures = 0;
  const bool asked = !arguments.targets.empty() || support::environment_variable("TJ_TARGET").has_value();
  for (Subject& subject : work.subjects) {
    const auto make_all = [&] {
      subject.steps.clear();
      for (int round = 0; round < rounds; ++round) make_once(subject, backends, settings);
    };
    try {
      if (asked)
        make_all();
      else
        maker.make_for(subject.target, {DeviceKind::cuda, 0}, make_all);
    } catch (const Error& error) {
      subject.failed = error.what();
      ++failures;
      *arguments.err << "failed: " << subject.request.name << " for " << subject.target.name() << ": " << error.what()
                     << '\n'
                     << error.log;
    }
  }
  print(work, opened, rounds, *arguments.out);
  write_json(arguments, to_json(work, opened, rounds));
  return failures > 0 ? kExitFailures : kExitOk;
}

}  // namespace tj::tools
