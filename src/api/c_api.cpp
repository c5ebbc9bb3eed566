// The C ABI over tj::Runtime.
//
// Decides how structures, statuses and error texts cross the boundary. Decides nothing about ops. Values that C++ could
// not even hold (an unknown enum number, a rank above the maximum) are refused here, all else by the C++ call.
// Invariant: nothing is thrown into C. Functions that return a status go through guarded(). The others
// (tj_options_init, tj_runtime_destroy, the texts of the last error, names and versions) call nothing that throws.
#include <tilejit/tilejit.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include <tilejit/tilejit.hpp>

#include "api/c_errors.hpp"
#include "api/c_options.hpp"
#include "api/c_runtime.hpp"
#include "support/c_structs.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"
#include "support/uncancelled.hpp"

namespace {

using tj::Code;
using tj::support::cat;
using namespace tj::c_api;
using namespace tj::support::c_structs;

// The numbers of the two interfaces are one.
static_assert(TJ_INVALID_ARGUMENT == static_cast<int>(Code::invalid_argument) &&
              TJ_INTERNAL == static_cast<int>(Code::internal));
static_assert(TJ_COLD_IN_CAPTURE == static_cast<int>(Code::cold_in_capture) &&
              TJ_MODEL_FAULT == static_cast<int>(Code::model_fault) &&
              TJ_NOT_IN_CACHE == static_cast<int>(Code::not_in_cache));
static_assert(TJ_MISS_QUICK == static_cast<int>(tj::MissPolicy::quick) &&
              TJ_PREPARE_LEFT_OUT == static_cast<int>(tj::PrepareState::left_out));
static_assert(TJ_E4M3 == static_cast<int>(tj::DType::e4m3) && TJ_HIP == static_cast<int>(tj::DeviceKind::hip));
static_assert(TJ_COMPILED == static_cast<int>(tj::KernelOrigin::compiled) &&
              TJ_LOG_OFF == static_cast<int>(tj::LogLevel::off));
static_assert(TJ_MAX_RANK == tj::kMaxRank && TJ_ACTIVATION_GELU_TANH == static_cast<int>(tj::Activation::gelu_tanh));

}  // namespace

extern "C" {

void tj_options_init(tj_options* options) {
  if (options == nullptr) return;
  *options = tj_options{};
  options->size = sizeof(tj_options);
  options->cache_max_size_bytes = -1;
  options->log_level = TJ_LOG_DEFAULT;
  options->use_disk_cache = 1;
  options->use_tuning = -1;
  options->wait_limit_s = -1;
  options->compile_limit_s = -1;
  options->on_miss = TJ_MISS_DEFAULT;
  options->code_max_size_bytes = -1;
}

tj_status tj_runtime_create(const tj_options* options, tj_runtime** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    auto made = std::make_unique<tj_runtime>();
    made->owned = std::make_unique<tj::Runtime>(to_options(options));
    made->runtime = made->owned.get();
    *out = made.release();
  });
}

void tj_runtime_destroy(tj_runtime* runtime) {
  if (runtime == nullptr || !runtime->owned || tj::support::locks_are_lost()) return;
  const tj::support::Uncancelled whole;
  runtime->memory.clear();  // before the drivers that it came from
  delete runtime;
}

tj_status tj_runtime_instance(tj_runtime** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    // Never freed: like Runtime::instance() it outlives every user.
    static constinit tj::support::Lasting<tj_runtime> instance;
    tj::Runtime& runtime = tj::Runtime::instance();  // outside the section that a fork waits for
    *out = &instance.get([&] { return tj_runtime{{}, &runtime, {}, {}}; });
  });
}

tj_status tj_default_device(tj_runtime* runtime, tj_device* out) {
  return guarded([&] {
    need(out, "out");
    const tj::Device device = runtime_of(runtime).default_device();
    *out = {static_cast<std::int32_t>(device.kind), device.index};
  });
}

tj_status tj_target_of(tj_runtime* runtime, tj_device device, const char** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    thread_local constinit tj::support::PerThread<std::string> place;
    std::string& kept = place.get();
    kept = runtime_of(runtime).target_of(to_device(device, "device"));
    *out = kept.c_str();
  });
}

tj_status tj_counters(tj_runtime* runtime, const char* format, const char** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    const std::string_view form = format != nullptr ? format : "json";
    if (form != "json" && form != "prometheus")
      refuse(cat("format is '", tj::support::shown(form), "'; allowed: null, json, prometheus"));
    const tj::Counters counters = runtime_of(runtime).counters();
    thread_local constinit tj::support::PerThread<std::string> place;
    std::string& kept = place.get();
    kept = form == "json" ? counters.json() : counters.prometheus();
    *out = kept.c_str();
  });
}

tj_status tj_trim(tj_runtime* runtime, const tj_device* device, tj_trim_report* report) {
  return guarded([&] {
    std::uint64_t size = 0;
    if (report != nullptr) {
      std::memcpy(&size, report, sizeof size);
      check_size(size, "report", sizeof(tj_trim_report));
    }
    const tj::TrimReport freed =
        runtime_of(runtime).trim(device != nullptr ? std::optional(to_device(*device, "device")) : std::nullopt);
    const tj_trim_report filled{size, freed.kernels, freed.code_bytes, freed.workspace_bytes};
    if (report != nullptr) std::memcpy(report, &filled, std::min<std::size_t>(size, sizeof filled));
  });
}

tj_status tj_allocate(tj_runtime* runtime, tj_device device, size_t bytes, void** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    if (bytes == 0) refuse("bytes is 0; allowed: at least 1");
    std::shared_ptr<void> memory = runtime_of(runtime).allocate(to_device(device, "device"), bytes);
    void* const address = memory.get();
    const std::lock_guard lock(runtime->mutex);
    runtime->memory.emplace(address, std::move(memory));
    *out = address;
  });
}

tj_status tj_free(tj_runtime* runtime, void* memory) {
  return guarded([&] {
    runtime_of(runtime);
    if (memory == nullptr) return;
    std::shared_ptr<void> last;  // freed after the lock
    const std::lock_guard lock(runtime->mutex);
    const auto found = runtime->memory.find(memory);
    if (found == runtime->memory.end())
      refuse(cat("memory is ", memory,
                 "; allowed: what tj_allocate() of this runtime gave and tj_free() did not get yet"));
    last = std::move(found->second);
    runtime->memory.erase(found);
  });
}

tj_status tj_copy(tj_runtime* runtime, void* dst, tj_device dst_device, const void* src, tj_device src_device,
                  size_t bytes) {
  return guarded([&] {
    tj::Runtime& to = runtime_of(runtime);
    const tj::Device dst_place = to_device(dst_device, "dst_device"), src_place = to_device(src_device, "src_device");
    if (bytes == 0) return;
    if (dst == nullptr || src == nullptr)
      refuse(cat(dst == nullptr ? "dst" : "src", " is null; allowed: the address of ", bytes, " bytes"));
    to.copy(dst, dst_place, src, src_place, bytes);
  });
}

tj_status tj_synchronize(tj_runtime* runtime, tj_device device, void* stream) {
  return guarded([&] { runtime_of(runtime).synchronize(to_device(device, "device"), tj::Stream{stream}); });
}

tj_status tj_time_ms(tj_runtime* runtime, tj_device device, tj_status (*work)(void* user), void* user, double* out) {
  tj_status failed = TJ_OK;
  const tj_status status = guarded([&] {
    need(out, "out");
    tj::Runtime& of = runtime_of(runtime);
    if (work == nullptr) refuse("work is null; allowed: a function that enqueues what is timed");
    LastError error;
    *out = of.time_ms(to_device(device, "device"), [&] {
      failed = work(user);
      if (failed != TJ_OK) error = last_error();
    });
    if (failed != TJ_OK) last_error() = std::move(error);
  });
  return status != TJ_OK ? status : failed;
}

const char* tj_last_error(void) { return last_error().message.c_str(); }
const char* tj_last_error_stage(void) { return last_error().stage; }
const char* tj_last_error_log(void) { return last_error().log.c_str(); }
const char* tj_last_error_source_path(void) { return last_error().source_path.c_str(); }

const char* tj_status_name(tj_status status) {
  if (status == TJ_OK) return "ok";
  if (status < TJ_INVALID_ARGUMENT || status > TJ_NOT_IN_CACHE) return "unknown";
  return tj::to_string(static_cast<tj::Code>(status));
}

const char* tj_version(void) { return tj::version(); }
const char* tj_build_id(void) { return tj::build_id(); }

}  // extern "C"
