// See reservations.hpp.
#include "sched/modulo/reservations.hpp"

#include <cstddef>

#include "sched/modulo/conflicts.hpp"

namespace tj::sched {

ReservationTable::ReservationTable(const Problem& problem, int ii) : problem_(problem), ii_(ii) {
  taken_.assign(problem.units.size(), std::vector<int>(static_cast<std::size_t>(ii), 0));
  for (int i = 0; i < problem.size(); ++i) meets_itself_.push_back(meets_itself(i) ? 1 : 0);
}

/// Do two of the node's reservations hold the same slot of a unit? The table is empty before and after.
bool ReservationTable::meets_itself(int node) {
  const auto& uses = problem_.uses[static_cast<std::size_t>(node)];
  bool meets = false;
  change(node, 0, 1);
  for (const graph::Reservation& use : uses) {
    const auto& row = taken_[static_cast<std::size_t>(use.unit)];
    int slot = modulo(use.start, ii_);
    for (int c = 0; c < use.cycles && !meets; ++c) {
      meets = row[static_cast<std::size_t>(slot)] != use.count;
      if (++slot == ii_) slot = 0;
    }
  }
  change(node, 0, -1);
  return meets;
}

void ReservationTable::change(int node, int cycle, int sign) {
  for (const graph::Reservation& use : problem_.uses[static_cast<std::size_t>(node)]) {
    auto& row = taken_[static_cast<std::size_t>(use.unit)];
    int slot = modulo(cycle + use.start, ii_);
    for (int c = 0; c < use.cycles; ++c) {
      row[static_cast<std::size_t>(slot)] += sign * use.count;
      if (++slot == ii_) slot = 0;
    }
  }
}

int ReservationTable::own(int node, const graph::Reservation& use, int c) const {
  int sum = 0;
  for (const graph::Reservation& other : problem_.uses[static_cast<std::size_t>(node)]) {
    const int into = modulo(use.start + c - other.start, ii_);
    if (other.unit == use.unit && into < other.cycles) sum += other.count * (1 + (other.cycles - 1 - into) / ii_);
  }
  return sum;
}

int ReservationTable::blocked(int node, int cycle, bool backwards) const {
  const bool meets_itself = meets_itself_[static_cast<std::size_t>(node)] != 0;
  for (const graph::Reservation& use : problem_.uses[static_cast<std::size_t>(node)]) {
    const auto& row = taken_[static_cast<std::size_t>(use.unit)];
    const int capacity = problem_.units[static_cast<std::size_t>(use.unit)].capacity;
    int slot = modulo(cycle + use.start + (backwards ? 0 : use.cycles - 1), ii_);
    // From the far end, so that the answer passes as many blocked slots as possible.
    for (int passed = use.cycles; passed > 0; --passed) {
      const int c = backwards ? use.cycles - passed : passed - 1;
      const int taken = row[static_cast<std::size_t>(slot)];
      slot = backwards ? (slot + 1 == ii_ ? 0 : slot + 1) : (slot == 0 ? ii_ : slot) - 1;
      if (taken + use.count > capacity) return passed;
      if (meets_itself && taken + own(node, use, c) > capacity) return 1;  // a cycle on another part may lie there
    }
  }
  return 0;
}

}  // namespace tj::sched
