// The closure of difference constraints (closure.hpp) that also knows which decisions an entry rests on.
//
// Decides consistency and names causes; knows neither units nor initiation intervals. Invariant: an entry whose cause
// is `c` equals the sum of three: the entry up to c's begin, c, and the entry from c's end. Neither entry has changed
// since.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sched/modulo/closure.hpp"

namespace tj::sched {

/// t_to - t_from >= least.
struct Distance {
  int from = 0, to = 0;
  int least = 0;
};

class Paths {
 public:
  static constexpr std::int32_t kGiven = -1;  ///< the cause of what holds without any decision

  void reset(const Closure& root);
  int size() const { return static_cast<int>(size_); }
  std::int32_t at(int i, int j) const {
    return value_[static_cast<std::size_t>(i) * size_ + static_cast<std::size_t>(j)];
  }

  const std::int32_t* row(int i) const { return value_.data() + static_cast<std::size_t>(i) * size_; }
  const std::int32_t* column(int j) const { return value_.data() + j; }  ///< with stride size()

  /// False when `bound` contradicts what is there; nothing has changed then.
  bool insert(const Distance& bound, std::int32_t cause);

  /// Appends the causes of entry (i, j); `distance_of(cause)` is the bound that was inserted with it.
  template <typename DistanceOf>
  void explain(int i, int j, const DistanceOf& distance_of, std::vector<int>& causes) const {
    while (i != j) {
      const std::int32_t cause = via_[static_cast<std::size_t>(i) * size_ + static_cast<std::size_t>(j)];
      if (cause == kGiven) return;
      const Distance bound = distance_of(cause);
      explain(i, bound.from, distance_of, causes);
      causes.push_back(cause);
      i = bound.to;
    }
  }

 private:
  std::size_t size_ = 0;
  std::vector<std::int32_t> value_, via_;
};

}  // namespace tj::sched
