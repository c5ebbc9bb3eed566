// The part that ops share whose kernels only bring memory through registers: one text for every arch, one role, blocks
// that walk tiles where they can.
//
// Decides the unit's text, the role's warps, the blocks of a launch, and what the launch must know. The op decides
// which nodes there are. Invariant: a kernel whose blocks walk is launched with no more blocks than asked for on each
// SM.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "ops/common/graph_builder.hpp"
#include "ops/common/walk_field.hpp"
#include "ops/op.hpp"

namespace tj::ops {

/// A kernel of which nothing but its walk is chosen: one for each op, and one for a call with max_sms where blocks do
/// not learn the size of their grid.
struct WalkKernel {
  WalkChoice walk = WalkChoice::usual;
};
inline constexpr std::array<Field<WalkKernel>, 1> kWalkFields = {{walk_field<WalkKernel>(0)}};

class WalkBuilder : protected GraphBuilder {
 protected:
  /// warps: of 32 lanes; a wave of 64 is two of them. So many blocks at least have registers beside each other.
  WalkBuilder(std::string_view op, std::string_view context, int warps, const arch::Arch& arch, WalkChoice walk,
              int blocks_per_sm = 1)
      : GraphBuilder(op, "any", arch, blocks_per_sm), context_(context), warps_(warps * 32 / arch.warp_size) {
    graph_.name = op;
    if (!arch.shared_barriers) graph_.walk = graph::Walk::one_tile;  // without, blocks do not learn how many there are
    set_walk(op, walk, arch, graph_);
  }

  int at_end(std::string_view body, Scope scope) { return add(single(context_, body, warps_, scope)); }
  /// An iteration that brings so many bytes. One that begins while another runs is the op's to rule out.
  int brings(std::string_view body, double bytes) {
    Node moved = single(context_, body, warps_);
    hold(moved, {.alu = memory_cycles(bytes)});
    moved.warp_cycles = 0;
    return add(std::move(moved));
  }
  Candidate candidate(double typical_iterations) {
    Candidate made{std::move(graph_), typical_iterations, 0, false};
    made.geometry = Geometry::of(WalkLaunch{made.graph.walks()});
    return made;
  }

 private:
  std::string_view context_;
  int warps_;
};

/// The blocks of a launch. At most so many are wanted on an SM: more than run at a time. A launch that leaves SMs to
/// others has only as many as certainly do.
inline void walk_tiles(int tiles, unsigned blocks_per_sm, const Geometry& geometry, int max_sms, LaunchPlan& plan) {
  const auto all = static_cast<unsigned>(tiles);
  plan.limit_sms(max_sms);
  if (plan.limited) blocks_per_sm = plan.blocks_per_sm;
  const bool bounded = plan.sm_count > 0 && geometry.as<WalkLaunch>().walks;
  plan.blocks = bounded ? std::min(all, plan.sm_count * blocks_per_sm) : all;
}

}  // namespace tj::ops
