// Copies that threads issue and do not wait for (cp.async): a few bytes each, finished later than they are issued, in
// no order.
//
// Decides what is poison until a copy is done, and which groups a thread still has under way. Decides when an arrival
// that follows copies comes. Does not decide when a copy is done. Invariant: copies that a thread has issued between
// two commits or arrivals are done at once. Nothing orders them against another thread's copies, or later copies of the
// same thread. Source: PTX ISA 8.7, "cp.async", "cp.async.mbarrier.arrive".
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/barrier.hpp"
#include "model/scheduler.hpp"
#include "model/shared.hpp"

namespace tj::model {

class ThreadCopies final : public AsyncUnit {
 public:
  ThreadCopies(Scheduler& scheduler, SharedMemory& shared, Mbarriers& barriers, Monitor& monitor)
      : scheduler_(scheduler), shared_(shared), barriers_(barriers), monitor_(monitor) {}
  void reset();

  /// All throw tj::Error(model_fault) for misuse. The source is read when the copy is done; its first `present` bytes
  /// alone.
  void issue(Thread& thread, std::uint32_t destination, const void* source, std::uint32_t bytes, std::uint32_t present);
  /// The thread's copies since its last commit form a group.
  void commit(Thread& thread);
  /// Until at most `pending` of the thread's newest groups are under way.
  void wait(Thread& thread, int site, int pending);
  /// The thread has ended: it must know that its copies are done, by its groups or by a barrier that they arrive at.
  void ended(const Thread& thread) const;
  /// One arrival once all that the thread has issued is done.
  void arrive(Thread& thread, std::uint32_t barrier);

  std::size_t ready() const override { return batches_.size() + due_.size(); }
  void complete(std::size_t which) override;

 private:
  struct Piece {
    std::uint32_t destination, bytes, present;
    const std::byte* source;
  };
  struct Batch {
    unsigned thread;
    std::uint64_t group;     ///< counted for each thread alone
    std::uint64_t sequence;  ///< place among the thread's batches
    Shadow::Id access;
    std::vector<Piece> pieces;
  };
  struct Arrival {
    std::uint32_t barrier;
    std::uint64_t sequence;   ///< first batch that it does not wait for
    std::size_t outstanding;  ///< batches before it
    Order::Time time;         ///< time of the thread's agent
  };
  struct PerThread {
    std::uint64_t committed = 0, sequence = 0;
    Order::Agent agent = 0;                 ///< agent of its batches; none before the first
    std::vector<std::uint64_t> group_ends;  ///< sequence at each commit
    Batch* open = nullptr;
    std::vector<std::uint64_t> pending;  ///< the groups of its batches
    std::vector<Arrival> arrivals;
  };
  struct Due {
    unsigned thread;
    std::uint32_t barrier;
    Order::Time time;
  };

  bool passed(const Thread& thread, std::uint32_t pending) const;
  void finish(const Batch& batch);

  Scheduler& scheduler_;
  SharedMemory& shared_;
  Mbarriers& barriers_;
  Monitor& monitor_;
  std::vector<std::unique_ptr<Batch>> batches_;
  std::vector<Due> due_;  ///< arrivals whose copies are done
  std::vector<PerThread> threads_;
};

}  // namespace tj::model
