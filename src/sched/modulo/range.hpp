// Several initiation intervals at once: has any of them a schedule?
//
// Edges ask no more at an II than at each smaller one. Two reservations exclude each other at all IIs of a range where
// they meet at each of them. So one search, which knows no more than that, may exclude a whole range. Decides which
// ranges are asked. Invariant: an II that is excluded has no schedule.
#pragma once

#include <cstdint>

#include "sched/modulo/problem.hpp"

namespace tj::sched {

class RangeRefuter {
 public:
  /// Both must outlive this.
  RangeRefuter(const Problem& problem, std::uint64_t& budget) : problem_(problem), budget_(budget) {}

  /// How many IIs from `ii` on, and up to `last`, have no schedule, as far as questions of few nodes tell. 0 until many
  /// have been excluded one by one.
  int excluded(int ii, int last);
  /// Many IIs were excluded before.
  void excluded_before();
  /// An II was excluded alone, by so many nodes.
  void excluded_alone(std::uint64_t visited);

 private:
  bool refute(int low, int high);

  const Problem& problem_;
  std::uint64_t& budget_;
  int alone_ = 0;
  int width_ = 0;            ///< IIs of the next question
  std::uint64_t nodes_ = 0;  ///< what the last answer took
};

}  // namespace tj::sched
