// Amounts held over the cycles of one period of the steady state, counted from intervals that begin again every II.
//
// Decides nothing; knows no search. Invariant: the peak is that of the endless repetition, however long an interval is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace tj::sched {

class Period {
 public:
  explicit Period(std::int64_t ii) : ii_(ii) {}

  /// `who` holds `amount` for `cycles` from cycle `begin` of each iteration.
  void hold(int who, std::int64_t begin, std::int64_t cycles, std::int64_t amount) {
    if (cycles <= 0 || amount <= 0) return;
    amount = std::min(amount, kMost);  // so that no sum overflows; more than any capacity as it is
    const std::int64_t slot = ((begin % ii_) + ii_) % ii_, rest = cycles % ii_;
    always_ += std::min(cycles / ii_, (kMost << 8) / amount) * amount;  // whole rounds overlap themselves
    always_ = std::min(always_, kMost << 8);
    intervals_.push_back({who, slot, cycles, amount});
    if (rest == 0) return;
    change_[slot] += amount;
    if (slot + rest < ii_) {
      change_[slot + rest] -= amount;
    } else {  // goes on at the period's begin
      change_[0] += amount;
      change_[slot + rest - ii_] -= amount;
    }
  }

  struct Peak {
    std::int64_t amount = 0;
    std::int64_t slot = 0;  ///< the first with so much
  };
  Peak peak() const {
    Peak most{always_, 0};
    std::int64_t now = always_;
    for (const auto& [slot, change] : change_) {
      now += change;
      if (now > most.amount) most = {now, slot};
    }
    return most;
  }

  /// The names that hold something in a slot, in the order of the calls; one entry for each instance of an interval.
  struct Holder {
    int who = 0;
    std::int64_t amount = 0;
  };
  std::vector<Holder> holders(std::int64_t slot) const {
    std::vector<Holder> result;
    for (const Interval& each : intervals_)
      for (std::int64_t since = (slot - each.slot + ii_) % ii_; since < each.cycles && result.size() < kMaxHolders;
           since += ii_)
        result.push_back({each.who, each.amount});
    return result;
  }

 private:
  static constexpr std::int64_t kMost = std::int64_t{1} << 48;
  static constexpr std::size_t kMaxHolders = 16;  ///< enough for a message
  struct Interval {
    int who = 0;
    std::int64_t slot = 0, cycles = 0, amount = 0;
  };

  std::int64_t ii_;
  std::int64_t always_ = 0;
  std::map<std::int64_t, std::int64_t> change_;  ///< at the slot where it happens
  std::vector<Interval> intervals_;
};

}  // namespace tj::sched
