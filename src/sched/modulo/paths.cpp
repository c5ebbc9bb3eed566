// Insertion into the closure, row by row (see paths.hpp).
#include "sched/modulo/paths.hpp"

namespace tj::sched {

void Paths::reset(const Closure& root) {
  size_ = static_cast<std::size_t>(root.size());
  value_.resize(size_ * size_);
  via_.assign(size_ * size_, kGiven);
  for (std::size_t i = 0; i < size_; ++i)
    for (std::size_t j = 0; j < size_; ++j) value_[i * size_ + j] = root.at(static_cast<int>(i), static_cast<int>(j));
}

bool Paths::insert(const Distance& bound, std::int32_t cause) {
  const std::int32_t w = bound.least;
  if (w <= at(bound.from, bound.to)) return true;
  const std::int32_t back = at(bound.to, bound.from);
  if (back > Closure::kHalf && back + w > 0) return false;
  const auto from = static_cast<std::size_t>(bound.from), to = static_cast<std::size_t>(bound.to);
  const std::int32_t* through = value_.data() + to * size_;
  for (std::size_t a = 0; a < size_; ++a) {
    std::int32_t* target = value_.data() + a * size_;
    const std::int32_t lead = target[from] + w;
    if (target[from] <= Closure::kHalf || lead <= target[to]) continue;
    std::int32_t* via = via_.data() + a * size_;
    for (std::size_t b = 0; b < size_; ++b) {
      const std::int32_t candidate = through[b] > Closure::kHalf ? through[b] + lead : Closure::kNone;
      const bool better = candidate > target[b];
      target[b] = better ? candidate : target[b];
      via[b] = better ? cause : via[b];
    }
  }
  return true;
}

}  // namespace tj::sched
