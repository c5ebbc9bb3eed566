// Preparations in C.
#include <tilejit/tilejit.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <tilejit/preparation.hpp>

#include "api/c_custom.hpp"
#include "api/c_errors.hpp"
#include "api/c_runtime.hpp"
#include "ops/op.hpp"
#include "support/c_structs.hpp"
#include "support/fail.hpp"

struct tj_preparation {
  tj::Preparation list;
};

namespace {

using namespace tj::c_api;
using namespace tj::support::c_structs;
using tj::support::cat;

/// A copy shares the list.
tj::Preparation list_of(const tj_preparation* list) {
  if (list == nullptr) refuse("list is null; allowed: what tj_preparation_create() or tj_prepare_async() gave");
  return list->list;
}

tj::PrepareOptions to_prepare_options(const tj_prepare_options* given) {
  tj::PrepareOptions options;
  if (given == nullptr) return options;
  const tj_prepare_options o = read(given, "options");
  check_reserved(o.reserved, "options.reserved");
  options.time_limit_s = o.time_limit_s;
  if (o.threads != 0) options.threads = o.threads;
  return options;
}

void add_call(tj::Preparation& list, const char* op, const void* args) {
  const tj::ops::Op& found = tj::detail::find_op(text_of(op, "op", "fmha"));
  found.from_c(args, [&](const void* own) { list.add(found.name(), own); });
}

void write_progress(const tj::Progress& progress, tj_progress* out) {
  if (out == nullptr) return;
  std::uint64_t size = 0;
  std::memcpy(&size, out, sizeof size);
  tj_progress filled{};
  filled.size = size;
  filled.kernels = progress.kernels;
  filled.ready = progress.ready;
  filled.failed = progress.failed;
  filled.left_out = progress.left_out;
  filled.seconds = progress.seconds;
  filled.ended = progress.ended() ? 1 : 0;
  std::memcpy(out, &filled, std::min<std::size_t>(size, sizeof filled));
}

}  // namespace

extern "C" {

tj_status tj_preparation_create(tj_runtime* runtime, const tj_prepare_options* options, tj_preparation** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    tj::Runtime& of = runtime_of(runtime);
    *out = std::make_unique<tj_preparation>(tj_preparation{tj::Preparation(of, to_prepare_options(options))}).release();
  });
}

void tj_preparation_destroy(tj_preparation* list) { delete list; }

tj_status tj_preparation_add(tj_preparation* list, const char* op, const void* args) {
  return guarded([&] {
    tj::Preparation of = list_of(list);
    add_call(of, op, args);
  });
}

tj_status tj_preparation_add_flags(tj_preparation* list, const char* op, const char* flags, tj_device device) {
  return guarded([&] {
    tj::Preparation of = list_of(list);
    const char* const name = text_of(op, "op", "fmha");
    of.add_flags(name, text_of(flags, "flags", "--dtype f16"), to_device(device, "device"));
  });
}

tj_status tj_preparation_add_custom(tj_preparation* list, const tj_custom* kernel, tj_device device) {
  return guarded([&] {
    tj::Preparation of = list_of(list);
    of.add(kernel_of(kernel), to_device(device, "device"));
  });
}

tj_status tj_prepare_async(tj_runtime* runtime, const char* op, const void* args, const tj_prepare_options* options,
                           tj_preparation** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    tj::Preparation list(runtime_of(runtime), to_prepare_options(options));
    auto made = std::make_unique<tj_preparation>(tj_preparation{list});
    add_call(list, op, args);
    *out = made.release();
  });
}

tj_status tj_preparation_cancel(tj_preparation* list) {
  return guarded([&] { list_of(list).cancel(); });
}

tj_status tj_preparation_wait(const tj_preparation* list, double seconds, tj_progress* progress) {
  return guarded([&] {
    const tj::Preparation of = list_of(list);
    if (progress != nullptr) {
      std::uint64_t size = 0;
      std::memcpy(&size, progress, sizeof size);
      check_size(size, "progress", sizeof(tj_progress));
    }
    if (seconds != seconds) refuse("seconds is no number; allowed: 0 and up, or a negative number for no limit");
    write_progress(of.wait(seconds), progress);
  });
}

tj_status tj_preparation_get(const tj_preparation* list, size_t index, int32_t* state, tj_kernel_report* report) {
  return guarded([&] {
    const tj::Preparation of = list_of(list);
    check_report(report);
    std::vector<tj::PreparedKernel> kernels = of.kernels();
    if (index >= kernels.size())
      refuse(cat("index is ", index, "; allowed: below ", kernels.size(), ", the kernels that were added"));
    tj::PreparedKernel& kernel = kernels[index];
    if (state != nullptr) *state = static_cast<std::int32_t>(kernel.state);
    write_report(std::move(kernel.report), report);
    if (kernel.error) throw tj::Error(*kernel.error);
  });
}

}  // extern "C"
