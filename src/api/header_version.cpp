// The name that programs in C++ look for when they were compiled with the headers of this minor version (version.hpp).
#include <tilejit/version.hpp>

namespace tj::detail {

const char compiled_with_tilejit_0_2 = 0;

}  // namespace tj::detail
