// A second stream of a CUDA device: what Driver::side_stream() gives.
#pragma once

#include <memory>

#include "launch/cuda/context.hpp"
#include "launch/driver.hpp"

namespace tj::launch {

std::shared_ptr<SideStream> make_side_stream(std::shared_ptr<CudaContexts> contexts, const CudaContext& context);

}  // namespace tj::launch
