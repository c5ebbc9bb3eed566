// Lower bounds of the initiation interval, each with its reason in words.
//
// Decides no schedule. Invariant: no schedule has an II below either bound.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sched/modulo/problem.hpp"

namespace tj::sched {

struct Bound {
  int ii = 1;
  std::string reason;        ///< "unit TC: qk.0 512 + pv.0 512 = 1024 cycles", or a recurrence with its node names
  bool impossible = false;   ///< a recurrence that no II satisfies
  std::vector<int> nodes{};  ///< of the recurrence, in its order
  std::int64_t delay = 0, distance = 0;
};

/// From unit capacities: cycles held by all nodes over instances.
Bound resource_bound(const Problem& problem);
/// From recurrences: the largest delay over distance of a cycle of edges.
Bound recurrence_bound(const Problem& problem);

}  // namespace tj::sched
