// Floating point as a thread begins with it, whatever its program has set.
//
// Decides the state in which a launch's arithmetic runs: no traps, rounding to nearest, subnormals kept. A program may
// trap 0 / 0, which is a value in a kernel, or flush subnormals, as PyTorch offers. Threads that are made meanwhile
// begin with the same state. Invariant: the thread has the state that it came with when this is gone.
#pragma once

#include <cfenv>

namespace tj::model {

class DefaultMath {
 public:
  DefaultMath() noexcept {
    std::feholdexcept(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultMath() { std::fesetenv(&before_); }
  DefaultMath(const DefaultMath&) = delete;
  DefaultMath& operator=(const DefaultMath&) = delete;

 private:
  std::fenv_t before_{};
};

}  // namespace tj::model
