// Checks of the numbers in lists that kernels read on the device: TJ_CHECK asks for them before a call.
//
// Decides the words for lists that several ops have. Invariant: kernels take the same lists as they are.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/common/tensor_checks.hpp"

namespace tj::ops {

/// Refuses the first of a list's bounds that is below 0, below the one before it, or above `most`, which `what` names:
/// "q.shape[0]".
void check_begins(const char* op, const char* name, const std::vector<std::int32_t>& list, Size most, const char* what);

}  // namespace tj::ops
