// The time that a call is expected to take, from its kernels' schedules.
//
// Decides how tiles are dealt to a device. Does not decide what a tile takes (sched) nor which tiles there are (ops).
// Invariant: no prediction is better than a made-up one: it is NaN where an op does not say what its launches walk.
#pragma once

#include "arch/arch.hpp"
#include "prepared.hpp"

namespace tj::tools {

/// Microseconds of the call that was prepared for args, at the clock that the arch is described with; NaN where nobody
/// predicts it.
double predicted_us(const ops::Op& op, const void* args, const PreparedCall& call, const arch::Arch& arch);

}  // namespace tj::tools
