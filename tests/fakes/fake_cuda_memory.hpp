// The fake CUDA driver's calls about memory, which libcuda_fake.cpp includes among the others.
//
// Decides what they keep in the books. Invariant: device memory is host memory.
#pragma once

CUresult cuMemAlloc(CUdeviceptr* memory, size_t bytes) {
  TJ_ENTER(std::to_string(bytes));
  TJ_NEED_CONTEXT();
  void* block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = reinterpret_cast<CUdeviceptr>(block);
  const std::lock_guard lock(state().mutex);
  state().memory.insert(block);
  give_name("memory", block);
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr memory) {
  state().frees_while_busy += state().busy;
  TJ_RELEASE(name_of(reinterpret_cast<void*>(memory)));
  TJ_NEED_CONTEXT();
  return destroy(state().memory, reinterpret_cast<void*>(memory), result);
}
CUresult cuMemAllocAsync(CUdeviceptr* memory, size_t bytes, CUstream) {
  TJ_ENTER(std::to_string(bytes));
  return cuMemAlloc(memory, bytes);
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* memory, size_t bytes, CUmemoryPool pool, CUstream) {
  TJ_ENTER(std::to_string(bytes));
  if (!is_live(state().pools, pool) || state().capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = cuMemAlloc(memory, bytes);
  if (result == CUDA_SUCCESS) state().take_from_pool(reinterpret_cast<void*>(*memory), bytes);
  return result;
}
CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  TJ_ENTER();
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->location.id >= state().device_count)
    return CUDA_ERROR_INVALID_VALUE;
  return make(state().pools, "pool", reinterpret_cast<void**>(pool));
}
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  TJ_RELEASE(name_of(pool));
  return destroy(state().pools, pool, result);
}
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  TJ_ENTER(std::to_string(*static_cast<cuuint64_t*>(value)));
  return is_live(state().pools, pool) && attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? CUDA_SUCCESS
                                                                                        : CUDA_ERROR_INVALID_VALUE;
}
/// All pools are one in the books, since tests have one.
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  TJ_ENTER(std::to_string(attribute));
  if (!is_live(state().pools, pool)) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<cuuint64_t*>(value) =
      (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? state().pool_used : state().pool_reserved).load();
  return CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) {
  TJ_ENTER(std::to_string(bytes));
  state().pool_reserved = state().pool_used.load();
  return is_live(state().pools, pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  state().give_to_pool(reinterpret_cast<void*>(memory));
  TJ_RELEASE(name_of(reinterpret_cast<void*>(memory)) + " in " + name_of(stream));
  const CUresult freed = cuMemFree(memory);
  return result != CUDA_SUCCESS ? result : freed;
}
CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char value, size_t bytes, CUstream stream) {
  TJ_ENTER(std::to_string(bytes) + " in " + name_of(stream));
  TJ_NEED_CONTEXT();
  std::memset(reinterpret_cast<void*>(memory), value, bytes);
  return CUDA_SUCCESS;
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
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  TJ_ENTER(std::to_string(bytes) + " in " + name_of(stream));
  TJ_NEED_CONTEXT();
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  TJ_ENTER(std::to_string(copy->WidthInBytes) + " x " + std::to_string(copy->Height) + " in " + name_of(stream));
  TJ_NEED_CONTEXT();
  if (copy->srcMemoryType != CU_MEMORYTYPE_UNIFIED || copy->dstMemoryType != CU_MEMORYTYPE_UNIFIED ||
      copy->srcPitch < copy->WidthInBytes || copy->dstPitch < copy->WidthInBytes)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t row = 0; row < copy->Height; ++row)
    std::memcpy(reinterpret_cast<char*>(copy->dstDevice) + row * copy->dstPitch,
                reinterpret_cast<const char*>(copy->srcDevice) + row * copy->srcPitch, copy->WidthInBytes);
  return CUDA_SUCCESS;
}
CUresult cuMemAllocHost(void** memory, size_t bytes) {
  CUdeviceptr block = 0;
  const CUresult result = cuMemAlloc(&block, bytes);
  *memory = reinterpret_cast<void*>(block);
  return result;
}
CUresult cuMemFreeHost(void* memory) { return cuMemFree(reinterpret_cast<CUdeviceptr>(memory)); }

/// A handle is an address: ranks of a test are threads of one process, which the real driver would refuse.
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr memory) {
  TJ_ENTER(name_of(reinterpret_cast<void*>(memory)));
  TJ_NEED_CONTEXT();
  if (!is_live(state().memory, reinterpret_cast<void*>(memory))) return CUDA_ERROR_INVALID_VALUE;
  *handle = {};
  std::memcpy(handle->reserved, &memory, sizeof(memory));
  return CUDA_SUCCESS;
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* memory, CUipcMemHandle handle, unsigned flags) {
  std::memcpy(memory, handle.reserved, sizeof(*memory));
  TJ_ENTER(name_of(reinterpret_cast<void*>(*memory)) + " flags " + std::to_string(flags));
  TJ_NEED_CONTEXT();
  return is_live(state().memory, reinterpret_cast<void*>(*memory)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr) {
  state().frees_while_busy += state().busy;
  TJ_RELEASE({});
  return result;
}
