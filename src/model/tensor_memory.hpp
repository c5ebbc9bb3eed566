// Tensor memory of one block: the owners of its columns, the loads of warps from it and their stores to it.
//
// Decides who has which columns (tensor_columns.cpp), alone or with the other block of a pair. A load's registers hold
// a NaN pattern until the warp's wait, and then what the cells hold at that moment. A store reaches the cells at the
// warp's wait. tensor_matrix.hpp has what products do to the cells, tensor_order.hpp who may do what when. Invariant:
// columns that are allocated hold NaN patterns, never what was there before. Source: PTX ISA 9.0, "Tensor Memory",
// "tcgen05.alloc", "tcgen05.ld", "tcgen05.st", "tcgen05.wait".
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/scheduler.hpp"
#include "model/warp.hpp"

namespace tj::model {

/// Cells of tensor memory: `lanes` from `lane` on and `columns` from `column` on.
struct TensorRange {
  unsigned lane = 0, lanes = 0, column = 0, columns = 0;
  bool apart = false;  ///< the first 16 of each 32 of those lanes
};
/// "lanes 32-63, columns 0-15".
std::string text_of(const TensorRange& range);

class TensorMemory {
 public:
  static constexpr unsigned kLanes = 128, kColumns = 512;
  static constexpr unsigned kUnit = 32;  ///< columns; the least that is allocated
  static constexpr std::uint32_t kPoison = 0xffffffff;

  TensorMemory(Scheduler& scheduler, unsigned warps) : scheduler_(scheduler), warps_(warps) {}
  void reset();
  /// The calls below are for so many blocks together, 1 or 2.
  void use(const Thread& thread, int blocks);
  /// The block that uses its tensor memory together with the thread's block.
  static Block& other_of_pair(const Thread& thread, const char* what);

  /// Calls that all lanes of a warp do together: each lane calls them. All throw tj::Error(model_fault) for misuse.
  void allocate(Thread& thread, std::uint32_t place, std::uint32_t columns);
  void relinquish(Thread& thread);
  void free(Thread& thread, std::uint32_t tensor, std::uint32_t columns);
  void load(Thread& thread, std::uint32_t tensor, std::uint32_t* words, int count, tj_model_tensor_shape shape);
  void store(Thread& thread, std::uint32_t tensor, const std::uint32_t* words, int count, tj_model_tensor_shape shape);
  void wait(Thread& thread, bool stores);

  /// The cells from this address on. Throws naming `what` where they do not all belong to one allocation.
  TensorRange range(const Thread& thread, std::uint32_t tensor, unsigned lanes, unsigned columns,
                    const char* what) const;
  std::uint32_t* row(unsigned lane) { return cells_.data() + std::size_t{lane} * kColumns; }

  /// The thread has ended.
  void ended(const Thread& thread) const;
  /// The block has ended. Throws where columns are still allocated.
  void ended() const;
  /// For reports: "64 columns; 512 of 512 are allocated".
  std::string shortage(unsigned columns) const;
  std::string other_of_pair() const;

 private:
  static constexpr unsigned kWarpLanes = 32;  ///< threads of a warp, and lanes that it reaches
  struct Allocation {
    unsigned column, columns;
  };
  struct Asked {  ///< warp whose last lane is the thread
    Thread* thread = nullptr;
    WarpUnit::Kind kind = WarpUnit::Kind::sync;
    std::uint32_t tensor = 0, columns = 0;  ///< an allocation: the place for its address
  };
  struct Request {  ///< request of one lane
    std::uint32_t tensor;
    std::uint32_t* words;
    int count;
    tj_model_tensor_shape shape;
  };
  struct Move {  ///< a warp's load or store that has not been waited for
    TensorRange range;
    int count;
    tj_model_tensor_shape shape;
    std::array<std::uint32_t*, kWarpLanes> to;  ///< a load: each lane's registers
    std::vector<std::uint32_t> values;          ///< a store: lane by lane
  };
  struct PerWarp {
    std::vector<Move> loads, stores;
  };
  using Requests = std::array<const void*, kMaxWarpThreads>;

  void ask(Thread& thread, WarpUnit::Kind kind, std::uint32_t tensor, std::uint32_t columns);
  void take_part(const Asked& own);
  void perform(std::span<const Asked> all);
  void allocate_for(std::span<const Asked> all);
  void take(const Asked& asked, unsigned column);
  void give_back(const Asked& asked);
  void move_all(Thread& last, const Requests& requests, bool store);
  void wait_all(Thread& last, bool stores);
  void arrive(const Thread& last, const Move& load);
  int fitting(unsigned columns) const;
  std::uint32_t& cell(const Move& move, unsigned lane, int index);

  Scheduler& scheduler_;
  const unsigned warps_;
  std::vector<std::uint32_t> cells_;  ///< lane by lane; empty while nothing was ever allocated
  std::vector<Allocation> allocations_;
  unsigned least_ = kColumns;  ///< columns of the last allocation: the next gets no more
  bool relinquished_ = false;
  std::vector<Thread*> waiting_;
  unsigned blocks_ = 0;  ///< blocks that use it together; 0 while nobody has
  Asked come_;           ///< a warp that waits for a warp of the other block
  std::vector<PerWarp> moves_;
};

}  // namespace tj::model
