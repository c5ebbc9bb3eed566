// The books of the fake HIP runtime, and its steering wheel (fake_hip_control.h).
//
// Decides what is remembered and how a call is entered: logged, counted, failed when that was chosen. Included by
// fake_hip_calls.hpp alone, which has the runtime's calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fake_hip_control.h"

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidConfiguration = 9, kInvalidDevice = 101,
              kInvalidImage = 200, kInvalidHandle = 400, kNotFound = 500;

struct State {
  std::mutex mutex;
  std::atomic<bool> recording = true;
  std::atomic<int> device_count = 1;
  std::atomic<int> physical_units = 96;
  std::atomic<int> capture = 0;
  int breaks = 0;                    // calls under a capture that would break it
  std::atomic<double> block_ms = 0;  // what a launched block takes; 0: times are constant
  std::string processor = "gfx1100";
  double now_ms = 0;  // what the device has worked so far
  std::map<void*, double>
      worked_ms;       // of capturing streams, graphs and what they became; of events, when they were recorded
  std::string params;  // of the last launch
  void (*carry_out)(const fake_hip_launch*) = nullptr;
  std::map<void*, std::pair<std::string, std::string>>
      code;  // image and function of modules whose launches are carried out
  std::vector<std::string> log;
  std::map<void*, std::string> names;  // of handles, while calls are recorded: "event 2"
  std::map<std::string, int> named;    // of each kind
  std::map<std::string, int> calls;
  std::map<std::string, std::map<int, int>> failures;
  std::map<void*, std::size_t> memory_bytes;  // of each block of `memory`
  std::map<void*, unsigned> numbers;          // of each block of `memory`, and of no other one ever
  unsigned last_number = 0;
  int dead_uses = 0;  // calls with memory or a pool that is not there, by which a real runtime may crash
  std::set<void*> modules, memory, events, streams, graphs, executables, pools;
  std::atomic<unsigned long long> pool_bytes = 0;  ///< the largest that was taken from a pool; trimming gives it back
};
State& state() {
  static auto* const instance = new State;  // outlives every static destructor of the tests
  return *instance;
}
thread_local int t_device = 0;
thread_local int t_last_failure = kSuccess;
thread_local int t_capture_mode = 0;
constexpr int kRelaxed = 2;
/// As the fake CUDA driver's; nobody has seen it of HIP's.
bool breaks_captures(const std::string& call) {
  static constexpr const char* kCalls[] = {"hipMemPoolGetAttribute", "hipMemPoolTrimTo", "hipMemPoolCreate",
                                           "hipModuleLoadData", "hipModuleUnload"};
  return std::find(std::begin(kCalls), std::end(kCalls), call) != std::end(kCalls);
}

/// Answers of calls; HIP remembers failures.
int answer(int result) {
  if (result != kSuccess) t_last_failure = result;
  return result;
}

/// Logs the call and answers with the failure that was chosen for it.
int enter(const char* name, const std::string& detail = {}) {
  State& s = state();
  if (!s.recording) return kSuccess;
  const std::lock_guard lock(s.mutex);
  s.log.push_back(detail.empty() ? std::string(name) : std::string(name) + " " + detail);
  const int nth = ++s.calls[name];
  if (s.capture == 1 && t_capture_mode != kRelaxed && breaks_captures(name)) {
    ++s.breaks;
    return answer(kInvalidValue);
  }
  const auto chosen = s.failures.find(name);
  if (chosen == s.failures.end() || chosen->second.count(nth) == 0) return kSuccess;
  return answer(chosen->second[nth]);
}

/// With the lock held.
void give_name(const char* kind, void* handle) {
  if (state().recording) state().names[handle] = std::string(kind) + " " + std::to_string(++state().named[kind]);
}
/// The name of a handle in a log: "default" for none, "another" for a handle that this library has not made.
std::string name_of(void* handle) {
  if (handle == nullptr) return "default";
  const std::lock_guard lock(state().mutex);
  const auto found = state().names.find(handle);
  return found == state().names.end() ? "another" : found->second;
}

int make(std::set<void*>& live, const char* kind, void** handle) {
  const std::lock_guard lock(state().mutex);
  *handle = std::malloc(16);
  live.insert(*handle);
  give_name(kind, *handle);
  return kSuccess;
}

/// A release that is told to fail has released all the same, as in a runtime that is going down.
int destroy(std::set<void*>& live, void* handle, int result) {
  const std::lock_guard lock(state().mutex);
  if (live.erase(handle) == 0) {
    ++state().dead_uses;
    return answer(kInvalidHandle);
  }
  state().names.erase(handle);
  if (&live == &state().memory) {
    state().memory_bytes.erase(handle);
    state().numbers.erase(handle);
  }
  std::free(handle);
  return result;
}

/// End of a 64-bit ELF file: behind its section headers.
std::size_t image_bytes(const char* image) {
  std::uint64_t headers;
  std::uint16_t size, count;
  std::memcpy(&headers, image + 0x28, sizeof(headers));
  std::memcpy(&size, image + 0x3a, sizeof(size));
  std::memcpy(&count, image + 0x3c, sizeof(count));
  return headers + std::size_t{size} * count;
}
/// Keeps a module's code where launches are carried out.
void keep_code(void* module, const void* image) {
  const std::lock_guard lock(state().mutex);
  if (state().carry_out != nullptr)
    state().code[module] = {std::string(static_cast<const char*>(image), image_bytes(static_cast<const char*>(image))),
                            {}};
}
void keep_name(void* module, const char* name) {
  const std::lock_guard lock(state().mutex);
  if (const auto kept = state().code.find(module); kept != state().code.end()) kept->second.second = name;
}
void forget_code(void* module) {
  const std::lock_guard lock(state().mutex);
  state().code.erase(module);
}
void carry_out(void* module, unsigned grid, unsigned threads, unsigned shared_bytes, void** extra) {
  void (*work)(const fake_hip_launch*);
  fake_hip_launch launch{};
  {
    const std::lock_guard lock(state().mutex);
    const auto kept = state().code.find(module);
    work = state().carry_out;
    if (work == nullptr || kept == state().code.end()) return;
    launch = {kept->second.first.data(),
              kept->second.first.size(),
              kept->second.second.c_str(),
              grid,
              threads,
              shared_bytes,
              extra[1],
              *static_cast<const std::size_t*>(extra[3])};
  }
  work(&launch);
}

bool is_live(const std::set<void*>& live, void* handle) {
  const std::lock_guard lock(state().mutex);
  if (live.count(handle) > 0) return true;
  if (&live == &state().pools) ++state().dead_uses;
  return false;
}

/// Work goes where the stream's work goes: into what it captures, else onto the device's clock.
void work(void* stream, double ms) {
  const std::lock_guard lock(state().mutex);
  const auto capturing = state().worked_ms.find(stream);
  (capturing == state().worked_ms.end() ? state().now_ms : capturing->second) += ms;
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

}  // namespace

#define TJ_ENTER(...)                                                                               \
  if (const int chosen = state().recording ? enter(__func__ __VA_OPT__(, ) __VA_ARGS__) : kSuccess; \
      chosen != kSuccess)                                                                           \
  return chosen
// Result of a release, which does its work though it is told to fail.
#define TJ_RELEASE(...) const int result = state().recording ? enter(__func__, __VA_ARGS__) : kSuccess

extern "C" {

void fake_hip_reset(void) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.recording = true;
  s.device_count = 1;
  s.physical_units = 96;
  s.capture = 0;
  s.breaks = s.dead_uses = 0;
  s.block_ms = 0;
  s.processor = "gfx1100";
  s.now_ms = 0;
  s.worked_ms.clear();
  s.params.clear();
  s.log.clear();
  s.names.clear();
  s.named.clear();
  s.calls.clear();
  s.failures.clear();
  s.pool_bytes = 0;
  for (auto* live : {&s.modules, &s.memory, &s.events, &s.streams, &s.graphs, &s.executables, &s.pools}) {
    for (void* handle : *live) std::free(handle);
    live->clear();
  }
  s.memory_bytes.clear();
  s.numbers.clear();
  s.code.clear();
  t_device = 0;
  t_last_failure = kSuccess;
}
void fake_hip_fail(const char* call, int nth, int result) {
  const std::lock_guard lock(state().mutex);
  state().failures[call][nth] = result;
}
const char* fake_hip_log(void) {
  static thread_local std::string text;
  const std::lock_guard lock(state().mutex);
  text.clear();
  for (const std::string& line : state().log) text += line + "\n";
  return text.c_str();
}
void fake_hip_record(int on) { state().recording = on != 0; }
const char* fake_hip_leaks(void) {
  static thread_local std::string text;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  text.clear();
  const auto report = [](const char* what, std::size_t count) {
    if (count > 0) text += std::string(what) + ": " + std::to_string(count) + "\n";
  };
  report("modules", s.modules.size());
  report("memory blocks", s.memory.size());
  report("events", s.events.size());
  report("streams", s.streams.size());
  report("graphs", s.graphs.size() + s.executables.size());
  report("memory pools", s.pools.size());
  report("calls with what is not there", static_cast<std::size_t>(s.dead_uses));
  report("calls that break a capture", static_cast<std::size_t>(s.breaks));
  report("this thread's device", static_cast<std::size_t>(t_device));
  report("this thread's last failure", static_cast<std::size_t>(t_last_failure));
  return text.c_str();
}
void fake_hip_set_devices(int count) { state().device_count = count; }
void fake_hip_set_processor(const char* name) {
  const std::lock_guard lock(state().mutex);
  state().processor = name;
}
void fake_hip_set_physical_units(int units) { state().physical_units = units; }
void fake_hip_set_capture(int status) { state().capture = status; }
void fake_hip_set_block_ms(double ms) { state().block_ms = ms; }
size_t fake_hip_last_params(void* out, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  std::memcpy(out, state().params.data(), std::min(bytes, state().params.size()));
  return state().params.size();
}
int fake_hip_memory(size_t which, const void** begin, size_t* bytes) {
  const std::lock_guard lock(state().mutex);
  if (which >= state().memory_bytes.size()) return 0;
  const auto& [block, size] = *std::next(state().memory_bytes.begin(), static_cast<std::ptrdiff_t>(which));
  *begin = block;
  *bytes = size;
  return 1;
}
void fake_hip_on_launch(void (*work)(const fake_hip_launch*)) {
  const std::lock_guard lock(state().mutex);
  state().carry_out = work;
}

}  // extern "C"
