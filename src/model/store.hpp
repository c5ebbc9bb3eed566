// Bulk tensor stores of the model: boxes from shared memory into a tensor, read later than they are issued.
//
// Decides when a store has read its source: at some time before a wait for its group returns. It writes the bytes that
// shared memory holds then, so that a slot that is filled again too early shows. Invariant: nothing outside the tensor
// is written but, as by the hardware, the rest of 16 bytes in which a row ends.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/copy.hpp"
#include "model/monitor.hpp"
#include "model/scheduler.hpp"
#include "model/shared.hpp"

namespace tj::model {

class StoreEngine final : public AsyncUnit {
 public:
  StoreEngine(Scheduler& scheduler, SharedMemory& shared, Monitor& monitor)
      : scheduler_(scheduler), shared_(shared), monitor_(monitor) {}
  void reset();

  /// Throws tj::Error(model_fault) for a bad map, rank or source.
  void issue(Thread& thread, const void* map, std::uint32_t source, const int* coordinates, int rank);
  /// The thread's stores since its last commit form a group.
  void commit(Thread& thread);
  /// Until at most `pending` of the thread's newest groups have still to read.
  void wait(Thread& thread, int site, int pending);
  /// The thread has ended: all that it issued must have been committed and waited for.
  void ended(const Thread& thread) const;

  std::size_t ready() const override { return pending_.size(); }
  void complete(std::size_t which) override;

 private:
  struct Store {
    TensorMap map;
    std::uint32_t source;
    std::array<std::int64_t, 5> origin;
    unsigned thread;
    std::uint64_t group;  ///< one for each thread
  };
  struct Issuer {
    Order::Agent agent = 0;
    std::uint64_t committed = 0, issued = 0,
                  observed = 0;  ///< groups; issued: the last one that has a store, counted from 1
  };
  bool passed(const Thread& thread, std::uint32_t pending) const;
  void read_row(const Store& store, const BoxRow& row);

  Scheduler& scheduler_;
  SharedMemory& shared_;
  Monitor& monitor_;
  std::vector<Store> pending_;
  std::vector<Issuer> issuers_;  ///< one for each thread
};

}  // namespace tj::model
