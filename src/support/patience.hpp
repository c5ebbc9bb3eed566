// Patience: how long a wait for somebody else goes on, and when a word is due about it.
//
// Decides the times: after 1, 10 and 60 seconds and every ten minutes. Does not decide what is said, nor who waits how.
// Invariant: the limit counts from the start, or from a later moment at which whoever is waited for has begun anew.
#pragma once

#include <algorithm>
#include <chrono>

namespace tj::support {

class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  /// limit_s 0: none.
  explicit Patience(double limit_s)
      : limit_(limit_s > 0 ? std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s))
                           : Clock::duration::max()) {}

  /// The limit counts from here: the one that is waited for has begun at this time.
  void counts_from(Clock::time_point begun) { counted_ = std::max(counted_, begun); }
  bool over() const { return Clock::now() - counted_ >= limit_; }
  double waited_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  /// True once for each time at which something should be said.
  bool word_is_due() {
    if (Clock::now() - start_ < due_) return false;
    due_ = due_ < std::chrono::seconds(60) ? due_ * (due_ < std::chrono::seconds(10) ? 10 : 6)
                                           : due_ + std::chrono::minutes(10);
    return true;
  }
  /// Until the limit is over or a word is due, at least 1 ms and at most this.
  Clock::duration step(Clock::duration most) const {
    const auto now = Clock::now();
    const auto left =
        std::min(limit_ == Clock::duration::max() ? limit_ : limit_ - (now - counted_), due_ - (now - start_));
    return std::clamp<Clock::duration>(left, std::chrono::milliseconds(1), most);
  }

 private:
  Clock::time_point start_ = Clock::now(), counted_ = start_;
  Clock::duration limit_, due_ = std::chrono::seconds(1);
};

}  // namespace tj::support
