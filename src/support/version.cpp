// Version and build of this library. Decides nothing: the build writes both texts.
#include "support/version.hpp"

#include <tilejit/runtime.hpp>

namespace tj {

const char* version() noexcept { return support::kVersion; }
const char* build_id() noexcept { return support::kBuildId; }

}  // namespace tj
