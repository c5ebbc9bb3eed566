// The CUDA driver's calls, found at run time, and what their failures become.
//
// Decides which calls are needed, which may be absent, and the text of driver errors. Knows no kernels. cuda.h gives
// types only; nothing is linked. Invariant: every required pointer of an opened Api is set.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>
#include <string_view>

#include <tilejit/error.hpp>

namespace tj::launch {

/// X(member, symbol): the symbol names are the versions that the declarations of cuda.h stand for.
#define TJ_CUDA_REQUIRED_CALLS(X)                             \
  X(init, cuInit)                                             \
  X(get_error_name, cuGetErrorName)                           \
  X(get_error_string, cuGetErrorString)                       \
  X(driver_get_version, cuDriverGetVersion)                   \
  X(device_get_count, cuDeviceGetCount)                       \
  X(device_get, cuDeviceGet)                                  \
  X(device_get_name, cuDeviceGetName)                         \
  X(device_get_attribute, cuDeviceGetAttribute)               \
  X(primary_ctx_retain, cuDevicePrimaryCtxRetain)             \
  X(primary_ctx_release, cuDevicePrimaryCtxRelease_v2)        \
  X(ctx_get_current, cuCtxGetCurrent)                         \
  X(ctx_push_current, cuCtxPushCurrent_v2)                    \
  X(ctx_pop_current, cuCtxPopCurrent_v2)                      \
  X(module_load_data, cuModuleLoadData)                       \
  X(module_get_function, cuModuleGetFunction)                 \
  X(module_unload, cuModuleUnload)                            \
  X(func_get_attribute, cuFuncGetAttribute)                   \
  X(func_set_attribute, cuFuncSetAttribute)                   \
  X(launch_kernel, cuLaunchKernelEx)                          \
  X(stream_create, cuStreamCreate)                            \
  X(stream_destroy, cuStreamDestroy_v2)                       \
  X(stream_begin_capture, cuStreamBeginCapture_v2)            \
  X(stream_end_capture, cuStreamEndCapture)                   \
  X(graph_instantiate, cuGraphInstantiateWithFlags)           \
  X(graph_destroy, cuGraphDestroy)                            \
  X(graph_exec_destroy, cuGraphExecDestroy)                   \
  X(graph_launch, cuGraphLaunch)                              \
  X(max_active_clusters, cuOccupancyMaxActiveClusters)        \
  X(stream_is_capturing, cuStreamIsCapturing)                 \
  X(stream_synchronize, cuStreamSynchronize)                  \
  X(stream_query, cuStreamQuery)                              \
  X(stream_wait_event, cuStreamWaitEvent)                     \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode) \
  X(mem_alloc, cuMemAlloc_v2)                                 \
  X(mem_free, cuMemFree_v2)                                   \
  X(mem_alloc_async, cuMemAllocAsync)                         \
  X(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync)       \
  X(mem_free_async, cuMemFreeAsync)                           \
  X(mem_pool_create, cuMemPoolCreate)                         \
  X(mem_pool_destroy, cuMemPoolDestroy)                       \
  X(mem_pool_set_attribute, cuMemPoolSetAttribute)            \
  X(memset_d8_async, cuMemsetD8Async)                         \
  X(memcpy_h_to_d, cuMemcpyHtoD_v2)                           \
  X(memcpy_d_to_h, cuMemcpyDtoH_v2)                           \
  X(memcpy_d_to_d, cuMemcpyDtoD_v2)                           \
  X(memcpy_d_to_d_async, cuMemcpyDtoDAsync_v2)                \
  X(memcpy_2d_async, cuMemcpy2DAsync_v2)                      \
  X(mem_alloc_host, cuMemAllocHost_v2)                        \
  X(mem_free_host, cuMemFreeHost)                             \
  X(ipc_get_mem_handle, cuIpcGetMemHandle)                    \
  X(ipc_open_mem_handle, cuIpcOpenMemHandle_v2)               \
  X(ipc_close_mem_handle, cuIpcCloseMemHandle)                \
  X(event_create, cuEventCreate)                              \
  X(event_record, cuEventRecord)                              \
  X(event_synchronize, cuEventSynchronize)                    \
  X(event_destroy, cuEventDestroy_v2)

struct CudaApi {
#define TJ_CUDA_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  TJ_CUDA_REQUIRED_CALLS(TJ_CUDA_MEMBER)
#undef TJ_CUDA_MEMBER
  /// Declared by hand: newer headers give the name to a second version of the call.
  CUresult (*event_elapsed_time)(float* milliseconds, CUevent start, CUevent end) = nullptr;
  /// The number of a context, which no other one ever has. Null before driver 12.0; declared by hand for old headers.
  CUresult (*ctx_get_id)(CUcontext, unsigned long long* id) = nullptr;
  /// Null before driver 12.0.
  CUresult (*tensor_map_encode_tiled)(CUtensorMap*, CUtensorMapDataType, cuuint32_t rank, void* base,
                                      const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                      const cuuint32_t* element_strides, CUtensorMapInterleave, CUtensorMapSwizzle,
                                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill) = nullptr;
  CUresult (*tensor_map_replace_address)(CUtensorMap*, void* base) = nullptr;
  /// Null before driver 12.4.
  CUresult (*func_get_param_info)(CUfunction, size_t index, size_t* offset, size_t* size) = nullptr;
  CUresult (*func_load)(CUfunction) = nullptr;
  /// Null where a driver lacks them: then a pool tells nothing and keeps what it has.
  CUresult (*mem_pool_get_attribute)(CUmemoryPool, CUmemPool_attribute, void* value) = nullptr;
  CUresult (*mem_pool_trim_to)(CUmemoryPool, size_t bytes) = nullptr;

  std::string path;  ///< of the library

  /// Throws tj::Error(stage, driver_error or out_of_memory): the call, CUDA's name, number and text, a next step.
  void check(CUresult result, const char* call, Stage stage) const {
    if (result != CUDA_SUCCESS) [[unlikely]]
      fail_call(result, call, stage);
  }
  [[noreturn]] void fail_call(CUresult result, const char* call, Stage stage) const;
  /// "CUDA_ERROR_INVALID_VALUE (1): invalid argument".
  std::string explain(CUresult result) const;
  /// Why a process that was forked has no device, and what to do; empty for other results.
  static std::string_view forked_advice(CUresult result) noexcept;
};

/// Null and a reason when the library or a required call is missing. The library stays open until the process ends.
std::unique_ptr<CudaApi> open_cuda_api(std::string* reason);

}  // namespace tj::launch
