// Memory that several GPUs reach: CUDA IPC, copies by engines, host memory that kernels write.
//
// Decides how it is handed over, mapped and let go. Does not decide who needs it. Invariant: a mapping goes before its
// context does, or with it.
#pragma once

#include <memory>

#include "launch/cuda/api.hpp"
#include "launch/cuda/context.hpp"
#include "launch/peer_memory.hpp"

namespace tj::launch {

/// With the context current, as copy_rows().
SharedMemory share_memory(const CudaApi& api, CUdeviceptr memory);
std::shared_ptr<void> open_memory(std::shared_ptr<CudaContexts> contexts, const CudaContext& context,
                                  const SharedMemory& shared);
void copy_rows(const CudaApi& api, const RowsToCopy& rows, CUstream stream);
std::shared_ptr<void> allocate_host(std::shared_ptr<CudaContexts> contexts, const CudaContext& context,
                                    std::size_t bytes);

}  // namespace tj::launch
