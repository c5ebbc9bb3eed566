// The walk as a field of kernels: an op's row for it, and what it does to a graph.
//
// Decides the words, and which walks an arch can have. Does not decide when a call asks for another walk than the usual
// one. Invariant: a kernel of the usual walk has the name, the key and the unit that it had without this field.
#pragma once

#include <cstdint>
#include <string_view>

#include "arch/arch.hpp"
#include "graph/graph.hpp"
#include "ops/common/fields.hpp"
#include "support/fail.hpp"

namespace tj::ops {

enum class WalkChoice : std::uint8_t {
  usual,       ///< the one that the op gives such a kernel
  persistent,  ///< as graph::Walk
  dynamic,
  split
};
inline constexpr const char* kWalkWords[] = {"usual", "persistent", "dynamic", "split"};
inline constexpr const char* kWholeWalkWords[] = {"usual", "persistent", "dynamic"};

/// The row of a kernel's member `walk`. splits: has the op bodies that merge the sums of a tile's pieces?
template <class Kernel>
constexpr Field<Kernel> walk_field(int tag_place, bool splits = false) {
  return {.name = "walk",
          .get = [](const Kernel& kernel) { return static_cast<unsigned>(kernel.walk); },
          .set = [](Kernel& kernel, unsigned place) { kernel.walk = static_cast<WalkChoice>(place); },
          .words = splits ? words<kWalkWords> : words<kWholeWalkWords>,
          .bits = 2,
          .flags = {"usual", "persistent", "dynamic", splits ? "split" : nullptr},
          .tag = "_%",
          .tagged = [](const Kernel& kernel) { return kernel.walk != WalkChoice::usual; },
          .optional = true,
          .tag_place = tag_place};
}

/// The walk of a call with max_sms. walks: do blocks of the usual kernel do tile after tile? Where blocks do not learn
/// the size of their grid, they draw their tiles.
inline WalkChoice limited_walk(const arch::Arch& arch, bool walks) {
  if (walks) return WalkChoice::usual;
  return arch.shared_barriers ? WalkChoice::persistent : WalkChoice::dynamic;
}

/// Throws tj::Error(target, unsupported) for blocks that would go on by the size of a grid that they do not learn.
inline void set_walk(std::string_view op, WalkChoice walk, const arch::Arch& arch, graph::Graph& graph) {
  if (walk == WalkChoice::usual) return;
  if (walk == WalkChoice::persistent && !arch.shared_barriers)
    support::fail(Stage::target, Code::unsupported,
                  support::cat(op, ": walk is persistent; allowed on '", arch.name, "': any other"));
  graph.walk = walk == WalkChoice::persistent ? graph::Walk::persistent
               : walk == WalkChoice::dynamic  ? graph::Walk::dynamic
                                              : graph::Walk::split;
}

}  // namespace tj::ops
