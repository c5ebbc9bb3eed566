// Checks of products of groups that tests of several archs share.
#pragma once

#include <cstdint>
#include <string>

#include "ops/grouped_gemm/problem.hpp"

namespace tj::test {

/// Has the arch such a kernel of the tile, which is the `tile`-th?
bool serves_groups(const std::string& arch, const GroupedShape& shape, int tile);
/// That kernel on as many blocks as a test likes: "", or what is wrong.
std::string run_grouped_tile(const std::string& arch, const GroupedShape& shape, int tile, std::uint64_t seed,
                             unsigned blocks);
/// Groups along K in every second tile that the arch has for them, on few blocks. Returns how many tiles these are.
int check_depths_tiles(const std::string& arch);

}  // namespace tj::test
