// The names of all ops, for messages about one that there is not.
#pragma once

#include <string>
#include <string_view>

namespace tj::ops {

/// "fmha, gemm, ...; did you mean 'gemm'?" for a name that is none of theirs.
std::string known_ops(std::string_view unknown);

}  // namespace tj::ops
