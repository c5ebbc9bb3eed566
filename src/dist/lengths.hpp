// The number of rows that each rank has, as a call tells it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tj::dist {

/// The lengths that a call gave, or this rank's for each. This rank has `own` rows, which its argument `name` says.
/// Throws tj::Error(argument), whose message begins with the op.
std::vector<std::int64_t> checked_lengths(const char* op, const std::vector<std::int64_t>& given, std::int64_t own,
                                          const char* name, int rank, int size);

}  // namespace tj::dist
