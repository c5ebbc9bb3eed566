// The fields that decide a kernel of chunk_wu, and what a launch must know of it; internal to the op.
#pragma once

#include <array>

#include <tilejit/chunk_wu.hpp>

#include "ops/common/chunk_kernel.hpp"
#include "ops/common/geometry.hpp"
#include "ops/common/walk_field.hpp"
#include "ops/op.hpp"

namespace tj::ops::chunk_wu {

struct WuKernel : ChunkKernel {
  WalkChoice walk = WalkChoice::usual;
};
inline constexpr std::array<Field<WuKernel>, 3> kFields = {
    {gated_delta_rule::dtype_field<WuKernel>(), gated_delta_rule::head_dim_field<WuKernel>(), walk_field<WuKernel>(1)}};

struct WuLaunch {
  bool walks = false;   ///< as WalkLaunch
  bool engine = false;  ///< parameters are MatrixParams, else Params
};
inline constexpr std::array kWuGeometry = {geometry_field<&WuLaunch::walks>("walks"),
                                           geometry_field<&WuLaunch::engine>("engine")};

/// On warpgroup matrix instructions.
const arch::Needs& sm90_needs();
Candidate sm90_candidate(const WuKernel& kernel, const arch::Arch& arch);
/// Allocates nothing.
void sm90_plan(const ChunkWuArgs& args, LaunchPlan& plan);

}  // namespace tj::ops::chunk_wu
