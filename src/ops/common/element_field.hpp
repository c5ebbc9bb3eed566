// The row for the type of an op's elements, in ops that take f16, bf16 and f32 alike.
//
// Decides words, flags and constant. Kernel is a structure with a member dtype.
#pragma once

#include <array>

#include "ops/common/fields.hpp"

namespace tj::ops {

inline constexpr const char* kElementWords[] = {"f16", "bf16", "f32"};

/// offered: the order of the command line's defaults.
template <class Kernel>
constexpr Field<Kernel> element_field(const std::array<const char*, kMostFlagWords>& offered = {"f16", "bf16", "f32"}) {
  return {.name = "dtype",
          .get = [](const Kernel& kernel) { return static_cast<unsigned>(kernel.dtype); },
          .set = [](Kernel& kernel, unsigned value) { kernel.dtype = static_cast<DType>(value); },
          .words = words<kElementWords>,
          .bits = 2,
          .flags = offered,
          .defaults = 3,
          .tag = "_%",
          .constant = "Element",
          .kind = Constant::element};
}

}  // namespace tj::ops
