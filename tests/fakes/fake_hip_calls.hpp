// A HIP runtime that only keeps books, for tests on machines without one: libamdhip64.so.6 and libamdhip64.so.5 are
// made of this.
//
// Exports the calls that tilejit uses. Each is written to a log, may be told to fail, and refuses what the real runtime
// refuses where a mistake of ours would show (dead handles, another device's stream order, argument buffers that are
// not packed as HIP wants them). Device memory is host memory; kernels do nothing. TJ_FAKE_HIP_RELEASE is 6, or 5 for
// the older layout of properties and a runtime without memory in a stream's order and without graphs. Steered through
// fake_hip_control.h.
//
// A test opens it by its path before the product asks for a runtime: FakeHip in fake_hip.hpp.
#pragma once

#include "fake_hip_state.hpp"

namespace {

template <class T>
void put(void* properties, std::size_t offset, const T& value) {
  std::memcpy(static_cast<char*>(properties) + offset, &value, sizeof value);
}
void put_text(void* properties, std::size_t offset, const std::string& text) {
  std::strncpy(static_cast<char*>(properties) + offset, text.c_str(), 256);
}

int take_memory(void** memory, std::size_t bytes) {
  void* block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (block == nullptr) return answer(kOutOfMemory);
  *memory = block;
  const std::lock_guard lock(state().mutex);
  state().memory.insert(block);
  state().memory_bytes[block] = bytes;
  state().numbers[block] = ++state().last_number;
  give_name("memory", block);
  return kSuccess;
}

std::string processor(int device) {
  const std::lock_guard lock(state().mutex);
  std::string rest = state().processor;
  for (; device > 0 && rest.find(',') != std::string::npos; --device) rest.erase(0, rest.find(',') + 1);
  return rest.substr(0, rest.find(','));
}

}  // namespace

extern "C" {

const char* hipGetErrorName(int result) {
  static thread_local std::string name;
  name = result == kOutOfMemory ? "hipErrorOutOfMemory" : "hipErrorFake" + std::to_string(result);
  return name.c_str();
}
const char* hipGetErrorString(int) { return "chosen by the fake runtime"; }
int hipGetLastError() {
  const int last = t_last_failure;
  t_last_failure = kSuccess;
  return last;
}

int hipInit(unsigned flags) {
  TJ_ENTER(std::to_string(flags));
  return kSuccess;
}
int hipGetDeviceCount(int* count) {
  TJ_ENTER();
  *count = state().device_count;
  return kSuccess;
}
int hipGetDevice(int* device) {
  TJ_ENTER();
  *device = t_device;
  return kSuccess;
}
int hipSetDevice(int device) {
  TJ_ENTER(std::to_string(device));
  if (device < 0 || device >= state().device_count) return answer(kInvalidDevice);
  t_device = device;
  return kSuccess;
}
/// Modules and events stay, as with ROCm 6 and 7. The next memory may have the addresses of that which goes.
int hipDeviceReset() {
  TJ_ENTER();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (auto* live : {&s.memory, &s.streams, &s.pools}) {
    for (void* handle : *live) std::free(handle);
    live->clear();
  }
  s.memory_bytes.clear();
  s.numbers.clear();
  s.pool_bytes = 0;
  return kSuccess;
}
int hipDeviceGetAttribute(int* value, int attribute, int device) {
  TJ_ENTER(std::to_string(attribute) + " of device " + std::to_string(device));
  if (attribute != 10015 || state().physical_units == 0) return answer(kInvalidValue);
  *value = state().physical_units;
  return kSuccess;
}
/// The layout of releases before 6, which 6 still answers in under this name.
int hipGetDeviceProperties(void* properties, int device) {
  TJ_ENTER();
  if (device < 0 || device >= state().device_count) return answer(kInvalidDevice);
  std::memset(properties, 0x5a, 792);
  put_text(properties, 0, "Fake Radeon");
  put(properties, 264, std::size_t{65536});
  put(properties, 328, 11);
  put(properties, 332, 0);
  put(properties, 336, 48);
  put_text(properties, 396, processor(device));
  return kSuccess;
}
#if TJ_FAKE_HIP_RELEASE >= 6
int hipGetDevicePropertiesR0600(void* properties, int device) {
  TJ_ENTER();
  if (device < 0 || device >= state().device_count) return answer(kInvalidDevice);
  std::memset(properties, 0x5a, 1472);
  put_text(properties, 0, "Fake Radeon");
  put(properties, 296, std::size_t{65536});
  put(properties, 360, 11);
  put(properties, 364, 0);
  put(properties, 388, 48);
  put_text(properties, 1160, processor(device));
  return kSuccess;
}
#endif

int hipModuleLoadData(void** module, const void* image) {
  TJ_ENTER();
  if (std::memcmp(image, "\177ELF", 4) != 0) return answer(kInvalidImage);
  const int result = make(state().modules, "module", module);
  keep_code(*module, image);
  return result;
}
int hipModuleUnload(void* module) {
  TJ_RELEASE(name_of(module));
  forget_code(module);
  return destroy(state().modules, module, result);
}
/// A function is its module's handle; names that begin with "missing" are not there.
int hipModuleGetFunction(void** function, void* module, const char* name) {
  TJ_ENTER(name_of(module) + " " + name);
  *function = module;
  keep_name(module, name);
  return std::strncmp(name, "missing", 7) == 0 ? answer(kNotFound) : kSuccess;
}
int hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** arguments,
                          void** extra) {
  if (state().recording)
    TJ_ENTER("grid " + std::to_string(grid_x) + "x" + std::to_string(grid_y) + "x" + std::to_string(grid_z) +
             " threads " + std::to_string(block_x) + " smem " + std::to_string(shared_bytes) +
             (block_y * block_z != 1 ? " in more than one dimension" : "") +
             (stream != nullptr ? " in " + name_of(stream) : std::string()) +
             (t_device != 0 ? " device " + std::to_string(t_device) : std::string()));
  if (!is_live(state().modules, function)) return answer(kInvalidHandle);
  const bool packed = arguments == nullptr && extra != nullptr && extra[0] == reinterpret_cast<void*>(1) &&
                      extra[2] == reinterpret_cast<void*>(2) && extra[4] == reinterpret_cast<void*>(3);
  if (!packed || extra[1] == nullptr || shared_bytes > 65536) return answer(kInvalidValue);
  const bool shaped = grid_x > 0 && grid_y > 0 && grid_z > 0 && block_x > 0 && block_x * block_y * block_z <= 1024 &&
                      std::size_t{grid_x} * block_x < (std::size_t{1} << 32);
  if (!shaped) return answer(kInvalidConfiguration);
  if (state().recording) {
    const std::lock_guard lock(state().mutex);
    state().params.assign(static_cast<const char*>(extra[1]), *static_cast<const std::size_t*>(extra[3]));
  }
  if (state().block_ms > 0) work(stream, state().block_ms * grid_x * grid_y * grid_z);
  carry_out(function, grid_x, block_x, shared_bytes, extra);
  return kSuccess;
}

int hipStreamIsCapturing(void* stream, int* status) {
  TJ_ENTER(name_of(stream));
  *status = state().capture;
  return kSuccess;
}
int hipStreamSynchronize(void* stream) {
  TJ_ENTER(name_of(stream));
  return kSuccess;
}
int hipThreadExchangeStreamCaptureMode(int* mode) {
  TJ_ENTER(std::to_string(*mode));
  std::swap(*mode, t_capture_mode);
  return kSuccess;
}

int hipMalloc(void** memory, std::size_t bytes) {
  TJ_ENTER(std::to_string(bytes));
  return take_memory(memory, bytes);
}
int hipFree(void* memory) {
  TJ_RELEASE(name_of(memory));
  return destroy(state().memory, memory, result);
}
int hipMemsetAsync(void* memory, int value, std::size_t bytes, void* stream) {
  TJ_ENTER(std::to_string(bytes) + " in " + name_of(stream));
  std::memset(memory, value, bytes);
  return kSuccess;
}
int hipMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  TJ_ENTER(std::to_string(bytes) + " kind " + std::to_string(kind));
  std::memcpy(to, from, bytes);
  return kSuccess;
}

int hipEventCreate(void** event) {
  TJ_ENTER();
  return make(state().events, "event", event);
}
int hipEventRecord(void* event, void* stream) {
  TJ_ENTER(name_of(event) + " in " + name_of(stream));
  set_worked_ms(event, [] {
    const std::lock_guard lock(state().mutex);
    return state().now_ms;
  }());
  return is_live(state().events, event) ? kSuccess : answer(kInvalidHandle);
}
int hipEventSynchronize(void* event) {
  TJ_ENTER(name_of(event));
  return is_live(state().events, event) ? kSuccess : answer(kInvalidHandle);
}
int hipEventElapsedTime(float* milliseconds, void* start, void* end) {
  TJ_ENTER(name_of(start) + " to " + name_of(end));
  *milliseconds = state().block_ms > 0 ? static_cast<float>(worked_ms(end) - worked_ms(start)) : 1.5F;
  return is_live(state().events, start) && is_live(state().events, end) ? kSuccess : answer(kInvalidHandle);
}
int hipEventDestroy(void* event) {
  TJ_RELEASE(name_of(event));
  take_worked_ms(event);
  return destroy(state().events, event, result);
}

#if TJ_FAKE_HIP_RELEASE >= 6

/// HIP_POINTER_ATTRIBUTE_BUFFER_ID alone.
int hipPointerGetAttribute(void* value, int attribute, void* memory) {
  TJ_ENTER(std::to_string(attribute) + " of " + name_of(memory));
  const std::lock_guard lock(state().mutex);
  const auto found = state().numbers.find(memory);
  if (attribute != 7 || found == state().numbers.end()) return answer(kInvalidValue);
  std::memcpy(value, &found->second, sizeof(found->second));
  return kSuccess;
}
int hipMallocAsync(void** memory, std::size_t bytes, void*) {
  TJ_ENTER(std::to_string(bytes));
  return take_memory(memory, bytes);
}
int hipMallocFromPoolAsync(void** memory, std::size_t bytes, void* pool, void*) {
  TJ_ENTER(std::to_string(bytes));
  if (!is_live(state().pools, pool) || state().capture != 0) return answer(kInvalidValue);
  state().pool_bytes = std::max<unsigned long long>(state().pool_bytes, bytes);
  return take_memory(memory, bytes);
}
int hipFreeAsync(void* memory, void* stream) {
  TJ_RELEASE(name_of(memory) + " in " + name_of(stream));
  return destroy(state().memory, memory, result);
}
int hipMemPoolCreate(void** pool, const int* properties) {
  TJ_ENTER();
  if (properties[0] != 1 || properties[2] != 1 || properties[3] >= state().device_count) return answer(kInvalidValue);
  return make(state().pools, "pool", pool);
}
int hipMemPoolDestroy(void* pool) {
  TJ_RELEASE(name_of(pool));
  return destroy(state().pools, pool, result);
}
int hipMemPoolSetAttribute(void* pool, int attribute, void* value) {
  TJ_ENTER(std::to_string(*static_cast<unsigned long long*>(value)));
  return is_live(state().pools, pool) && attribute == 4 ? kSuccess : answer(kInvalidValue);
}

int hipMemPoolGetAttribute(void* pool, int attribute, void* value) {
  TJ_ENTER(std::to_string(attribute));
  if (!is_live(state().pools, pool) || (attribute != 5 && attribute != 7)) return answer(kInvalidValue);
  *static_cast<unsigned long long*>(value) = attribute == 5 ? state().pool_bytes.load() : 0;  // reserved, used
  return kSuccess;
}
int hipMemPoolTrimTo(void* pool, std::size_t bytes) {
  TJ_ENTER(std::to_string(bytes));
  if (!is_live(state().pools, pool)) return answer(kInvalidValue);
  state().pool_bytes = 0;
  return kSuccess;
}

int hipStreamCreateWithFlags(void** stream, unsigned flags) {
  TJ_ENTER(std::to_string(flags));
  return make(state().streams, "stream", stream);
}
int hipStreamDestroy(void* stream) {
  TJ_RELEASE(name_of(stream));
  return destroy(state().streams, stream, result);
}
int hipStreamBeginCapture(void* stream, int mode) {
  TJ_ENTER(name_of(stream) + " mode " + std::to_string(mode));
  set_worked_ms(stream, 0);
  return is_live(state().streams, stream) ? kSuccess : answer(kInvalidHandle);
}
int hipStreamEndCapture(void* stream, void** graph) {
  TJ_ENTER(name_of(stream));
  *graph = nullptr;
  if (!is_live(state().streams, stream)) return answer(kInvalidHandle);
  const double ms = take_worked_ms(stream);
  const int result = make(state().graphs, "graph", graph);
  set_worked_ms(*graph, ms);
  return result;
}
int hipGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
  TJ_ENTER(name_of(graph) + " flags " + std::to_string(flags));
  if (!is_live(state().graphs, graph)) return answer(kInvalidHandle);
  const int result = make(state().executables, "executable", executable);
  set_worked_ms(*executable, worked_ms(graph));
  return result;
}
int hipGraphDestroy(void* graph) {
  TJ_RELEASE(name_of(graph));
  take_worked_ms(graph);
  return destroy(state().graphs, graph, result);
}
int hipGraphExecDestroy(void* executable) {
  TJ_RELEASE(name_of(executable));
  take_worked_ms(executable);
  return destroy(state().executables, executable, result);
}
int hipGraphLaunch(void* executable, void* stream) {
  TJ_ENTER(name_of(executable) + " in " + name_of(stream));
  work(stream, worked_ms(executable));
  return is_live(state().executables, executable) ? kSuccess : answer(kInvalidHandle);
}

#endif

}  // extern "C"
