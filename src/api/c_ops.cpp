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
#include "api/c_tune.hpp"
#include "ops/op.hpp"
#include "support/c_structs.hpp"

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
    check_tune_report(report);
    tj::Runtime& of = runtime_of(runtime);
    const tj::TuneOptions how = to_tune_options(options);
    with_args(op, args, [&](std::string_view name, const void* own) { write_tuned(of.tune(name, own, how), report); });
  });
}

}  // extern "C"
