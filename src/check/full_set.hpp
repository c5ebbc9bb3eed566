// The kernels that --all checks: every shipped op, on every family of matrix instructions, in the forms that differ in
// their barriers.
//
// Decides which those are. Invariant: what a target does not serve is not in the list.
#pragma once

#include <string>
#include <vector>

#include "ops/common/op_flags.hpp"

namespace tj::check {

struct Case {
  std::string op, target;  ///< "fmha", "model:sm_90a"
  ops::Flags flags;        ///< of Op::trials; may name several kernels
};

/// "--a x,y --b z" -> {a: [x, y], b: [z]}: flags as the lists here and in tests write them.
ops::Flags flags_of(const std::string& text);

/// In the order in which they are reported.
std::vector<Case> full_set();

}  // namespace tj::check
