// A CUDA driver that only keeps books: libcuda.so.1 for tests on machines without one.
//
// Exports the calls that tilejit uses, under the names and types of cuda.h. Each is written to a log, may be told to fail,
// and refuses what the real driver refuses where a mistake of ours would show (no current context, dead handles). Device
// memory is host memory; kernels do nothing. A release that is told to fail has released all the same, as in a driver
// that is going down. Steered through fake_cuda_control.h.
//
// A test either opens it by its path before the product asks for "libcuda.so.1" (the loader then answers with what the
// process already has: FakeCuda in fake_cuda.hpp), or starts a program with its folder on LD_LIBRARY_PATH.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fake_cuda_control.h"

// The headers give this name to a second version; tilejit asks for the first, which every driver has.
#undef cuEventElapsedTime

namespace {

constexpr int kSmemPerBlockBytes = 232448;

struct State {
  std::mutex mutex;
  std::atomic<bool> recording = true;
  std::atomic<int> device_count = 1;
  std::atomic<int> capture = CU_STREAM_CAPTURE_STATUS_NONE;
  std::atomic<int> param_bytes = 0;
  std::atomic<int> major = 9, minor = 0;
  std::atomic<double> block_ms = 0;  // what a launched block takes; 0: times are constant
  double now_ms = 0;                 // what the device has worked so far
  std::map<void*, double> worked_ms; // of capturing streams, graphs and what they became; of events, when they were recorded
  std::string params;  // of the last launch
  std::vector<std::string> log;
  std::map<std::string, int> calls;
  std::map<std::string, std::map<int, int>> failures;
  std::map<int, int> retains;
  std::set<void*> modules, memory, events, streams, graphs, executables;
};
State& state() {
  static auto* const instance = new State;  // outlives every static destructor of the tests
  return *instance;
}
char g_contexts[16];  // a context is the address of its device's byte
thread_local std::vector<CUcontext> t_stack;

/// Logs the call and answers with the failure that was chosen for it.
CUresult enter(const char* symbol, const std::string& detail = {}) {
  State& s = state();
  if (!s.recording) return CUDA_SUCCESS;
  const std::lock_guard lock(s.mutex);
  std::string name = symbol;
  if (name.ends_with("_v2")) name.resize(name.size() - 3);
  s.log.push_back(detail.empty() ? name : name + " " + detail);
  const int nth = ++s.calls[name];
  const auto chosen = s.failures.find(name);
  if (chosen == s.failures.end() || chosen->second.count(nth) == 0) return CUDA_SUCCESS;
  return static_cast<CUresult>(chosen->second[nth]);
}

CUresult make(std::set<void*>& live, void** handle) {
  const std::lock_guard lock(state().mutex);
  *handle = std::malloc(16);
  live.insert(*handle);
  return CUDA_SUCCESS;
}

CUresult destroy(std::set<void*>& live, void* handle, CUresult result) {
  const std::lock_guard lock(state().mutex);
  if (live.erase(handle) == 0) return CUDA_ERROR_INVALID_HANDLE;
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

bool is_live(const std::set<void*>& live, void* handle) {
  const std::lock_guard lock(state().mutex);
  return live.count(handle) > 0;
}

}  // namespace

#define TJ_ENTER(...) \
  if (const CUresult chosen = enter(__func__ __VA_OPT__(, ) __VA_ARGS__); chosen != CUDA_SUCCESS) return chosen
#define TJ_NEED_CONTEXT() \
  if (t_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT

extern "C" {

void fake_cuda_reset(void) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.recording = true;
  s.device_count = 1;
  s.capture = CU_STREAM_CAPTURE_STATUS_NONE;
  s.param_bytes = 0;
  s.major = 9;
  s.minor = 0;
  s.block_ms = 0;
  s.now_ms = 0;
  s.worked_ms.clear();
  s.params.clear();
  s.log.clear();
  s.calls.clear();
  s.failures.clear();
  s.retains.clear();
  for (auto* live : {&s.modules, &s.memory, &s.events, &s.streams, &s.graphs, &s.executables}) {
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
  report("contexts on this thread's stack", t_stack.size());
  return text.c_str();
}
void fake_cuda_set_devices(int count) { state().device_count = count; }
void fake_cuda_set_capability(int major, int minor) {
  state().major = major;
  state().minor = minor;
}
void fake_cuda_set_capture(int status) { state().capture = status; }
void fake_cuda_set_block_ms(double ms) { state().block_ms = ms; }
void fake_cuda_set_param_bytes(int bytes) { state().param_bytes = bytes; }
size_t fake_cuda_last_params(void* out, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  bytes = std::min(bytes, state().params.size());
  std::memcpy(out, state().params.data(), bytes);
  return bytes;
}

CUresult cuGetErrorName(CUresult result, const char** text) {
  static thread_local std::string name;
  name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE_" + std::to_string(result);
  *text = name.c_str();
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "chosen by the fake driver";
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned) {
  TJ_ENTER();
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  TJ_ENTER();
  *count = state().device_count;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  TJ_ENTER();
  *device = index;
  return index < state().device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  TJ_ENTER();
  std::strncpy(name, "Fake H200", static_cast<std::size_t>(size));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  TJ_ENTER();
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = state().major; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = state().minor; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = kSmemPerBlockBytes; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  TJ_ENTER();
  *context = reinterpret_cast<CUcontext>(&g_contexts[device]);
  const std::lock_guard lock(state().mutex);
  ++state().retains[device];
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  const CUresult result = enter(__func__);
  const std::lock_guard lock(state().mutex);
  --state().retains[device];
  return result;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  TJ_ENTER();
  *context = t_stack.empty() ? nullptr : t_stack.back();
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
  TJ_ENTER();
  t_stack.push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  const CUresult result = enter(__func__);
  TJ_NEED_CONTEXT();
  *context = t_stack.back();
  t_stack.pop_back();
  return result;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  TJ_ENTER();
  TJ_NEED_CONTEXT();
  if (std::memcmp(image, "\177ELF", 4) != 0) return CUDA_ERROR_INVALID_IMAGE;
  return make(state().modules, reinterpret_cast<void**>(module));
}
CUresult cuModuleUnload(CUmodule module) {
  const CUresult result = enter(__func__);
  TJ_NEED_CONTEXT();
  return destroy(state().modules, module, result);
}
/// A function is its module's handle; names that begin with "missing" are not there.
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  TJ_ENTER();
  *function = reinterpret_cast<CUfunction>(module);
  return std::strncmp(name, "missing", 7) == 0 ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction) {
  TJ_ENTER();
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  TJ_ENTER();
  *value = 49152;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int value) {
  TJ_ENTER(std::to_string(value));
  return value <= kSmemPerBlockBytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuFuncGetParamInfo(CUfunction, size_t, size_t* offset, size_t* size) {
  TJ_ENTER();
  *offset = 0;
  *size = static_cast<size_t>(state().param_bytes);
  return *size > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* how, CUfunction function, void** params, void**) {
  unsigned cluster = 1;
  for (unsigned i = 0; i < how->numAttrs; ++i)
    if (how->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) cluster = how->attrs[i].value.clusterDim.x;
  if (state().recording) {
    std::string attributes;
    for (unsigned i = 0; i < how->numAttrs; ++i)
      attributes += how->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION ? " waits itself"
                    : how->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION               ? " cluster " + std::to_string(cluster)
                                                                                              : " attribute " + std::to_string(how->attrs[i].id);
    TJ_ENTER("grid " + std::to_string(how->gridDimX) + "x" + std::to_string(how->gridDimY) + "x" + std::to_string(how->gridDimZ) + " threads " +
             std::to_string(how->blockDimX) + " smem " + std::to_string(how->sharedMemBytes) + attributes);
  }
  TJ_NEED_CONTEXT();
  if (!is_live(state().modules, function)) return CUDA_ERROR_INVALID_HANDLE;
  const bool shaped = how->gridDimX > 0 && how->gridDimY > 0 && how->gridDimZ > 0 && how->blockDimX > 0 &&
                      how->blockDimX * how->blockDimY * how->blockDimZ <= 1024;
  if (!shaped || params[0] == nullptr || cluster == 0 || cluster > 8) return CUDA_ERROR_INVALID_VALUE;
  if (how->gridDimX % cluster != 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (state().recording) {
    const std::lock_guard lock(state().mutex);
    state().params.assign(static_cast<const char*>(params[0]), static_cast<std::size_t>(state().param_bytes));
  }
  if (state().block_ms > 0) work(how->hStream, state().block_ms * how->gridDimX * how->gridDimY * how->gridDimZ);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  TJ_ENTER();
  TJ_NEED_CONTEXT();
  return make(state().streams, reinterpret_cast<void**>(stream));
}
CUresult cuStreamDestroy(CUstream stream) {
  const CUresult result = enter(__func__);
  return destroy(state().streams, stream, result);
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  TJ_ENTER();
  set_worked_ms(stream, 0);
  return is_live(state().streams, stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  TJ_ENTER();
  *graph = nullptr;
  if (!is_live(state().streams, stream)) return CUDA_ERROR_INVALID_HANDLE;
  const double ms = take_worked_ms(stream);
  const CUresult result = make(state().graphs, reinterpret_cast<void**>(graph));
  set_worked_ms(*graph, ms);
  return result;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  TJ_ENTER();
  if (!is_live(state().graphs, graph)) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = make(state().executables, reinterpret_cast<void**>(executable));
  set_worked_ms(*executable, worked_ms(graph));
  return result;
}
CUresult cuGraphDestroy(CUgraph graph) {
  const CUresult result = enter(__func__);
  take_worked_ms(graph);
  return destroy(state().graphs, graph, result);
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  const CUresult result = enter(__func__);
  take_worked_ms(executable);
  return destroy(state().executables, executable, result);
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  TJ_ENTER();
  TJ_NEED_CONTEXT();
  work(stream, worked_ms(executable));
  return is_live(state().executables, executable) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  TJ_ENTER();
  TJ_NEED_CONTEXT();
  *status = static_cast<CUstreamCaptureStatus>(state().capture.load());
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream) {
  TJ_ENTER();
  TJ_NEED_CONTEXT();
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  static thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  TJ_ENTER(std::to_string(*mode));
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* memory, size_t bytes) {
  TJ_ENTER(std::to_string(bytes));
  TJ_NEED_CONTEXT();
  void* block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = reinterpret_cast<CUdeviceptr>(block);
  const std::lock_guard lock(state().mutex);
  state().memory.insert(block);
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr memory) {
  const CUresult result = enter(__func__);
  TJ_NEED_CONTEXT();
  return destroy(state().memory, reinterpret_cast<void*>(memory), result);
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  TJ_ENTER(std::to_string(bytes));
  TJ_NEED_CONTEXT();
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  TJ_ENTER(std::to_string(bytes));
  TJ_NEED_CONTEXT();
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  TJ_ENTER(std::to_string(bytes));
  TJ_NEED_CONTEXT();
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  TJ_ENTER();
  TJ_NEED_CONTEXT();
  return make(state().events, reinterpret_cast<void**>(event));
}
CUresult cuEventRecord(CUevent event, CUstream) {
  TJ_ENTER();
  set_worked_ms(event, now_ms());
  return is_live(state().events, event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuEventSynchronize(CUevent event) {
  TJ_ENTER();
  return is_live(state().events, event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  TJ_ENTER();
  *milliseconds = state().block_ms > 0 ? static_cast<float>(worked_ms(end) - worked_ms(start)) : 1.5F;
  return is_live(state().events, start) && is_live(state().events, end) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuEventDestroy(CUevent event) {
  const CUresult result = enter(__func__);
  take_worked_ms(event);
  return destroy(state().events, event, result);
}

/// Keeps the whole request, shortened, where the real driver writes its opaque form.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  TJ_ENTER();
  // Written as plain words: newer headers declare a stricter alignment than the driver asks for.
  std::memset(static_cast<void*>(map), 0, sizeof(CUtensorMap));
  auto* words = reinterpret_cast<cuuint64_t*>(map);
  words[0] = reinterpret_cast<cuuint64_t>(base);
  words[1] = static_cast<cuuint64_t>(type) | rank << 8 | static_cast<cuuint64_t>(interleave) << 16 |
             static_cast<cuuint64_t>(swizzle) << 24 | static_cast<cuuint64_t>(promotion) << 32 |
             static_cast<cuuint64_t>(fill) << 40;
  for (cuuint32_t d = 0; d < rank; ++d) {
    words[2 + d] = dims[d] << 16 | box[d] << 4 | element_strides[d];
    if (d > 0) words[7 + d] = strides[d - 1];
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
