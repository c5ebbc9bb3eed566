// A clock that was started: for shares of time that are counted.
#pragma once

#include <chrono>

namespace tj::support {

class Seconds {
 public:
  double so_far() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tj::support
