// The C ABI over tj::Runtime.
//
// Decides how structures, statuses and error texts cross the boundary. Decides nothing about ops: values that C++ could
// not even hold (an unknown enum number, a rank above the maximum) are refused here, all else by the C++ call.
// Invariant: nothing is thrown into C. What returns a status goes through guarded(); the others (tj_options_init,
// tj_runtime_destroy, the texts of the last error, names and versions) call nothing that throws.
#include <tilejit/tilejit.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <unordered_map>

#include <tilejit/tilejit.hpp>

#include "support/fail.hpp"

struct tj_runtime {
  std::unique_ptr<tj::Runtime> owned;  ///< empty for the process-wide one
  tj::Runtime* runtime = nullptr;
  std::mutex mutex;                    ///< guards memory; never held while the runtime is called
  std::unordered_map<void*, std::shared_ptr<void>> memory;
};

namespace {

using tj::Code;
using tj::Stage;
using tj::support::cat;
using tj::support::fail;

struct LastError {
  const char* stage = "";
  std::string message, log, source_path;
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

[[noreturn]] void refuse(const std::string& message, Code code = Code::invalid_argument) { fail(Stage::argument, code, message); }

void record(const char* stage, const char* message, const char* log, const char* source_path) noexcept {
  LastError& error = last_error();
  error.stage = stage;
  try {
    error.message = message;
    error.log = log;
    error.source_path = source_path;
  } catch (...) {  // no memory for the texts: the status still says what happened
  }
}

template <class Work>
tj_status guarded(Work&& work) noexcept {
  try {
    LastError& error = last_error();
    error.stage = "";
    error.message.clear();
    error.log.clear();
    error.source_path.clear();
    work();
    return TJ_OK;
  } catch (const tj::Error& error) {
    record(tj::to_string(error.stage), error.message.c_str(), error.log.c_str(), error.source_path.c_str());
    return static_cast<tj_status>(error.code);
  } catch (const std::bad_alloc&) {
    record("", "out of host memory", "", "");
    return TJ_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    record("", error.what(), "", "");
    return TJ_INTERNAL;
  } catch (...) {
    record("", "an exception of unknown type", "", "");
    return TJ_INTERNAL;
  }
}

void check_size(std::uint64_t size, const char* name, std::size_t known) {
  if (size < known || size > 4096)
    refuse(cat(name, ".size is ", size, "; allowed: sizeof of the structure, ", known, " in version ", tj::version()));
}

/// The caller's structure as this version knows it: what an older caller lacks stays as in `defaults`; what a newer one
/// adds must be zero.
template <class Struct>
Struct read(const Struct* given, const char* name, const Struct& defaults = {}) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (given == nullptr) refuse(cat(name, " is null; allowed: the address of a structure"));
  std::uint64_t size = 0;
  std::memcpy(&size, given, sizeof size);
  check_size(size, name, sizeof(Struct));  // the first version's size, once there are two
  Struct result = defaults;
  std::memcpy(&result, given, std::min<std::size_t>(size, sizeof(Struct)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(Struct); i < size; ++i)
    if (bytes[i] != 0)
      refuse(cat(name, " sets a field at byte ", i, " that version ", tj::version(), " does not know; use a newer library"), Code::unsupported);
  return result;
}

template <class Enum>
Enum to_enum(std::int32_t value, std::int32_t last, const std::string& name, const char* allowed) {
  if (value < 0 || value > last) refuse(cat(name, " is ", value, "; allowed: ", allowed));
  return static_cast<Enum>(value);
}

constexpr const char* kDTypes = "0 (f16), 1 (bf16), 2 (f32), 3 (i32)";

tj::Device to_device(const tj_device& device, const char* name) {
  // The name is put together only when it is needed: tensors pass here on every call.
  if (device.kind < 0 || device.kind > TJ_HIP) refuse(cat(name, ".kind is ", device.kind, "; allowed: 0 (cpu), 1 (cuda), 2 (hip)"));
  if (device.index < 0) refuse(cat(name, ".index is ", device.index, "; allowed: 0 and up"));
  return {static_cast<tj::DeviceKind>(device.kind), device.index};
}

tj::Tensor to_tensor(const tj_tensor* given, const char* name) {
  const tj_tensor t = read(given, name);
  if (t.dtype < 0 || t.dtype > TJ_I32) refuse(cat(name, ".dtype is ", t.dtype, "; allowed: ", kDTypes));
  if (t.rank < 0 || t.rank > TJ_MAX_RANK) refuse(cat(name, ".rank is ", t.rank, "; allowed: 0 to ", TJ_MAX_RANK));
  tj::Tensor result;
  result.data = t.data;
  result.device = to_device(t.device, name);
  result.dtype = static_cast<tj::DType>(t.dtype);
  result.rank = t.rank;
  std::copy(std::begin(t.shape), std::end(t.shape), result.shape.begin());
  std::copy(std::begin(t.strides), std::end(t.strides), result.strides.begin());
  return result;
}

tj::FmhaArgs to_args(const tj_fmha_args* given) {
  const tj_fmha_args a = read(given, "args");
  if (a.reserved != 0) refuse(cat("args.reserved is ", a.reserved, "; allowed: 0"), Code::unsupported);
  tj::FmhaArgs args;
  args.q = to_tensor(a.q, "q");
  args.k = to_tensor(a.k, "k");
  args.v = to_tensor(a.v, "v");
  args.o = to_tensor(a.o, "o");
  if (a.lse != nullptr) args.lse = to_tensor(a.lse, "lse");
  if (a.has_scale != 0) args.scale = a.scale;
  args.causal = a.causal != 0;
  return args;
}

tj::FmhaConfig to_config(const tj_kernel_config* given) {
  const tj_kernel_config c = read(given, "config");
  if (c.op == nullptr) refuse("config.op is null; allowed: \"fmha\"");
  if (std::strcmp(c.op, "fmha") != 0) refuse(cat("config.op is \"", c.op, "\"; allowed: \"fmha\""), Code::unsupported);
  return {to_enum<tj::DType>(c.dtype, TJ_I32, "config.dtype", kDTypes), c.head_dim, c.causal != 0, c.general_scale != 0};
}

tj::Options to_options(const tj_options* given) {
  tj_options defaults;
  tj_options_init(&defaults);
  const tj_options o = given == nullptr ? defaults : read(given, "options", defaults);
  const auto set = [](std::optional<std::string>& field, const char* text) {
    if (text != nullptr) field = text;
  };
  tj::Options options;
  set(options.cache_dir, o.cache_dir);
  set(options.target, o.target);
  set(options.dump_dir, o.dump_dir);
  set(options.hip_compiler, o.hip_compiler);
  if (o.cache_max_size_bytes >= 0) options.cache_max_size_bytes = static_cast<std::uint64_t>(o.cache_max_size_bytes);
  if (o.log_level != TJ_LOG_DEFAULT)
    options.log_level = to_enum<tj::LogLevel>(o.log_level, TJ_LOG_OFF, "options.log_level", "-1 (default) to 5 (off)");
  options.use_disk_cache = o.use_disk_cache != 0;
  if (o.log_sink != nullptr)
    options.log_sink = [sink = o.log_sink, user = o.log_user](tj::LogLevel level, std::string_view text) {
      sink(user, static_cast<std::int32_t>(level), text.data(), text.size());
    };
  return options;
}

tj::Runtime& runtime_of(tj_runtime* runtime) {
  if (runtime == nullptr) refuse("runtime is null; allowed: what tj_runtime_create() or tj_runtime_instance() gave");
  return *runtime->runtime;
}

template <class T>
void need(T* out, const char* name) {
  if (out == nullptr) refuse(cat(name, " is null; allowed: the address of a place for the result"));
}

void write_report(tj::KernelReport&& report, tj_kernel_report* out) {
  if (out == nullptr) return;
  std::uint64_t size = 0;
  std::memcpy(&size, out, sizeof size);
  thread_local tj::KernelReport kept;
  kept = std::move(report);
  tj_kernel_report filled{};
  filled.size = size;
  filled.name = kept.name.c_str();
  filled.target = kept.target.c_str();
  filled.schedule_json = kept.schedule_json.c_str();
  filled.source_path = kept.source_path.c_str();
  filled.schedule_ms = kept.schedule_ms;
  filled.codegen_ms = kept.codegen_ms;
  filled.compile_ms = kept.compile_ms;
  filled.load_ms = kept.load_ms;
  filled.origin = static_cast<std::int32_t>(kept.origin);
  filled.registers = kept.registers;
  std::memcpy(out, &filled, std::min<std::size_t>(size, sizeof filled));
}

void check_report(const tj_kernel_report* report) {
  if (report == nullptr) return;
  std::uint64_t size = 0;  // all that the caller sets; the rest may be uninitialised
  std::memcpy(&size, report, sizeof size);
  check_size(size, "report", sizeof(tj_kernel_report));
}

// The numbers of the two interfaces are one.
static_assert(TJ_INVALID_ARGUMENT == static_cast<int>(Code::invalid_argument) && TJ_INTERNAL == static_cast<int>(Code::internal));
static_assert(TJ_COLD_IN_CAPTURE == static_cast<int>(Code::cold_in_capture) && TJ_MODEL_FAULT == static_cast<int>(Code::model_fault));
static_assert(TJ_I32 == static_cast<int>(tj::DType::i32) && TJ_HIP == static_cast<int>(tj::DeviceKind::hip));
static_assert(TJ_COMPILED == static_cast<int>(tj::KernelOrigin::compiled) && TJ_LOG_OFF == static_cast<int>(tj::LogLevel::off));
static_assert(TJ_MAX_RANK == tj::kMaxRank);

}  // namespace

extern "C" {

void tj_options_init(tj_options* options) {
  if (options == nullptr) return;
  *options = tj_options{};
  options->size = sizeof(tj_options);
  options->cache_max_size_bytes = -1;
  options->log_level = TJ_LOG_DEFAULT;
  options->use_disk_cache = 1;
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
  if (runtime == nullptr || !runtime->owned) return;
  runtime->memory.clear();  // before the drivers that it came from
  delete runtime;
}

tj_status tj_runtime_instance(tj_runtime** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    // Never freed: like Runtime::instance() it outlives every user.
    static tj_runtime* const instance = [] {
      auto made = std::make_unique<tj_runtime>();
      made->runtime = &tj::Runtime::instance();
      return made.release();
    }();
    *out = instance;
  });
}

tj_status tj_fmha(tj_runtime* runtime, const tj_fmha_args* args, void* stream) {
  return guarded([&] { runtime_of(runtime).fmha(to_args(args), tj::Stream{stream}); });
}

tj_status tj_prepare(tj_runtime* runtime, const tj_kernel_config* config, tj_device device, tj_kernel_report* report) {
  return guarded([&] {
    check_report(report);
    write_report(runtime_of(runtime).prepare(to_config(config), to_device(device, "device")), report);
  });
}

tj_status tj_warm(tj_runtime* runtime, const tj_kernel_config* config, const char* target, tj_kernel_report* report) {
  return guarded([&] {
    check_report(report);
    if (target == nullptr) refuse("target is null; allowed: a target's name, for example \"sm_90a\"");
    write_report(runtime_of(runtime).warm(to_config(config), target), report);
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
    thread_local std::string kept;
    kept = runtime_of(runtime).target_of(to_device(device, "device"));
    *out = kept.c_str();
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
      refuse(cat("memory is ", memory, "; allowed: what tj_allocate() of this runtime gave and tj_free() did not get yet"));
    last = std::move(found->second);
    runtime->memory.erase(found);
  });
}

tj_status tj_copy(tj_runtime* runtime, void* dst, tj_device dst_device, const void* src, tj_device src_device, size_t bytes) {
  return guarded([&] {
    tj::Runtime& to = runtime_of(runtime);
    const tj::Device dst_place = to_device(dst_device, "dst_device"), src_place = to_device(src_device, "src_device");
    if (bytes == 0) return;
    if (dst == nullptr || src == nullptr) refuse(cat(dst == nullptr ? "dst" : "src", " is null; allowed: the address of ", bytes, " bytes"));
    to.copy(dst, dst_place, src, src_place, bytes);
  });
}

tj_status tj_synchronize(tj_runtime* runtime, tj_device device, void* stream) {
  return guarded([&] { runtime_of(runtime).synchronize(to_device(device, "device"), tj::Stream{stream}); });
}

const char* tj_last_error(void) { return last_error().message.c_str(); }
const char* tj_last_error_stage(void) { return last_error().stage; }
const char* tj_last_error_log(void) { return last_error().log.c_str(); }
const char* tj_last_error_source_path(void) { return last_error().source_path.c_str(); }

const char* tj_status_name(tj_status status) {
  if (status == TJ_OK) return "ok";
  if (status < TJ_INVALID_ARGUMENT || status > TJ_INTERNAL) return "unknown";
  return tj::to_string(static_cast<tj::Code>(status));
}

const char* tj_version(void) { return tj::version(); }
const char* tj_build_id(void) { return tj::build_id(); }

}  // extern "C"
