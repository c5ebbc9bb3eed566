// See peer_memory.hpp. Rows that follow each other without a gap are one copy of one dimension.
#include "launch/cuda/peer_memory.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tj::launch {
namespace {

CUdeviceptr device_pointer(const void* pointer) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
}

/// CU_DEVICE_ATTRIBUTE_MAX_PITCH of every GPU so far.
constexpr std::int64_t kMostPitch = 0x7fffffff;

/// Lets go with the context current, unless the context is gone.
template <class Release>
auto releasing(std::shared_ptr<CudaContexts> contexts, const CudaContext& context, Release release) {
  return [contexts = std::move(contexts), &context, release](void* pointer) {
    if (!contexts->alive(context)) return;
    const RelaxedCapture relaxed(contexts->api());
    const QuietContextScope scope(contexts->api(), context.handle);
    if (scope.entered()) release(contexts->api(), pointer);
  };
}

}  // namespace

SharedMemory share_memory(const CudaApi& api, CUdeviceptr memory) {
  static_assert(sizeof(CUipcMemHandle) == sizeof(SharedMemory::handle));
  CUipcMemHandle handle{};
  api.check(api.ipc_get_mem_handle(&handle, memory), "cuIpcGetMemHandle", Stage::launch);
  SharedMemory shared;
  std::memcpy(shared.handle.data(), &handle, sizeof(handle));
  return shared;
}

std::shared_ptr<void> open_memory(std::shared_ptr<CudaContexts> contexts, const CudaContext& context,
                                  const SharedMemory& shared) {
  const CudaApi& api = contexts->api();
  CUipcMemHandle handle{};
  std::memcpy(&handle, shared.handle.data(), sizeof(handle));
  CUdeviceptr memory = 0;
  {
    const RelaxedCapture relaxed(api);
    const ContextScope scope(api, context.handle, Stage::launch);
    api.check(api.ipc_open_mem_handle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), "cuIpcOpenMemHandle",
              Stage::launch);
  }
  return {reinterpret_cast<void*>(memory),
          releasing(std::move(contexts), context,
                    [](const CudaApi& with, void* pointer) { with.ipc_close_mem_handle(device_pointer(pointer)); })};
}

void copy_rows(const CudaApi& api, const RowsToCopy& rows, CUstream stream) {
  if (rows.rows == 0 || rows.row_bytes == 0) return;
  const bool dense = rows.to_pitch == rows.row_bytes && rows.from_pitch == rows.row_bytes;
  if (rows.rows == 1 || dense)
    return api.check(api.memcpy_d_to_d_async(device_pointer(rows.to), device_pointer(rows.from),
                                             static_cast<std::size_t>(rows.rows * rows.row_bytes), stream),
                     "cuMemcpyDtoDAsync", Stage::launch);
  if (std::max(rows.to_pitch, rows.from_pitch) > kMostPitch) {
    for (std::int64_t row = 0; row < rows.rows; ++row)
      copy_rows(api,
                {static_cast<std::byte*>(rows.to) + row * rows.to_pitch, rows.row_bytes,
                 static_cast<const std::byte*>(rows.from) + row * rows.from_pitch, rows.row_bytes, rows.row_bytes},
                stream);
    return;
  }
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;  // of two devices
  copy.srcDevice = device_pointer(rows.from);
  copy.srcPitch = static_cast<std::size_t>(rows.from_pitch);
  copy.dstDevice = device_pointer(rows.to);
  copy.dstPitch = static_cast<std::size_t>(rows.to_pitch);
  copy.WidthInBytes = static_cast<std::size_t>(rows.row_bytes);
  copy.Height = static_cast<std::size_t>(rows.rows);
  api.check(api.memcpy_2d_async(&copy, stream), "cuMemcpy2DAsync", Stage::launch);
}

std::shared_ptr<void> allocate_host(std::shared_ptr<CudaContexts> contexts, const CudaContext& context,
                                    std::size_t bytes) {
  const CudaApi& api = contexts->api();
  void* memory = nullptr;
  {
    const RelaxedCapture relaxed(api);
    const ContextScope scope(api, context.handle, Stage::load);
    api.check(api.mem_alloc_host(&memory, std::max<std::size_t>(bytes, 1)), "cuMemAllocHost", Stage::load);
  }
  std::memset(memory, 0, bytes);
  return {memory, releasing(std::move(contexts), context,
                            [](const CudaApi& with, void* pointer) { with.mem_free_host(pointer); })};
}

}  // namespace tj::launch
