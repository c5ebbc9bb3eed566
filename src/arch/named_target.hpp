// A target that a variable or a flag names.
//
// Decides only that an error says who named it. Knows no arch.
#pragma once

#include <string_view>

#include "arch/arch.hpp"

namespace tj::arch {

/// Parses as parse_target(text) does; errors begin with `from`: "TJ_TARGET: target 'sm_1' ...".
Target parse_target(std::string_view text, std::string_view from);

}  // namespace tj::arch
