// The HIP runtime's calls, found at run time, and what their failures become.
//
// Decides which calls are needed, which may be absent, and the text of their errors. Knows no kernels. The declarations
// are written out here, so that no ROCm header is needed to build. They are the declarations of hip_runtime_api.h that
// are the same in ROCm 5, 6 and 7, handles as void*. Invariant: every required pointer of an opened Api is set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <tilejit/error.hpp>

namespace tj::launch {

/// The numbers of hipError_t that something is decided by; the same in all releases.
enum HipResult : int {
  kHipSuccess = 0,
  kHipInvalidValue = 1,
  kHipOutOfMemory = 2,
  kHipNotInitialized = 3,
  kHipDeinitialized = 4,
  kHipInvalidConfiguration = 9,
  kHipInvalidDeviceFunction = 98,
  kHipNoDevice = 100,
  kHipInvalidDevice = 101,
  kHipInvalidImage = 200,
  kHipNoBinaryForGpu = 209,
  kHipSharedObjectInitFailed = 303,
  kHipInvalidHandle = 400,
  kHipNotFound = 500,
  kHipIllegalAddress = 700,
  kHipLaunchOutOfResources = 701,
  kHipLaunchTimeOut = 702,
  kHipLaunchFailure = 719,
  kHipNotSupported = 801,
  kHipStreamCaptureUnsupported = 900,
  kHipStreamCaptureInvalidated = 901,
  kHipStreamCaptureImplicit = 906,
  kHipStreamCaptureWrongThread = 908
};

/// A place in device memory, for a pool: hipMemPoolProps of ROCm 5 to 7.
struct HipPoolProperties {
  int allocation_type = 1;  ///< pinned: the only one
  int handle_types = 0;
  int location_type = 1;  ///< device
  int device = 0;
  void* security_attributes = nullptr;
  unsigned char reserved[64] = {};
};
static_assert(sizeof(HipPoolProperties) == 88);

/// X(member, symbol, parameters)
#define TJ_HIP_REQUIRED_CALLS(X)                                                                            \
  X(init, hipInit, (unsigned flags))                                                                        \
  X(get_last_error, hipGetLastError, ())                                                                    \
  X(get_device_count, hipGetDeviceCount, (int* count))                                                      \
  X(get_device, hipGetDevice, (int* device))                                                                \
  X(set_device, hipSetDevice, (int device))                                                                 \
  X(device_get_attribute, hipDeviceGetAttribute, (int* value, int attribute, int device))                   \
  X(module_load_data, hipModuleLoadData, (void** module, const void* image))                                \
  X(module_get_function, hipModuleGetFunction, (void** function, void* module, const char* name))           \
  X(module_unload, hipModuleUnload, (void* module))                                                         \
  X(launch_kernel, hipModuleLaunchKernel,                                                                   \
    (void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void** extra))                \
  X(stream_synchronize, hipStreamSynchronize, (void* stream))                                               \
  X(mem_alloc, hipMalloc, (void** memory, std::size_t bytes))                                               \
  X(mem_free, hipFree, (void* memory))                                                                      \
  X(mem_set_async, hipMemsetAsync, (void* memory, int value, std::size_t bytes, void* stream))              \
  X(mem_copy, hipMemcpy, (void* to, const void* from, std::size_t bytes, int kind))                         \
  X(event_create, hipEventCreate, (void** event))                                                           \
  X(event_record, hipEventRecord, (void* event, void* stream))                                              \
  X(event_synchronize, hipEventSynchronize, (void* event))                                                  \
  X(event_elapsed_time, hipEventElapsedTime, (float* milliseconds, void* start, void* end))                 \
  X(event_destroy, hipEventDestroy, (void* event))

/// Null in releases that do not have them.
#define TJ_HIP_OPTIONAL_CALLS(X)                                                                                     \
  X(get_properties_r0600, hipGetDevicePropertiesR0600, (void* properties, int device))                               \
  X(get_properties, hipGetDeviceProperties, (void* properties, int device))                                          \
  X(pointer_get_attribute, hipPointerGetAttribute, (void* value, int attribute, void* memory))                       \
  X(stream_is_capturing, hipStreamIsCapturing, (void* stream, int* status))                                          \
  X(exchange_capture_mode, hipThreadExchangeStreamCaptureMode, (int* mode))                                          \
  X(mem_alloc_async, hipMallocAsync, (void** memory, std::size_t bytes, void* stream))                               \
  X(mem_alloc_from_pool_async, hipMallocFromPoolAsync, (void** memory, std::size_t bytes, void* pool, void* stream)) \
  X(mem_free_async, hipFreeAsync, (void* memory, void* stream))                                                      \
  X(mem_pool_create, hipMemPoolCreate, (void** pool, const HipPoolProperties* properties))                           \
  X(mem_pool_destroy, hipMemPoolDestroy, (void* pool))                                                               \
  X(mem_pool_set_attribute, hipMemPoolSetAttribute, (void* pool, int attribute, void* value))                        \
  X(mem_pool_get_attribute, hipMemPoolGetAttribute, (void* pool, int attribute, void* value))                        \
  X(mem_pool_trim_to, hipMemPoolTrimTo, (void* pool, std::size_t bytes))                                             \
  X(stream_create, hipStreamCreateWithFlags, (void** stream, unsigned flags))                                        \
  X(stream_destroy, hipStreamDestroy, (void* stream))                                                                \
  X(stream_begin_capture, hipStreamBeginCapture, (void* stream, int mode))                                           \
  X(stream_end_capture, hipStreamEndCapture, (void* stream, void** graph))                                           \
  X(graph_instantiate, hipGraphInstantiateWithFlags, (void** executable, void* graph, unsigned long long flags))     \
  X(graph_launch, hipGraphLaunch, (void* executable, void* stream))                                                  \
  X(graph_destroy, hipGraphDestroy, (void* graph))                                                                   \
  X(graph_exec_destroy, hipGraphExecDestroy, (void* executable))

struct HipApi {
#define TJ_HIP_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  TJ_HIP_REQUIRED_CALLS(TJ_HIP_MEMBER)
  TJ_HIP_OPTIONAL_CALLS(TJ_HIP_MEMBER)
#undef TJ_HIP_MEMBER
  const char* (*get_error_name)(int result) = nullptr;
  const char* (*get_error_string)(int result) = nullptr;

  std::string path;    ///< of the library
  std::string remark;  ///< remarks for the user though it serves; mostly empty

  bool has_pools() const noexcept {
    return mem_alloc_async && mem_alloc_from_pool_async && mem_free_async && mem_pool_create && mem_pool_destroy &&
           mem_pool_set_attribute;
  }
  bool has_graphs() const noexcept {
    return stream_create && stream_destroy && stream_begin_capture && stream_end_capture && graph_instantiate &&
           graph_launch && graph_destroy && graph_exec_destroy;
  }

  /// Throws tj::Error(stage, driver_error, out_of_memory or unsupported): the call, HIP's name, number and text, a next
  /// step.
  void check(int result, const char* call, Stage stage) const {
    if (result != kHipSuccess) [[unlikely]]
      fail_call(result, call, stage);
  }
  [[noreturn]] void fail_call(int result, const char* call, Stage stage) const;
  /// HIP keeps a thread's last failure until somebody asks, and other users of the process take it for theirs.
  void forget_failure() const noexcept { get_last_error(); }
  /// "hipErrorInvalidValue (1): invalid argument".
  std::string explain(int result) const;
};

/// Null and a reason when the library or a required call is missing. The runtime that the process has loaded goes
/// first: a second one would know none of its streams. The library stays open until the process ends.
std::unique_ptr<HipApi> open_hip_api(std::string* reason);

}  // namespace tj::launch
