// Which library this is. Decides nothing: both texts are written by the build.
#include "support/version.hpp"

#include <tilejit/runtime.hpp>

namespace tj {

const char* version() noexcept { return support::kVersion; }
const char* build_id() noexcept { return support::kBuildId; }

}  // namespace tj
