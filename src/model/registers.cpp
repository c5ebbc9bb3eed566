// See registers.hpp.
#include "model/registers.hpp"

#include <utility>

#include "support/fail.hpp"

namespace tj::model {

using support::cat;

void RegisterPool::reset(int entry) {
  entry_ = entry;
  free_ = 0;
  held_.assign(scheduler_.size(), entry);
  waiting_.clear();
}

void RegisterPool::set(Thread& thread, int site, int registers, bool grow) {
  if (entry_ == 0) return;
  int& held = held_[thread.index()];
  if (grow ? registers < held : registers > held)
    fault(thread,
          cat(grow ? "registers_grow" : "registers_shrink", " to ", registers, " from ", held, "; use the other one"));
  if (!grow) {
    free_ += held - registers;
    held = registers;
    for (Thread* waiter : std::exchange(waiting_, {})) scheduler_.wake(*waiter);
    return;
  }
  while (free_ < registers - held) {
    waiting_.push_back(&thread);
    scheduler_.park(thread, {WaitKind::registers, site, 0, static_cast<std::uint32_t>(registers - held), 0});
  }
  free_ -= registers - held;
  held = registers;
}

void RegisterPool::need(const Thread& thread, int registers, const std::string& role) const {
  if (entry_ == 0 || held_[thread.index()] >= registers) return;
  fault(thread, cat("runs role ", role, " with ", held_[thread.index()], " registers a thread, of ", registers,
                    " that it is made for: registers_grow is missing"));
}

void RegisterPool::check_left() const {
  for (unsigned i = 0; i < scheduler_.size(); ++i)
    if (const unsigned first = i / kGroupThreads * kGroupThreads; held_[i] != held_[first])
      fault(cat("block ", scheduler_.thread(0).self.block, ": warp ", first / kWarpThreads, " of warpgroup ",
                i / kGroupThreads, " holds ", held_[first], " registers a thread and warp ", i / kWarpThreads, " ",
                held_[i], "; all four warps must shrink and grow alike"));
}

}  // namespace tj::model
