// Opening libcuda, and the words for its errors.
#include "launch/cuda/api.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "support/dynamic_library.hpp"
#include "support/fail.hpp"

namespace tj::launch {
namespace {

using support::cat;

template <class Function>
void find(const support::DynamicLibrary& library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(library.symbol(name));
}

constexpr const char* kForked =
    "a process that was forked from one that had used CUDA cannot use it: fork before the first call, or start a "
    "program (exec) instead";

const char* next_step(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NOT_INITIALIZED:
      return kForked;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return "free device memory or use smaller tensors";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      return "the binary is for another architecture: check TJ_TARGET against the device";
    case CUDA_ERROR_INVALID_IMAGE:
      return "the binary is damaged or newer than the driver: clear the kernel cache or update the driver";
    case CUDA_ERROR_NOT_FOUND:
      return "the binary lacks the symbol: clear the kernel cache";
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return "the driver is older than the NVRTC that wrote the PTX: update the driver, or put the folder of an older "
             "libnvrtc first on LD_LIBRARY_PATH";
    case CUDA_ERROR_INVALID_PTX:
      return "the driver does not take the PTX: update the driver";
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
      return "the driver's libnvidia-ptxjitcompiler is missing, which compiles PTX: install all of the driver";
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
      return "the driver may not compile PTX: unset CUDA_DISABLE_PTX_JIT";
    case CUDA_ERROR_INVALID_VALUE:
      return "check the grid, the shared memory and the pointers against the device's limits";
    case CUDA_ERROR_INVALID_CLUSTER_SIZE:
      return "make the grid a multiple of the cluster, and the cluster no larger than the device's";
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_INVALID_HANDLE:
      return "use a stream of the device's primary context that still exists";
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      return "the kernel needs more registers or shared memory than the device has";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
      return "an earlier kernel of this process failed, and the context is lost: run it under compute-sanitizer, "
             "restart the process";
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      return "a graph is being captured: make this call outside of the capture";
    case CUDA_ERROR_DEINITIALIZED:
      return "the process is ending: finish GPU work before main returns";
    default:
      return "check with nvidia-smi that the device works, and that the driver is 525 or newer";
  }
}

}  // namespace

std::string CudaApi::explain(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  get_error_name(result, &name);  // null of a number that the driver does not know
  get_error_string(result, &text);
  return cat(name != nullptr ? name : "unknown CUDA error", " (", static_cast<int>(result),
             "): ", text != nullptr ? text : "no description");
}

std::string_view CudaApi::forked_advice(CUresult result) noexcept {
  return result == CUDA_ERROR_NOT_INITIALIZED ? kForked : "";
}

void CudaApi::fail_call(CUresult result, const char* call, Stage stage) const {
  constexpr CUresult kRefusals[] = {
      CUDA_ERROR_INVALID_IMAGE,           CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_NOT_FOUND,
      CUDA_ERROR_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_INVALID_PTX,       CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
      CUDA_ERROR_JIT_COMPILATION_DISABLED};
  const bool refused = std::find(std::begin(kRefusals), std::end(kRefusals), result) != std::end(kRefusals);
  const Code code = result == CUDA_ERROR_OUT_OF_MEMORY ? Code::out_of_memory
                    : refused                          ? Code::unsupported
                                                       : Code::driver_error;
  support::fail(stage, code, cat(call, " failed with ", explain(result), "; ", next_step(result)));
}

std::unique_ptr<CudaApi> open_cuda_api(std::string* reason) {
  // The bare name comes first, so that a library which the process already has is used. Then come the places where
  // containers and WSL put it without telling the loader.
  std::string searched;
  auto library = support::DynamicLibrary::open_first(
      {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}, &searched);
  if (!library) {
    std::replace(searched.begin(), searched.end(), '\n', ';');
    *reason =
        cat("no NVIDIA driver: libcuda.so.1 does not open; install the driver or run on a machine with one; tried ",
            searched);
    return nullptr;
  }
  auto api = std::make_unique<CudaApi>();
  api->path = library->path();
  std::string missing;
#define TJ_CUDA_FIND(member, symbol)    \
  find(*library, api->member, #symbol); \
  if (api->member == nullptr) missing = #symbol;
  TJ_CUDA_REQUIRED_CALLS(TJ_CUDA_FIND)
#undef TJ_CUDA_FIND
  find(*library, api->event_elapsed_time, "cuEventElapsedTime");
  if (api->event_elapsed_time == nullptr) missing = "cuEventElapsedTime";
  find(*library, api->ctx_get_id, "cuCtxGetId");
  find(*library, api->tensor_map_encode_tiled, "cuTensorMapEncodeTiled");
  find(*library, api->tensor_map_replace_address, "cuTensorMapReplaceAddress");
  find(*library, api->func_get_param_info, "cuFuncGetParamInfo");
  find(*library, api->func_load, "cuFuncLoad");
  find(*library, api->mem_pool_get_attribute, "cuMemPoolGetAttribute");
  find(*library, api->mem_pool_trim_to, "cuMemPoolTrimTo");
  if (!missing.empty()) {
    *reason = cat("the NVIDIA driver at ", api->path, " has no ", missing, "; install driver 525 or newer");
    return nullptr;
  }
  support::keep_open(std::move(library));
  return api;
}

}  // namespace tj::launch
