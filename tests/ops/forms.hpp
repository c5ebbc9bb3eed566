// Requests for the kernels of every form that an op has, for tests that look at all of them without making any.
//
// Decides which forms these are: all that tj-warm makes when no flag is given, then each layout, epilogue, tile, step
// and rung in a few combinations. Does not decide what an arch serves: some of these are refused by candidates().
#pragma once

#include <vector>

#include "arch/arch.hpp"
#include "ops/op.hpp"

namespace tj::testing {

std::vector<ops::Request> forms_of(const ops::Op& op, const arch::Arch& arch);

}  // namespace tj::testing
