// Every access to a block's tensor memory, held against what its thread may rely on.
//
// Decides which two accesses nothing orders, and what is missing between them. That is a wait of the warp, a wait for a
// commit, or a fence on either side of a sync. Order says who may rely on what; this knows cells by number alone and
// never a value. Invariant: what it finds does not depend on the order of events. The rules, out of PTX ISA 9.0,
// "Memory Consistency Model for 5th generation of TensorCore operations":
// - Loads and stores are done for their warp after its wait. They are done for others that have learned that every lane
//   said tensor_before_sync after that wait.
// - Products are done for threads that have learned of a commit after them.
// - Knowledge that a thread gets by a sync counts for its loads, stores and products after tensor_after_sync.
// - Products of one thread on the same sums in the same shape are in order. A product that overwrites what an earlier
//   one read is in order too.
// - Columns may be freed by a thread that has learned that all is done, with no fence.
// Two more rules hold for units whose notes say what their columns are, as in shared memory. A thread that fills or
// uses a ring's slot has waited for the slot's own barrier. Products that fill it again know by that barrier alone of
// its readers' loads and stores.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "model/monitor.hpp"
#include "model/tensor_memory.hpp"

namespace tj::model {

class TensorOrder {
 public:
  TensorOrder(Monitor& monitor, Scheduler& scheduler);
  void reset();

  /// For all lanes of a warp; `last` came last. All throw tj::Error(model_fault).
  void load(const Thread& last, const TensorRange& cells);
  void store(const Thread& last, const TensorRange& cells);
  void waited(const Thread& last, bool stores);
  void allocated(unsigned column, unsigned columns);
  void freed(const Thread& last, unsigned column, unsigned columns);

  /// For one thread. after: a sync; else before one.
  void fence(const Thread& thread, bool after);
  /// Knowledge of a product once it is done.
  struct Done {
    Order::Agent agent = 0;
    Order::Time time = 0;
    Order::Known before = nullptr;  ///< a commit: what its thread knew
  };
  /// The next product of a thread of this block.
  Done next(const Thread& thread);
  /// Accesses of the product here; the thread may belong to the other block of a pair.
  void product(const Thread& thread, const Done& done, const TensorRange& sums, bool accumulate,
               const TensorRange* left);

  Done issued(const Thread& thread);  ///< all of the thread's products so far

 private:
  enum class By : std::uint8_t { load, store, sums, left };
  using Id = std::uint32_t;
  static constexpr Id kNever = 0;
  static constexpr unsigned kWarpLanes = 32, kLaneStep = 16;  ///< a load or a store has 16 lanes or 32
  static constexpr unsigned kLaneSteps = TensorMemory::kLanes / kLaneStep;

  struct Access {
    By by = By::load;
    unsigned actor = 0;                  ///< counted in the cluster; any thread of the warp for a warp's access
    Order::Agent agent = 0, fenced = 0;  ///< done; done, and said so before a sync
    Order::Time time = 0;
    TensorRange cells;
    int call = 0, iteration = 0;
  };
  struct Cell {
    Id writer = kNever;
    std::vector<Id> readers;  ///< since then, the last of each agent
  };
  struct Kind {  ///< loads of a warp, or its stores
    Order::Agent agent = 0, fenced = 0;
    Order::Time issued = 0, waited = 0;
    std::array<Order::Time, kWarpLanes> said{};  ///< waited for, when the lane last said tensor_before_sync
  };
  struct PerWarp {
    bool used = false;
    Kind loads, stores;
  };
  struct Products {  ///< one for each thread
    unsigned thread = 0;
    Order::Agent agent = 0;
    Order::Time issued = 0;
  };
  enum class Lack { nothing, own_wait, before, after, everything };

  PerWarp& warp_of(const Thread& thread);
  Products& products_of(const Thread& thread);
  Id add(const Thread& thread, By by, const TensorRange& cells, Order::Agent agent, Order::Agent fenced,
         Order::Time time);
  void read(const Thread& thread, Id id, bool by_warp);
  void write(const Thread& thread, Id id, bool by_warp);
  Monitor::Told check_slot(const Thread& thread, Id id, bool by_warp) const;
  void check_told(const Thread& thread, Id later, Id prior, const Monitor::Told& told) const;
  template <class Visit>
  void visit(const TensorRange& cells, Visit&& visit);
  void check(const Thread& thread, Id later, Id prior, bool by_warp) const;
  template <class Check>
  void each_lane(const Thread& of, Check&& check) const;
  Lack lack(const Access& prior, const Thread& thread, const Access& later) const;
  bool pipelined(const Access& prior, const Access& later) const;
  std::string who(const Thread& asking, const Access& access) const;
  static const Order::Known& usable(const Thread& thread);
  [[noreturn]] void unwritten(const Thread& thread, const Access& access) const;
  [[noreturn]] void report(const Thread& thread, const Access& later, const Access& prior, Lack lack) const;

  Monitor& monitor_;
  Scheduler& scheduler_;
  bool used_ = false;
  unsigned first_column_ = 0;  ///< first column of the block's first allocation, the only one of units that say what is
                               ///< there
  std::vector<Access> accesses_;
  std::vector<Cell> cells_;  ///< runs of 16 lanes each, column by column
  std::vector<PerWarp> warps_;
  std::vector<Products> products_;
  std::vector<Order::Known> usable_;  ///< one for each thread: what it knew at its last tensor_after_sync
};

}  // namespace tj::model
