// The modulo reservation table: how much of every unit is taken in every cycle modulo II.
//
// Used where nodes are placed one at a time. Decides nothing. Invariant: no slot is negative.
#pragma once

#include <vector>

#include "sched/modulo/problem.hpp"

namespace tj::sched {

class ReservationTable {
 public:
  ReservationTable(const Problem& problem, int ii);
  void add(int node, int cycle) { change(node, cycle, 1); }
  void remove(int node, int cycle) { change(node, cycle, -1); }
  /// 0 when the node fits at this cycle; else the least number of cycles after which the blocking slot is passed.
  int blocked(int node, int cycle) const { return blocked(node, cycle, false); }
  /// blocked() towards earlier cycles.
  int blocked_before(int node, int cycle) const { return blocked(node, cycle, true); }

 private:
  int blocked(int node, int cycle, bool backwards) const;
  void change(int node, int cycle, int sign);
  bool meets_itself(int node);
  /// The count that the node takes of the unit of `use`, by all its reservations, in the c-th cycle of this one.
  int own(int node, const graph::Reservation& use, int c) const;
  const Problem& problem_;
  int ii_;
  std::vector<std::vector<int>> taken_;
  std::vector<char> meets_itself_;  ///< per node: may some of its reservations meet each other modulo II?
};

}  // namespace tj::sched
