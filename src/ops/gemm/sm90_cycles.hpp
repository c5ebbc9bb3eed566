// How long warpgroups take for an iteration of a tile; for sm90.cpp alone.
//
// Decides cycles by the arch's facts, with two constants that were fitted.
#pragma once

#include <cstdint>

#include "arch/arch.hpp"
#include "ops/gemm/tiles.hpp"

namespace tj::ops {

/// Cycles in which a consumer adds an iteration's sums of 8-bit operands to those in f32; of 16-bit operands 0.
double sm90_promote_cycles(const GemmTile& tile, const arch::Arch& arch);
std::int64_t sm90_iteration_cycles(const GemmTile& tile, const arch::Arch& arch);
/// With scales of blocks.
std::int64_t sm90_scaled_iteration_cycles(const GemmTile& tile, const arch::Arch& arch);

}  // namespace tj::ops
