// A CUDA driver that only keeps books: libcuda.so.1 for tests on machines without one.
//
// Exports the calls that tilejit uses, under the names and types of cuda.h. Each is written to a log, may be told to
// fail, and refuses what the real driver refuses where a mistake of ours would show (no current context, dead handles).
// Device memory is host memory; kernels do nothing. A release that is told to fail has released all the same, as in a
// driver that is going down. Steered through fake_cuda_control.h.
//
// A test either opens it by its path before the product asks for "libcuda.so.1" (the loader then answers with what the
// process already has: FakeCuda in fake_cuda.hpp), or starts a program with its folder on LD_LIBRARY_PATH.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>

#include "fake_cuda_state.hpp"

// The headers give this name to a second version; tilejit asks for the first, which every driver has.
#undef cuEventElapsedTime

extern "C" {

CUresult cuGetErrorName(CUresult result, const char** text) {
  static thread_local std::string name;
  *text = nullptr;
  if (result == kUnnamedError) return CUDA_ERROR_INVALID_VALUE;
  name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE_" + std::to_string(result);
  *text = name.c_str();
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult result, const char** text) {
  *text = nullptr;
  if (result == kUnnamedError) return CUDA_ERROR_INVALID_VALUE;
  *text = "chosen by the fake driver";
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags) {
  TJ_ENTER(std::to_string(flags));
  return CUDA_SUCCESS;
}
/// The log leaves this call out, as it may be asked at any time.
CUresult cuDriverGetVersion(int* version) {
  *version = state().driver_version;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  TJ_ENTER();
  *count = state().device_count;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  TJ_ENTER(std::to_string(index));
  *device = index;
  return index < state().device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  TJ_ENTER(std::to_string(device));
  std::strncpy(name, "Fake H200", static_cast<std::size_t>(size));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char* text, int size, CUdevice device) {
  TJ_ENTER(std::to_string(device));
  std::snprintf(text, static_cast<std::size_t>(size), "00000000:%02x:00.0", 0x19u + static_cast<unsigned>(device));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  TJ_ENTER(std::to_string(attribute) + " of device " + std::to_string(device));
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = state().major;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = state().minor;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = kSmemPerBlockBytes;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  TJ_ENTER(std::to_string(device));
  *context = reinterpret_cast<CUcontext>(&g_contexts[device]);
  const std::lock_guard lock(state().mutex);
  ++state().retains[device];
  if (unsigned long long& id = state().context_ids[device]; id == 0) id = ++state().last_context_id;
  return CUDA_SUCCESS;
}
/// Destroys what all contexts have: tests of it have one device. The context stays retained, and has another number
/// when somebody retains it again.
CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  TJ_ENTER(std::to_string(device));
  const std::lock_guard lock(state().mutex);
  state().context_ids[device] = 0;
  for (Live* live : state().kinds()) {
    state().gone.insert(live->begin(), live->end());
    live->clear();
  }
  return CUDA_SUCCESS;
}
/// The log leaves this call out: it changes nothing, and is called before everything.
CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  *id = id_of(context);
  return *id != 0 ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  TJ_RELEASE(std::to_string(device));
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
  if (id_of(context) == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  t_stack.push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  const CUresult result = enter(__func__);
  if (t_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = t_stack.back();
  t_stack.pop_back();
  return result;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  constexpr const char* kTarget = "\n.target sm_";
  const auto* text = static_cast<const char*>(image);
  const bool cubin = std::memcmp(image, "\177ELF", 4) == 0;
  const char* const target = cubin ? nullptr : std::strstr(text, kTarget);
  TJ_ENTER(target != nullptr ? "PTX of " + std::to_string(std::atoi(target + std::strlen(kTarget))) : std::string());
  TJ_NEED_CONTEXT();
  if (!cubin && target == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  if (target != nullptr && std::atoi(target + std::strlen(kTarget)) > state().major * 10 + state().minor)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  return make(state().modules, "module", reinterpret_cast<void**>(module));
}
CUresult cuModuleUnload(CUmodule module) {
  TJ_RELEASE(name_of(module));
  TJ_NEED_CONTEXT();
  return destroy(state().modules, module, result);
}
/// A function is its module's handle; names that begin with "missing" are not there.
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  TJ_ENTER(name_of(module) + " " + name);
  *function = reinterpret_cast<CUfunction>(module);
  return std::strncmp(name, "missing", 7) == 0 ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction function) {
  TJ_ENTER(name_of(function));
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  TJ_ENTER(std::to_string(attribute));
  *value = 49152;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int value) {
  TJ_ENTER(std::to_string(value));
  return value <= kSmemPerBlockBytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuFuncGetParamInfo(CUfunction, size_t which, size_t* offset, size_t* size) {
  TJ_ENTER(std::to_string(which));
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
      attributes +=
          how->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
              ? how->attrs[i].value.programmaticStreamSerializationAllowed == 1 ? " waits itself" : " must wait"
          : how->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
              ? " cluster " + std::to_string(cluster) +
                    (how->attrs[i].value.clusterDim.y * how->attrs[i].value.clusterDim.z != 1 ? " and more" : "")
              : " attribute " + std::to_string(how->attrs[i].id);
    TJ_ENTER("grid " + std::to_string(how->gridDimX) + "x" + std::to_string(how->gridDimY) + "x" +
             std::to_string(how->gridDimZ) + " threads " + std::to_string(how->blockDimX) + " smem " +
             std::to_string(how->sharedMemBytes) + attributes +
             (how->blockDimY * how->blockDimZ != 1 ? " in more than one dimension" : "") +
             (how->hStream != nullptr ? " in " + name_of(how->hStream) : std::string()));
  }
  TJ_NOT_LOST(launches_lost);
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
  if (const auto hook = state().launch_hook.load()) hook(params[0], state().launch_user);
  if (state().block_ms > 0) work(how->hStream, state().block_ms * how->gridDimX * how->gridDimY * how->gridDimZ);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  TJ_ENTER(std::to_string(flags));
  TJ_NEED_CONTEXT();
  return make(state().streams, "stream", reinterpret_cast<void**>(stream));
}
CUresult cuStreamDestroy(CUstream stream) {
  TJ_RELEASE(name_of(stream));
  return destroy(state().streams, stream, result);
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  TJ_ENTER(name_of(stream) + " mode " + std::to_string(mode));
  set_worked_ms(stream, 0);
  return is_live(state().streams, stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  TJ_ENTER(name_of(stream));
  *graph = nullptr;
  if (!is_live(state().streams, stream)) return CUDA_ERROR_INVALID_HANDLE;
  const double ms = take_worked_ms(stream);
  const CUresult result = make(state().graphs, "graph", reinterpret_cast<void**>(graph));
  set_worked_ms(*graph, ms);
  return result;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  TJ_ENTER(name_of(graph) + " flags " + std::to_string(flags));
  if (!is_live(state().graphs, graph)) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = make(state().executables, "executable", reinterpret_cast<void**>(executable));
  set_worked_ms(*executable, worked_ms(graph));
  return result;
}
CUresult cuGraphDestroy(CUgraph graph) {
  TJ_RELEASE(name_of(graph));
  take_worked_ms(graph);
  return destroy(state().graphs, graph, result);
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  TJ_RELEASE(name_of(executable));
  take_worked_ms(executable);
  return destroy(state().executables, executable, result);
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  TJ_ENTER(name_of(executable) + " in " + name_of(stream));
  TJ_NEED_CONTEXT();
  work(stream, worked_ms(executable));
  return is_live(state().executables, executable) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/// Clusters of a device whose 132 multiprocessors come in groups of 18 and a rest of 6: a cluster lies within a group.
CUresult cuOccupancyMaxActiveClusters(int* count, CUfunction function, const CUlaunchConfig* how) {
  TJ_ENTER();
  TJ_NEED_CONTEXT();
  if (!is_live(state().modules, function)) return CUDA_ERROR_INVALID_HANDLE;
  int cluster = 1;
  for (unsigned i = 0; i < how->numAttrs; ++i)
    if (how->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      cluster = static_cast<int>(how->attrs[i].value.clusterDim.x);
  *count = 7 * (18 / cluster) + 6 / cluster;
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  TJ_ENTER(name_of(stream));
  TJ_NEED_CONTEXT();
  *status = static_cast<CUstreamCaptureStatus>(state().capture.load());
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  TJ_ENTER(name_of(stream));
  TJ_NEED_CONTEXT();
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream stream) {
  TJ_ENTER(name_of(stream));
  TJ_NEED_CONTEXT();
  return state().busy != 0 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  TJ_ENTER(std::to_string(*mode));
  std::swap(*mode, t_capture_mode);
  return CUDA_SUCCESS;
}

// Calls for memory, which belong to the same library.
#include "fake_cuda_memory.hpp"

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  TJ_ENTER(std::to_string(flags));
  TJ_NEED_CONTEXT();
  return make(state().events, "event", reinterpret_cast<void**>(event));
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  TJ_ENTER(name_of(event) + " in " + name_of(stream));
  TJ_NOT_LOST(events_lost);
  set_worked_ms(event, now_ms());
  return is_live(state().events, event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  TJ_ENTER(name_of(stream) + " behind " + name_of(event));
  TJ_NOT_LOST(events_lost);
  return is_live(state().events, event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuEventSynchronize(CUevent event) {
  TJ_ENTER(name_of(event));
  return is_live(state().events, event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  TJ_ENTER(name_of(start) + " to " + name_of(end));
  *milliseconds = state().block_ms > 0 ? static_cast<float>(worked_ms(end) - worked_ms(start)) : 1.5F;
  return is_live(state().events, start) && is_live(state().events, end) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuEventDestroy(CUevent event) {
  TJ_RELEASE(name_of(event));
  take_worked_ms(event);
  return destroy(state().events, event, result);
}

/// Keeps the whole request, shortened, where the real driver writes its opaque form.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
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

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* base) {
  TJ_ENTER();
  reinterpret_cast<cuuint64_t*>(map)[0] = reinterpret_cast<cuuint64_t>(base);
  return CUDA_SUCCESS;
}

}  // extern "C"
