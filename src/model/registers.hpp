// The registers of a block: other warpgroups may take what a warpgroup gives back.
//
// Decides when a role that wants more registers goes on. Does not know what the compiler uses. Invariant: the threads
// never hold more than the block was started with. Source: PTX ISA 8.7, "setmaxnreg".
#pragma once

#include <string>
#include <vector>

#include "model/scheduler.hpp"

namespace tj::model {

class RegisterPool {
 public:
  explicit RegisterPool(Scheduler& scheduler) : scheduler_(scheduler) {}
  /// Each thread begins with so many; 0: not known, and nothing is checked.
  void reset(int entry);
  /// Throws tj::Error(model_fault) for a number that is no change in that direction.
  void set(Thread& thread, int site, int registers, bool grow);
  /// A thread whose code was compiled for so many; 0: not known. Throws tj::Error(model_fault) when it holds fewer.
  void need(const Thread& thread, int registers, const std::string& role) const;
  /// At the end of the block: whole warpgroups must have changed alike.
  void check_left() const;
  int free() const noexcept { return free_; }

 private:
  Scheduler& scheduler_;
  int entry_ = 0, free_ = 0;
  std::vector<int> held_;  ///< registers of each thread
  std::vector<Thread*> waiting_;
};

}  // namespace tj::model
