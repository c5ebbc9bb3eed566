// Calls of ops in C: by the op's name and structure, or by flags.
//
// Decides nothing about ops: each reads its own structure.
#include <tilejit/tilejit.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/ladder.hpp>
#include <tilejit/runtime.hpp>

#include "api/c_errors.hpp"
#include "api/c_runtime.hpp"
#include "ops/op.hpp"
#include "support/c_structs.hpp"
#include "support/lasting.hpp"

namespace {

using tj::KernelReport;
using tj::Stream;
using namespace tj::c_api;
using namespace tj::support::c_structs;

/// Calls use(name, args) with the op's descriptor.
template <class Use>
void with_args(const char* op, const void* args, const Use& use) {
  const tj::ops::Op& found = tj::detail::find_op(text_of(op, "op", "fmha"));
  found.from_c(args, [&](const void* descriptor) { use(found.name(), descriptor); });
}

/// The last one's report.
void write_reports(std::vector<KernelReport>&& reports, tj_kernel_report* report, std::size_t* kernels) {
  if (kernels != nullptr) *kernels = reports.size();
  if (!reports.empty()) write_report(std::move(reports.back()), report);
}

tj::TuneOptions to_tune_options(const tj_tune_options* given) {
  tj::TuneOptions options;
  if (given == nullptr) return options;
  const tj_tune_options o = read(given, "options");
  const std::string only = o.only == nullptr ? "" : o.only;
  for (std::size_t begin = 0; begin < only.size();) {
    const std::size_t end = std::min(only.find(',', begin), only.size());
    options.only.push_back(only.substr(begin, end - begin));
    begin = end + 1;
  }
  options.seed = o.seed;
  if (o.limit < 0) refuse_number("options.limit", o.limit, "0 (all) and up");
  options.limit = o.limit;
  if (o.rounds < 0) refuse_number("options.rounds", o.rounds, "0 (10) and up");
  if (o.rounds > 0) options.rounds = o.rounds;
  return options;
}

void write_tuned(tj::TuneReport&& report, tj_tune_report* out) {
  if (out == nullptr) return;
  thread_local constinit tj::support::PerThread<tj::TuneReport> place;
  tj::TuneReport& kept = place.get();
  kept = std::move(report);
  std::uint64_t size = 0;
  std::memcpy(&size, out, sizeof size);
  tj_tune_report filled{};
  filled.size = size;
  filled.problem = kept.problem.c_str();
  filled.device = kept.device.c_str();
  filled.target = kept.target.c_str();
  filled.chosen = "";
  if (kept.chosen >= 0) {
    const tj::TunedVariant& chosen = kept.variants.at(static_cast<std::size_t>(kept.chosen));
    filled.chosen = chosen.name.c_str();
    filled.measured_us = chosen.measured_us;
  }
  if (kept.usual >= 0) filled.usual_us = kept.variants.at(static_cast<std::size_t>(kept.usual)).measured_us;
  filled.flops = kept.flops;
  filled.variants = static_cast<std::int32_t>(kept.variants.size());
  filled.measured = static_cast<std::int32_t>(
      std::count_if(kept.variants.begin(), kept.variants.end(), [](const auto& each) { return each.times > 0; }));
  filled.kept = kept.kept ? 1 : 0;
  std::memcpy(out, &filled, std::min<std::size_t>(size, sizeof filled));
}

}  // namespace

extern "C" {

tj_status tj_run(tj_runtime* runtime, const char* op, const void* args, void* stream) {
  return guarded([&] {
    tj::Runtime& of = runtime_of(runtime);
    with_args(op, args, [&](std::string_view name, const void* own) { of.run(name, own, Stream{stream}); });
  });
}

tj_status tj_prepare(tj_runtime* runtime, const char* op, const void* args, tj_kernel_report* report) {
  return guarded([&] {
    check_report(report);
    tj::Runtime& of = runtime_of(runtime);
    with_args(op, args, [&](std::string_view name, const void* own) { write_report(of.prepare(name, own), report); });
  });
}

tj_status tj_prepare_flags(tj_runtime* runtime, const char* op, const char* flags, tj_device device,
                           tj_kernel_report* report, size_t* kernels) {
  return guarded([&] {
    check_report(report);
    tj::Runtime& of = runtime_of(runtime);
    const char* const name = text_of(op, "op", "fmha");
    write_reports(of.prepare_flags(name, text_of(flags, "flags", "--dtype f16"), to_device(device, "device")), report,
                  kernels);
  });
}

tj_status tj_warm_flags(tj_runtime* runtime, const char* op, const char* flags, const char* target,
                        tj_kernel_report* report, size_t* kernels) {
  return guarded([&] {
    check_report(report);
    tj::Runtime& of = runtime_of(runtime);
    const char* const name = text_of(op, "op", "fmha");
    const char* const words = text_of(flags, "flags", "--dtype f16");
    write_reports(of.warm_flags(name, words, text_of(target, "target", "sm_90a")), report, kernels);
  });
}

tj_status tj_run_rung(tj_runtime* runtime, const char* op, const void* args, int32_t rung, void* stream) {
  return guarded([&] {
    tj::Ladder ladder(runtime_of(runtime));
    with_args(op, args, [&](std::string_view name, const void* own) { ladder.run(name, own, rung, Stream{stream}); });
  });
}

tj_status tj_prepare_rung(tj_runtime* runtime, const char* op, const void* args, int32_t rung,
                          tj_kernel_report* report) {
  return guarded([&] {
    check_report(report);
    tj::Ladder ladder(runtime_of(runtime));
    with_args(op, args,
              [&](std::string_view name, const void* own) { write_report(ladder.prepare(name, own, rung), report); });
  });
}

tj_status tj_tune(tj_runtime* runtime, const char* op, const void* args, const tj_tune_options* options,
                  tj_tune_report* report) {
  return guarded([&] {
    if (report != nullptr) {
      std::uint64_t size = 0;
      std::memcpy(&size, report, sizeof size);
      check_size(size, "report", sizeof(tj_tune_report));
    }
    tj::Runtime& of = runtime_of(runtime);
    const tj::TuneOptions how = to_tune_options(options);
    with_args(op, args, [&](std::string_view name, const void* own) { write_tuned(of.tune(name, own, how), report); });
  });
}

}  // extern "C"
