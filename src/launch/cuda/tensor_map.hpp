// CUDA's bulk-copy descriptors.
#pragma once

#include "launch/cuda/api.hpp"
#include "launch/driver.hpp"

namespace tj::launch {

/// Throws tj::Error(launch, invalid_argument) naming the member of the description, its value and the rule it breaks.
void check_tensor_map(const TensorMapDesc& desc, const void* out);

/// Lets the driver write kTensorMapBytes to out, of a description that was checked. Needs a current context. Throws
/// tj::Error(launch).
void encode_tensor_map(const CudaApi& api, const TensorMapDesc& desc, void* out);

/// Lets the driver write another address into a map that it encoded. Throws tj::Error(launch).
void move_tensor_map(const CudaApi& api, void* map, void* address);

}  // namespace tj::launch
