// The kernels that --all checks: every shipped op, on every family of matrix instructions, in the forms that differ in
// their barriers.
//
// Decides the list of kernels. Invariant: the list has nothing that its target does not serve.
#pragma once

#include <string>
#include <vector>

#include "ops/common/op_flags.hpp"

namespace tj::check {

struct Case {
  std::string op, target;  ///< "fmha", "model:sm_90a"
  ops::Flags flags;        ///< flags of Op::trials; may name several kernels
};

/// Entries in the order in which they are reported.
std::vector<Case> full_set();

}  // namespace tj::check
