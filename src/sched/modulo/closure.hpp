// All-pairs closure of difference constraints t_j - t_i >= w, kept exact under insertion.
//
// Decides consistency only; knows neither units nor initiation intervals. Invariant: at(i, j) is the longest path from
// i to j; after a refused insertion the content is unspecified.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tj::sched {

class Closure {
 public:
  static constexpr std::int32_t kNone = -(1 << 30);  ///< no path
  static constexpr std::int32_t kHalf = kNone / 2;   ///< anything below is no path

  Closure() = default;
  explicit Closure(int size) : size_(static_cast<std::size_t>(size)), value_(size_ * size_, kNone) {
    for (std::size_t i = 0; i < size_; ++i) value_[i * size_ + i] = 0;
  }

  int size() const { return static_cast<int>(size_); }
  std::int32_t at(int i, int j) const {
    return value_[static_cast<std::size_t>(i) * size_ + static_cast<std::size_t>(j)];
  }
  bool path(int i, int j) const { return at(i, j) > kHalf; }

  /// A direct constraint, before close().
  void set(int i, int j, std::int32_t w) {
    auto& entry = value_[static_cast<std::size_t>(i) * size_ + static_cast<std::size_t>(j)];
    if (w > entry) entry = w;
  }

  /// False when the constraints contradict each other.
  bool close() {
    for (std::size_t k = 0; k < size_; ++k) {
      const std::int32_t* through = row(k);
      for (std::size_t i = 0; i < size_; ++i) {
        const std::int32_t lead = value_[i * size_ + k];
        if (i != k && lead > kHalf) relax(row(i), through, lead);
      }
    }
    for (std::size_t i = 0; i < size_; ++i)
      if (value_[i * size_ + i] > 0) return false;
    return true;
  }

  /// Adds t_j - t_i >= w; false when that contradicts what is there.
  bool insert(int i, int j, std::int32_t w) {
    if (w <= at(i, j)) return true;
    if (path(j, i) && at(j, i) + w > 0) return false;
    const auto from = static_cast<std::size_t>(i), to = static_cast<std::size_t>(j);
    const std::int32_t* through = row(to);
    for (std::size_t a = 0; a < size_; ++a) {
      const std::int32_t lead = value_[a * size_ + from];
      if (lead <= kHalf || lead + w <= value_[a * size_ + to]) continue;
      relax(row(a), through, lead + w);
    }
    return true;
  }

 private:
  std::int32_t* row(std::size_t i) { return value_.data() + i * size_; }

  void relax(std::int32_t* target, const std::int32_t* through, std::int32_t lead) const {
    for (std::size_t b = 0; b < size_; ++b) {
      const std::int32_t candidate = through[b] > kHalf ? through[b] + lead : kNone;
      target[b] = candidate > target[b] ? candidate : target[b];
    }
  }

  std::size_t size_ = 0;
  std::vector<std::int32_t> value_;
};

}  // namespace tj::sched
