// Functions of a language's interpreter among the options of a runtime, and the end of that interpreter.
//
// Decides when a callback may no longer be called: the interpreter closes its gate before it ends, and the library may
// live longer. Callbacks that name the gate as their `user` pass through it. Invariant: behind close() none of them is
// begun, and those under way have ended, or the time was over.
#pragma once

#include <cstdint>
#include <utility>

#include "support/fork_safe.hpp"

namespace tj::c_api {

/// Any thread may use it at any time. It lives as long as the process.
class HostGate {
 public:
  /// While one lives that is true, close() waits. Null: there is no gate, and the way is free.
  class Inside {
   public:
    explicit Inside(HostGate* gate);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    explicit operator bool() const noexcept { return begun_; }

   private:
    HostGate* gate_;
    std::uint32_t generation_ = 0;
    bool begun_ = true;
  };

  /// A new gate, which is open.
  static HostGate* make();
  /// The gate at that address; null when there is none.
  static HostGate* at(const void* address);
  /// Lets nobody in any more, and waits for who is inside, for so many seconds at most. False when the time was over.
  bool close(double seconds);

 private:
  support::Mutex mutex_;  ///< of what follows; never held while a callback runs
  bool closed_ = false;
  int inside_ = 0;
  std::uint32_t generation_ = support::process_generation();  ///< of the process that `inside_` counts in
  support::Bell left_;
};

/// A callback's result; `otherwise` when its gate is closed. A thread that ends in the callback unwinds through this.
template <class Result, class Call>
Result through(HostGate* gate, Result otherwise, Call&& call) {
  const HostGate::Inside inside(gate);
  return inside ? std::forward<Call>(call)() : otherwise;
}

}  // namespace tj::c_api
