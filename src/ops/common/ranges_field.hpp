// The way of ranges as a field of kernels: an op's row for it, and what it does to a graph.
//
// Decides the words. Does not decide which way a kernel takes where nobody asks (the op). Invariant: a kernel of the
// usual way has the name and the unit that it had without this field.
#pragma once

#include <cstdint>

#include "graph/graph.hpp"
#include "ops/common/fields.hpp"

namespace tj::ops {

enum class RangesChoice : std::uint8_t {
  usual,   ///< the way that the op gives such a kernel
  peeled,  ///< as graph::Ranges
  guarded
};
inline constexpr const char* kRangesWords[] = {"usual", "peeled", "guarded"};

/// The row of a kernel's member `ranges`.
template <class Kernel>
constexpr Field<Kernel> ranges_field() {
  return {.name = "ranges",
          .get = [](const Kernel& kernel) { return static_cast<unsigned>(kernel.ranges); },
          .set = [](Kernel& kernel, unsigned place) { kernel.ranges = static_cast<RangesChoice>(place); },
          .words = words<kRangesWords>,
          .bits = 2,
          .flags = {"usual", "peeled", "guarded"},
          .tag = "_%",
          .tagged = [](const Kernel& kernel) { return kernel.ranges != RangesChoice::usual; },
          .optional = true};
}

inline void set_ranges(RangesChoice ranges, graph::Graph& graph) {
  if (ranges == RangesChoice::usual) return;
  graph.ranges = ranges == RangesChoice::peeled ? graph::Ranges::peeled : graph::Ranges::guarded;
}

}  // namespace tj::ops
