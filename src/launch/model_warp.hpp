// Instructions that all lanes of a warp execute together.
//
// Decides the result of a shuffle, a vote or a sync once the last lane has arrived. Invariant: the lanes of a warp are in
// the same instruction, else tj::Error(model_fault).
#pragma once

#include <array>
#include <cstdint>

#include "launch/model_scheduler.hpp"

namespace tj::launch::model {

class WarpUnit {
 public:
  enum class Kind { sync, shuffle, shuffle_xor, any };

  void reset() { arrived_ = 0; }
  /// Returns this lane's result once all 32 lanes take part.
  std::uint32_t meet(Scheduler& scheduler, Thread& thread, Kind kind, std::uint32_t value, std::uint32_t operand);

 private:
  void finish();

  std::uint32_t arrived_ = 0;
  Kind kind_ = Kind::sync;
  std::array<std::uint32_t, kWarpThreads> value_{}, operand_{}, result_{};
};

}  // namespace tj::launch::model
