// Launches captured into a CUDA graph: what Driver::record() gives.
//
// Decides how a capture begins, ends and is given up. Knows no kernels. Invariant: the stream that was captured and,
// when the work throws, all that was captured are gone when record_graph() returns.
#pragma once

#include <functional>
#include <memory>

#include "launch/cuda/context.hpp"
#include "launch/driver.hpp"

namespace tj::launch {

std::shared_ptr<Recording> record_graph(std::shared_ptr<CudaContexts> contexts, const CudaContext& context,
                                        const std::function<void(Stream)>& work);

}  // namespace tj::launch
