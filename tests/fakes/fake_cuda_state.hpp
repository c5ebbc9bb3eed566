// The books of the fake CUDA driver, and its steering wheel (fake_cuda_control.h).
//
// Decides what is remembered and how a call is entered: logged, counted, failed when that was chosen. Included by
// libcuda_fake.cpp alone, which has the driver's calls.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fake_cuda_control.h"

namespace {

constexpr int kSmemPerBlockBytes = 232448;
constexpr int kUnnamedError = 998;  // the one that this driver has no words for

bool says_no(const char* text) { return text != nullptr && std::strcmp(text, "0") == 0; }

/// Tests count what a call takes from new, and whether a library that is opened at run time shares the test's new is up
/// to the system's linker and loader. These books take their memory from malloc(), so that the counts are the
/// product's.
template <class T>
struct Uncounted {
  using value_type = T;
  Uncounted() = default;
  template <class Other>
  Uncounted(const Uncounted<Other>&) {}
  T* allocate(std::size_t count) {
    if (void* memory = std::malloc(count * sizeof(T))) return static_cast<T*>(memory);
    throw std::bad_alloc();
  }
  void deallocate(T* memory, std::size_t) { std::free(memory); }
  friend bool operator==(const Uncounted&, const Uncounted&) { return true; }
};
using Live = std::set<void*, std::less<void*>, Uncounted<void*>>;

struct State {
  std::mutex mutex;
  std::atomic<bool> recording = !says_no(std::getenv("FAKE_CUDA_RECORD"));
  std::atomic<int> device_count = 1;
  std::atomic<int> capture = CU_STREAM_CAPTURE_STATUS_NONE;
  std::atomic<int> param_bytes = 0;
  std::atomic<int> busy = 0, frees_while_busy = 0;
  std::atomic<int> launches_lost = 0, events_lost = 0;  // their results
  std::atomic<int> driver_version = 13000;
  std::atomic<int> major = 9, minor = 0;
  std::atomic<double> block_ms = 0;  // what a launched block takes; 0: times are constant
  double now_ms = 0;                 // what the device has worked so far
  std::map<void*, double>
      worked_ms;       // of capturing streams, graphs and what they became; of events, when they were recorded
  std::string params;  // of the last launch
  std::atomic<void (*)(const void* params, void* user)> launch_hook = nullptr;
  std::atomic<void*> launch_user = nullptr;
  std::vector<std::string> log;
  std::map<void*, std::string> names;  // of handles, while calls are recorded: "event 2"
  std::map<std::string, int> named;    // of each kind
  std::map<std::string, int> calls;
  std::map<std::string, std::map<int, int>> failures;
  std::map<int, int> retains;
  Live modules, memory, events, streams, graphs, executables, pools;
  std::map<int, unsigned long long> context_ids;  // of devices; 0 while the context is destroyed
  unsigned long long last_context_id = 0;
  // Of memory from pools; more than was ever given out at once is free and kept.
  std::atomic<std::uint64_t> pool_used = 0, pool_reserved = 0;
  std::map<void*, std::uint64_t, std::less<void*>, Uncounted<std::pair<void* const, std::uint64_t>>> from_pool;
  Live gone;  // what went with a destroyed context, kept so that no address comes again
  int uses_of_gone = 0;
  int breaks = 0;  // calls under a capture that would break it
  void take_from_pool(void* block, std::uint64_t bytes) {
    const std::lock_guard lock(mutex);
    from_pool[block] = bytes;
    pool_used += bytes;
    pool_reserved = std::max(pool_reserved.load(), pool_used.load());
  }
  void give_to_pool(void* block) {
    const std::lock_guard lock(mutex);
    const auto found = from_pool.find(block);
    if (found == from_pool.end()) return;
    pool_used -= found->second;
    from_pool.erase(found);
  }
  std::vector<Live*> kinds() { return {&modules, &memory, &events, &streams, &graphs, &executables, &pools}; }
};
State& state() {
  static auto* const instance = new State;  // outlives every static destructor of the tests
  return *instance;
}
char g_contexts[16];  // a context is the address of its device's byte
/// A stack that needs no destructor: exit handlers may still call the driver when those of this thread have run.
struct ContextStack {
  CUcontext contexts[64];
  std::size_t count;
  bool empty() const { return count == 0; }
  std::size_t size() const { return count; }
  CUcontext back() const { return contexts[count - 1]; }
  void push_back(CUcontext context) {
    if (count == std::size(contexts)) std::abort();
    contexts[count++] = context;
  }
  void pop_back() { --count; }
  void clear() { count = 0; }
};
thread_local constinit ContextStack t_stack{};
thread_local CUstreamCaptureMode t_capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// A capture by any thread is lost by these, unless the calling thread's mode is relaxed. Source: CUDA driver API
/// manual, cuThreadExchangeStreamCaptureMode; an H200's driver of CUDA 13.0 for cuMemPoolGetAttribute.
bool breaks_captures(const std::string& call) {
  static constexpr const char* kCalls[] = {"cuMemPoolGetAttribute", "cuMemPoolTrimTo", "cuMemPoolCreate",
                                           "cuModuleLoadData", "cuModuleUnload"};
  return std::find(std::begin(kCalls), std::end(kCalls), call) != std::end(kCalls);
}

/// Logs the call and answers with the failure that was chosen for it.
CUresult enter(const char* symbol, const std::string& detail = {}) {
  State& s = state();
  if (!s.recording) return CUDA_SUCCESS;
  const std::lock_guard lock(s.mutex);
  std::string name = symbol;
  if (name.ends_with("_v2")) name.resize(name.size() - 3);
  s.log.push_back(detail.empty() ? name : name + " " + detail);
  const int nth = ++s.calls[name];
  if (s.capture == CU_STREAM_CAPTURE_STATUS_ACTIVE && t_capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      breaks_captures(name)) {
    ++s.breaks;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const auto chosen = s.failures.find(name);
  if (chosen == s.failures.end() || chosen->second.count(nth) == 0) return CUDA_SUCCESS;
  return static_cast<CUresult>(chosen->second[nth]);
}

/// With the lock held.
void give_name(const char* kind, void* handle) {
  if (state().recording) state().names[handle] = std::string(kind) + " " + std::to_string(++state().named[kind]);
}
/// The name of a handle in a log: "default" for none, "another" for one that this library has not made.
std::string name_of(void* handle) {
  if (handle == nullptr) return "default";
  const std::lock_guard lock(state().mutex);
  const auto found = state().names.find(handle);
  return found == state().names.end() ? "another" : found->second;
}

CUresult make(Live& live, const char* kind, void** handle) {
  const std::lock_guard lock(state().mutex);
  *handle = std::malloc(16);
  live.insert(*handle);
  give_name(kind, *handle);
  return CUDA_SUCCESS;
}

CUresult destroy(Live& live, void* handle, CUresult result) {
  const std::lock_guard lock(state().mutex);
  state().uses_of_gone += static_cast<int>(state().gone.count(handle));
  if (live.erase(handle) == 0) return CUDA_ERROR_INVALID_HANDLE;
  if (!state().names.empty()) state().names.erase(handle);
  std::free(handle);
  return result;
}

/// Work goes where the stream's work goes: into what it captures, else onto the device's clock.
void work(void* stream, double ms) {
  const std::lock_guard lock(state().mutex);
  const auto capturing = state().worked_ms.find(stream);
  (capturing == state().worked_ms.end() ? state().now_ms : capturing->second) += ms;
}
double now_ms() {
  const std::lock_guard lock(state().mutex);
  return state().now_ms;
}
double worked_ms(void* handle) {
  const std::lock_guard lock(state().mutex);
  return state().worked_ms[handle];
}
void set_worked_ms(void* handle, double ms) {
  const std::lock_guard lock(state().mutex);
  state().worked_ms[handle] = ms;
}
/// A handle that ends: its address may be given to another one.
double take_worked_ms(void* handle) {
  const double ms = worked_ms(handle);
  const std::lock_guard lock(state().mutex);
  state().worked_ms.erase(handle);
  return ms;
}

bool is_live(const Live& live, void* handle) {
  const std::lock_guard lock(state().mutex);
  state().uses_of_gone += static_cast<int>(state().gone.count(handle));
  return live.count(handle) > 0;
}

/// 0: the context is destroyed.
unsigned long long id_of(CUcontext context) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().context_ids.find(static_cast<int>(reinterpret_cast<char*>(context) - g_contexts));
  return found == state().context_ids.end() ? 0 : found->second;
}

}  // namespace

#define TJ_ENTER(...)                                                                                        \
  if (const CUresult chosen = state().recording ? enter(__func__ __VA_OPT__(, ) __VA_ARGS__) : CUDA_SUCCESS; \
      chosen != CUDA_SUCCESS)                                                                                \
  return chosen
#define TJ_NOT_LOST(kind) \
  if (const int result = state().kind; result != 0) return static_cast<CUresult>(result)
// The entry of a release, which does its work though it is told to fail.
#define TJ_RELEASE(...) const CUresult result = state().recording ? enter(__func__, __VA_ARGS__) : CUDA_SUCCESS
#define TJ_NEED_CONTEXT()                                 \
  if (t_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT; \
  if (id_of(t_stack.back()) == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED

extern "C" {

void fake_cuda_reset(void) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.recording = true;
  s.device_count = 1;
  s.capture = CU_STREAM_CAPTURE_STATUS_NONE;
  s.param_bytes = 0;
  s.busy = s.frees_while_busy = 0;
  s.launches_lost = s.events_lost = 0;
  s.driver_version = 13000;
  s.major = 9;
  s.minor = 0;
  s.block_ms = 0;
  s.launch_hook = nullptr;
  s.now_ms = 0;
  s.worked_ms.clear();
  s.params.clear();
  s.log.clear();
  s.names.clear();
  s.named.clear();
  s.calls.clear();
  s.failures.clear();
  s.retains.clear();
  s.uses_of_gone = s.breaks = 0;
  s.context_ids.clear();
  s.from_pool.clear();
  s.pool_used = s.pool_reserved = 0;
  std::vector<Live*> kinds = s.kinds();
  kinds.push_back(&s.gone);
  for (Live* live : kinds) {
    for (void* handle : *live) std::free(handle);
    live->clear();
  }
  t_stack.clear();
}
void fake_cuda_fail(const char* call, int nth, int result) {
  const std::lock_guard lock(state().mutex);
  state().failures[call][nth] = result;
}
const char* fake_cuda_log(void) {
  static thread_local std::string text;
  const std::lock_guard lock(state().mutex);
  text.clear();
  for (const std::string& line : state().log) text += line + "\n";
  return text.c_str();
}
void fake_cuda_set_busy(int on) { state().busy = on; }
int fake_cuda_frees_while_busy(void) { return state().frees_while_busy; }
void fake_cuda_set_lost(int launches, int events) {
  state().launches_lost = launches;
  state().events_lost = events;
}
void fake_cuda_record(int on) { state().recording = on != 0; }
const char* fake_cuda_leaks(void) {
  static thread_local std::string text;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  text.clear();
  const auto report = [](const char* what, std::size_t count) {
    if (count > 0) text += std::string(what) + ": " + std::to_string(count) + "\n";
  };
  for (const auto& [device, count] : s.retains) report("retained contexts", static_cast<std::size_t>(std::abs(count)));
  report("modules", s.modules.size());
  report("memory blocks", s.memory.size());
  report("events", s.events.size());
  report("streams", s.streams.size());
  report("graphs", s.graphs.size() + s.executables.size());
  report("memory pools", s.pools.size());
  report("contexts on this thread's stack", t_stack.size());
  report("uses of what went with a context", static_cast<std::size_t>(s.uses_of_gone));
  report("calls that break a capture", static_cast<std::size_t>(s.breaks));
  return text.c_str();
}
void fake_cuda_set_devices(int count) { state().device_count = count; }
void fake_cuda_set_capability(int major, int minor) {
  state().major = major;
  state().minor = minor;
}
void fake_cuda_set_driver_version(int version) { state().driver_version = version; }
void fake_cuda_set_capture(int status) { state().capture = status; }
void fake_cuda_set_block_ms(double ms) { state().block_ms = ms; }
void fake_cuda_on_launch(void (*hook)(const void* params, void* user), void* user) {
  state().launch_user = user;
  state().launch_hook = hook;
}
void fake_cuda_set_param_bytes(int bytes) { state().param_bytes = bytes; }
size_t fake_cuda_last_params(void* out, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  bytes = std::min(bytes, state().params.size());
  std::memcpy(out, state().params.data(), bytes);
  return bytes;
}

}  // extern "C"
