// The SM clock of an NVIDIA GPU, where NVIDIA's management library is at hand.
//
// Decides where that is looked for. Invariant: a clock that nobody tells is 0, and no failure.
#pragma once

#include <memory>

#include <tilejit/tensor.hpp>

namespace tj::tools {

class SmClock {
 public:
  /// Opens libnvidia-ml.so.1, if it is there and knows the device.
  explicit SmClock(Device device);
  ~SmClock();
  SmClock(const SmClock&) = delete;
  SmClock& operator=(const SmClock&) = delete;

  /// At this moment: what counts is read while the device works.
  double mhz() const;
  double most_mhz() const;

 private:
  struct Calls;
  std::unique_ptr<Calls> calls_;
};

}  // namespace tj::tools
