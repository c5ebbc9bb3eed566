// The matrix unit of one warpgroup: instructions are issued, run later in order, and show their results at a wait.
//
// Decides who owns which registers meanwhile. From issue to the wait that covers the instruction, a thread's
// accumulators hold a NaN pattern and its left-operand registers must not change. Does not decide when an instruction
// runs. Invariant: an instruction runs once, after all 128 threads have issued it alike.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "model/matrix_math.hpp"
#include "model/monitor.hpp"
#include "model/scheduler.hpp"
#include "model/shared.hpp"

namespace tj::model {

class MatrixUnit final : public AsyncUnit {
 public:
  MatrixUnit(Scheduler& scheduler, SharedMemory& shared, Monitor& monitor, unsigned group)
      : scheduler_(scheduler), shared_(shared), monitor_(monitor), group_(group) {}
  void reset();

  /// All throw tj::Error(model_fault) for misuse.
  void issue(Thread& thread, const tj_model_matrix& instruction);
  void fence(const Thread& thread);
  void commit(Thread& thread);
  void wait(Thread& thread, int site, int pending);
  /// Has the thread still to wait for what it issued in this node, for this iteration?
  bool under_way(const Thread& thread, const std::string& node, int iteration) const;
  /// The thread has ended.
  void ended(const Thread& thread) const;

  std::size_t ready() const override;
  void complete(std::size_t which) override;

  /// For reports: instructions issued by this thread, and by its whole group, and those that ran.
  struct Progress {
    std::uint64_t issued, complete_issues, executed;
  };
  Progress progress(const Thread& thread) const;

 private:
  /// 64 x columns sums, from the first instruction of a chain to the last wait.
  struct Accumulators {
    int columns;
    std::vector<float> values;
  };
  struct Operation {
    tj_model_matrix instruction;  ///< the instruction of the thread that came first; its pointers are unused
    bool left_in_registers, continues;
    std::shared_ptr<Accumulators> sums;
    std::vector<std::array<std::uint32_t, 4>> left;  ///< left operand of each thread
    unsigned issued = 0, retired = 0;
    Shadow::Id access = 0;        ///< its reads of shared memory
    Shadow::Reading read;         ///< findings of its reads
    const void* known = nullptr;  ///< the knowledge that was found to suffice last
  };
  struct Owned {  ///< registers of one thread that an operation uses
    std::uint64_t operation;
    float* d;
    const unsigned* a;
    int call, iteration;  ///< where it was issued
  };
  /// Registers that instructions have been given. A thread that changes them needs a fence before it gives them again.
  struct Registers {
    const void* at;
    std::size_t bytes;
    bool handed_back = false;   ///< by a wait, since the last fence
    bool fenced = false;        ///< since they are known
    std::uint64_t content = 0;  ///< a hash, at the last fence
  };
  struct ThreadState {
    bool fenced = false;  ///< ever
    std::vector<Registers> registers;
    std::uint64_t issued = 0;
    std::deque<std::uint64_t> groups;  ///< issued instructions at each commit
    std::deque<Owned> owned;
  };

  Operation& operation_at(Thread& thread, const tj_model_matrix& instruction, const Owned* chain);
  void check_alike(const Thread& thread, const Operation& operation, const tj_model_matrix& instruction,
                   const Owned* chain) const;
  void take(const Thread& thread, Operation& operation, const tj_model_matrix& instruction, bool chained);
  void retire(Thread& thread, std::uint64_t until);
  void retire_one(const Thread& thread, const Owned& owned, bool last_of_chain);
  void check_fence(const Thread& thread, const void* registers, std::size_t bytes);
  void read(const Thread& thread, Operation& operation, std::uint64_t descriptor, int count, bool mn_major);
  void check_order(const Thread& thread, Operation& operation);
  void load_operands(const Operation& operation);
  void load_left(const Operation& operation);
  void load_right(const Operation& operation);
  Operation& at(std::uint64_t index) { return operations_[static_cast<std::size_t>(index - first_)]; }
  const Operation& at(std::uint64_t index) const { return operations_[static_cast<std::size_t>(index - first_)]; }

  Scheduler& scheduler_;
  SharedMemory& shared_;
  Monitor& monitor_;
  unsigned group_;
  Order::Agent agent_ = 0;
  std::deque<Operation> operations_;
  std::uint64_t first_ = 0, executed_ = 0;
  std::array<ThreadState, kGroupThreads> threads_;
  struct Waiting {
    Thread* thread;
    std::uint64_t until;
  };
  std::vector<Waiting> waiting_;
  std::vector<float> left_, right_, transposed_;
};

}  // namespace tj::model
