// How many rows each rank has, as a call tells it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tj::dist {

/// What a call gave, or as many as this rank has for each. `own` rows are what `name` of this rank has. Throws
/// tj::Error(argument), whose message begins with the op.
std::vector<std::int64_t> checked_lengths(const char* op, const std::vector<std::int64_t>& given, std::int64_t own,
                                          const char* name, int rank, int size);

}  // namespace tj::dist
