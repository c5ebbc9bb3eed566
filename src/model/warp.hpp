// Instructions that all lanes of a warp execute together.
//
// Decides the result of a shuffle, a vote or a sync once the last lane has arrived. Other instructions only check that
// all lanes have arrived. Invariant: the lanes of a warp are in the same instruction, else tj::Error(model_fault).
#pragma once

#include <array>
#include <cstdint>

#include "model/order.hpp"
#include "model/scheduler.hpp"

namespace tj::model {

class WarpUnit {
 public:
  enum class Kind {
    sync,
    elect,
    shuffle,
    shuffle_xor,
    any,
    load_matrices,
    mma,
    wave_mma,
    tensor_allocate,
    tensor_relinquish,
    tensor_free,
    tensor_load,
    tensor_store,
    tensor_load_wait,
    tensor_store_wait
  };
  using Requests = std::array<const void*, kMaxWarpThreads>;  ///< one for each lane, as it gave it

  void reset() { arrived_ = 0; }
  /// Returns this lane's result once all lanes take part.
  std::uint32_t meet(Scheduler& scheduler, Thread& thread, Kind kind, std::uint32_t value, std::uint32_t operand);
  /// Returns once all lanes take part and the last one has called work(itself, requests), which may throw. A lane's
  /// request stays where it is until then.
  void meet_all(Scheduler& scheduler, Thread& thread, Kind kind, const void* request,
                void (*work)(Thread& last, const Requests& requests));

 private:
  /// False where others are still to come: the lane has waited for them, and all is done.
  bool last_to_come(Scheduler& scheduler, Thread& thread);
  void release(Scheduler& scheduler, const Thread& thread);
  void check(const Thread& thread, Kind kind);
  void finish(unsigned lanes);
  void order_lanes(Scheduler& scheduler, const Thread& thread);

  std::uint64_t arrived_ = 0;
  Kind kind_ = Kind::sync;
  std::array<std::uint32_t, kMaxWarpThreads> value_{}, operand_{}, result_{};
  Requests requests_{};
};

}  // namespace tj::model
