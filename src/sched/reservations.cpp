// See reservations.hpp.
#include "sched/reservations.hpp"

#include <cstddef>

#include "sched/conflicts.hpp"

namespace tj::sched {

ReservationTable::ReservationTable(const Problem& problem, int ii) : problem_(problem), ii_(ii) {
  taken_.assign(problem.units.size(), std::vector<int>(static_cast<std::size_t>(ii), 0));
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

int ReservationTable::blocked(int node, int cycle) const {
  for (const graph::Reservation& use : problem_.uses[static_cast<std::size_t>(node)]) {
    const auto& row = taken_[static_cast<std::size_t>(use.unit)];
    const int free = problem_.units[static_cast<std::size_t>(use.unit)].capacity - use.count;
    int slot = modulo(cycle + use.start + use.cycles - 1, ii_);
    // From the end, so that the answer passes as many blocked slots as possible.
    for (int c = use.cycles - 1; c >= 0; --c) {
      if (row[static_cast<std::size_t>(slot)] > free) return c + 1;
      slot = slot == 0 ? ii_ - 1 : slot - 1;
    }
  }
  return 0;
}

}  // namespace tj::sched
