// Options that AMD's compilers are given, whichever of them compiles.
//
// Decides all that changes the code that comes out. Does not decide how a compiler takes text in and gives binaries
// out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tj::compile {

/// For "gfx1100" or "gfx90a:xnack-".
std::vector<std::string> hip_options(std::string_view arch);

/// Of quick jobs, behind the others.
inline constexpr const char* kHipQuickOption = "-O1";

}  // namespace tj::compile
