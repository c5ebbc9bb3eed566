// Barriers of a block: mbarriers in shared memory and the 16 named ones.
//
// Decides when a phase completes and who continues. The state is kept beside shared memory, not in it.
// Invariant: an mbarrier's phase completes exactly when no arrival and no byte is outstanding.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "launch/model_scheduler.hpp"
#include "launch/model_shared.hpp"

namespace tj::launch::model {

struct Mbarrier {
  std::uint32_t arrivals = 0;  ///< of each phase
  std::uint32_t pending = 0;   ///< arrivals that this phase still lacks
  std::int64_t bytes = 0;      ///< announced and not yet copied; negative while copies are ahead of their announcement
  std::uint64_t phase = 0;
  std::vector<Thread*> waiting;
};

class Mbarriers {
 public:
  Mbarriers(Scheduler& scheduler, SharedMemory& shared) : scheduler_(scheduler), shared_(shared) {}
  void reset() { barriers_.clear(); }

  /// All throw tj::Error(model_fault) for misuse.
  void init(Thread& thread, std::uint32_t address, std::uint32_t arrivals);
  void arrive(Thread& thread, std::uint32_t address);
  void expect(Thread& thread, std::uint32_t address, std::uint32_t bytes);
  void wait(Thread& thread, int site, std::uint32_t address, std::uint32_t parity);
  /// A copy that `thread` issues will report to this barrier.
  void check(const Thread& thread, std::uint32_t address) const;
  void complete_bytes(std::uint32_t address, std::uint32_t bytes);

  /// Null when there is none.
  const Mbarrier* find(std::uint32_t address) const;

 private:
  Mbarrier& at(const Thread& thread, std::uint32_t address, const char* what);
  void arrive_at(Thread& thread, std::uint32_t address, Mbarrier& barrier);
  void advance_if_done(Mbarrier& barrier);

  Scheduler& scheduler_;
  SharedMemory& shared_;
  std::map<std::uint32_t, Mbarrier> barriers_;
};

struct NamedBarrier {
  std::uint32_t threads = 0;  ///< that complete it; 0 while nobody has come
  std::uint32_t arrived = 0;
  std::uint64_t generation = 0;
  std::vector<Thread*> waiting;
};

class NamedBarriers {
 public:
  static constexpr std::uint32_t kCount = 16;  ///< 0 is the whole block's
  explicit NamedBarriers(Scheduler& scheduler) : scheduler_(scheduler) {}
  void reset() { barriers_ = {}; }

  void sync_block(Thread& thread, int site);
  /// wait: sync, else arrive only. Throws tj::Error(model_fault) for a bad id or count.
  void meet(Thread& thread, int site, std::uint32_t id, std::uint32_t threads, bool wait);
  const NamedBarrier& at(std::uint32_t id) const { return barriers_[id]; }

 private:
  void arrive(Thread& thread, std::uint32_t id, std::uint32_t threads, const Wait* wait);

  Scheduler& scheduler_;
  std::array<NamedBarrier, kCount> barriers_{};
};

}  // namespace tj::launch::model
