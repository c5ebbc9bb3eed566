// An index as containers take it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tj::support {

/// Numbers of nodes, roles, dimensions are int everywhere; none that is used as an index is negative.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace tj::support
