// tj-bench --start: what a process pays before its first calls, whose kernels lie in the cache or in a pack.
//
// Decides which kernels are got ready, and what counts as a compiler. Decides nothing about how they are found. The
// device's own start is timed apart. Invariant: a run in which anything was compiled, or a compiler's library was
// opened, is a failure, whatever the times.
#include <link.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "ops/op.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "tools/bench.hpp"
#include "tools/bench_numbers.hpp"
#include "tools/options.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::Json;
using Clock = std::chrono::steady_clock;

/// Files of this process that are a compiler's.
std::set<std::string> compilers_in_process() {
  std::set<std::string> found;
  const auto look = [](dl_phdr_info* library, std::size_t, void* out) {
    const std::string path = library->dlpi_name, name = path.substr(path.rfind('/') + 1);
    for (const char* each : {"libnvrtc", "libhiprtc", "libamd_comgr"})
      if (name.starts_with(each)) static_cast<std::set<std::string>*>(out)->insert(path);
    return 0;
  };
  ::dl_iterate_phdr(look, &found);
  return found;
}

std::string text_of(const ops::Flags& flags) {
  std::string text;
  for (const auto& [name, values] : flags) {
    text += cat(text.empty() ? "--" : " --", name, ' ');
    for (const std::string& value : values) text += (text.back() == ' ' ? "" : ",") + value;
  }
  return text;
}

/// The kernels of the ops that were named, else the default set of each op that the device has kernels of.
std::vector<KernelReport> get_ready(const BenchArguments& arguments, Runtime& runtime, Device device) {
  std::vector<std::string> names = arguments.ops;
  if (names.empty())
    for (const ops::Op* op : ops::all())
      if (op->described()) names.emplace_back(op->name());
  std::vector<KernelReport> reports;
  for (const std::string& name : names) {
    try {
      for (KernelReport& report : runtime.prepare_flags(name, text_of(arguments.op_flags), device))
        reports.push_back(std::move(report));
    } catch (const Error& e) {  // nobody named an op that the target does not serve
      if (e.code != Code::unsupported || !arguments.ops.empty()) throw;
    }
  }
  return reports;
}

}  // namespace

int run_start(const BenchArguments& arguments) {
  if (arguments.targets.size() > 1)
    bad_use(cat("--target is given ", arguments.targets.size(), " times; allowed without --compile: one"));
  const std::set<std::string> before = compilers_in_process();
  Runtime runtime(bench_options(arguments));
  const Clock::time_point begin = Clock::now();
  const Device device = runtime.default_device();
  const std::string target = runtime.target_of(device);
  runtime.allocate(device, 1);
  const double device_ms = ms_since(begin);

  const Clock::time_point ready = Clock::now();
  const std::vector<KernelReport> reports = get_ready(arguments, runtime, device);
  const double kernels_ms = ms_since(ready);

  std::set<std::string> opened = compilers_in_process();
  for (const std::string& path : before) opened.erase(path);
  const Counters counters = runtime.counters();
  std::vector<std::string> compiled;
  for (const KernelReport& report : reports)
    if (report.origin == KernelOrigin::compiled) compiled.push_back(report.name);
  const auto found = reports.size() - compiled.size();

  std::ostream& out = *arguments.out;
  out << "on " << target << ": the device was there in " << number_text(device_ms, 1) << " ms (driver and context), "
      << reports.size() << " kernels beside that in " << number_text(kernels_ms, 1) << " ms ("
      << number_text(counters.load_s * 1e3, 1) << " ms of them in the driver's loading)\n"
      << found << " kernels were in the cache, " << compiled.size() << " were compiled\n"
      << "compiler libraries opened: " << (opened.empty() ? "none" : "");
  for (const std::string& path : opened) out << (path == *opened.begin() ? "" : ", ") << path;
  out << '\n';
  if (!compiled.empty()) {
    *arguments.err << "compiled, as the cache did not have them: ";
    for (const std::string& name : compiled) *arguments.err << (name == compiled.front() ? "" : ", ") << name;
    *arguments.err << "; make them ahead by tj-warm, with the same flags, and give --cache-dir\n";
  }
  write_json(arguments, {{"mode", "start"},
                         {"target", target},
                         {"device_ms", device_ms},
                         {"kernels", reports.size()},
                         {"kernels_ms", kernels_ms},
                         {"load_ms", counters.load_s * 1e3},
                         {"compiled", compiled},
                         {"compilers_opened", opened}});
  return compiled.empty() && opened.empty() && !reports.empty() ? kExitOk : kExitFailures;
}

}  // namespace tj::tools
