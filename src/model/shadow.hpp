// History of every byte of a block's shared memory: who wrote it last, and who has read it since.
//
// Decides which two accesses nothing orders, and which bytes were never written. Order says who knows of what. It is a
// conflict whoever comes first. Knows no barrier, no slot and no name: a report is its caller's. Invariant: an access
// is recorded after it was found in order, so that a run reports its first conflict.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "model/order.hpp"

namespace tj::model {

/// A single access, or several of one thread between two syncs.
struct Access {
  enum class By : std::uint8_t { thread, thread_copy, bulk_copy, bulk_store, matrix };
  By by = By::thread;
  bool write = false;
  static constexpr std::uint8_t kAnySwizzle = 0xff;
  std::uint8_t swizzle_bytes = 0;  ///< swizzle of a bulk copy; kAnySwizzle: of unknown contents
  unsigned thread = 0;             ///< thread that did or issued it, counted in the cluster
  Order::Agent agent = 0;          ///< asynchronous access: knowing of this agent's time is knowing that it is done
  Order::Time time = Order::kNotDone;
  int call = 0, iteration = 0;  ///< the node in which the thread was
};

class Shadow {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNever = 0, kBarrier = 1;  ///< not written yet; the place of a barrier

  struct Conflict {
    Id prior;                      ///< kNever, kBarrier, or an access
    std::uint32_t address, bytes;  ///< where the two first meet
    bool proxy = false;            ///< all that lacks is a proxy fence
    bool overtaken = false;        ///< all that lacks is that reads have arrived
  };

  /// One phase of a barrier: the knowledge of the threads that arrived, and of asynchronous work that reports to it.
  struct Told {
    const Order::Known& known;
    Order::Agent agent;
    Order::Time time;
  };

  /// Findings of a read by several threads.
  struct Reading {
    std::vector<Id> writers;
    std::uint32_t unwritten = 0;       ///< bytes that nobody has written: no conflict then
    std::vector<std::uint32_t> slots;  ///< their first bytes
  };

  Shadow(Order& order, unsigned warp_threads) : order_(order), warp_threads_(warp_threads) {}
  void reset(std::size_t bytes, std::uint32_t base);

  Id add(const Access& access);
  Access& at(Id id) { return accesses_[id]; }
  const Access& at(Id id) const { return accesses_[id]; }

  /// All of [address, address + bytes) is inside. Each thread that takes part in a read by several must check the
  /// writers that the first one found.
  std::optional<Conflict> read(Id access, std::uint32_t address, std::uint32_t bytes, Reading* reading = nullptr);
  /// Conflict of a write; wrote() records the write, as the last that is done to the place.
  std::optional<Conflict> write(Id access, std::uint32_t address, std::uint32_t bytes) const;
  void wrote(Id access, std::uint32_t address, std::uint32_t bytes);
  /// May `thread` do what `access` does where `prior` was before? Place and size are not set.
  std::optional<Conflict> after(const Access& access, unsigned thread, Id prior) const;
  /// The conflict of a thread that knows no more than a barrier has told.
  std::optional<Conflict> after(const Access& access, const Told& told, Id prior) const;
  /// The first access to the place (its reads since the last write, or its last writes) that `told` does not put in
  /// front of `access`.
  std::optional<Conflict> untold(Id access, const Told& told, std::uint32_t address, std::uint32_t bytes) const;
  /// Bytes of a barrier: nothing else may touch them.
  void set_barrier(std::uint32_t address, std::uint32_t bytes);

 private:
  static constexpr std::uint32_t kGrain = 2;  // bytes of the least access

  struct Range {
    std::size_t first, end;
  };
  Range range(std::uint32_t address, std::uint32_t bytes) const {
    return {(address - base_) / kGrain, (address - base_ + bytes + kGrain - 1) / kGrain};
  }
  std::size_t run_end(std::size_t at, std::size_t end) const;
  template <class Work, class Knows>
  std::optional<Conflict> judge(const Access& access, Id prior, const Work& knows_work, const Knows& knows) const;
  Conflict placed(Conflict conflict, std::size_t first, std::size_t end) const;
  std::uint32_t with(std::uint32_t readers, Id access);

  Order& order_;
  const unsigned warp_threads_;
  std::uint32_t base_ = 0;
  std::vector<Access> accesses_;
  std::vector<Id> writer_;                                 ///< one for each grain
  std::vector<std::uint32_t> readers_;                     ///< one for each grain: index in sets_
  std::vector<std::vector<Id>> sets_;                      ///< reads since the last write; 0 is the empty set
  std::unordered_map<std::uint64_t, std::uint32_t> next_;  ///< (set, access) -> set with that access
};

}  // namespace tj::model
