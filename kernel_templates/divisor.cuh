// Division by a number that a launch does not change, as a product and a shift, for the host that makes it and the
// device that divides.
//
// Decides how such a number travels in a parameter. A division takes some forty instructions, and every role of a small
// launch would wait for it before its first copy. Invariant: quotients of n from 0 to 2^31 - 1 are exact.
#pragma once

namespace tj {

struct Divisor {
  unsigned factor, shift;
};
// By 2^(31 + s) / d rounded up, s = ceil(log2 d): less than d / 2^(31 + s) too much in the factor, less than 1 / d in
// all.
constexpr Divisor divisor_of(int divisor) {
  unsigned log = 0;
  while ((1ull << log) < static_cast<unsigned long long>(divisor)) ++log;
  return {static_cast<unsigned>(((1ull << (31 + log)) + static_cast<unsigned long long>(divisor) - 1) /
                                static_cast<unsigned long long>(divisor)),
          31 + log};
}
constexpr int divided(int n, const Divisor& by) {
  return static_cast<int>(static_cast<unsigned long long>(static_cast<unsigned>(n)) * by.factor >> by.shift);
}

}  // namespace tj
