// Calls on files that signals interrupt are made again, and not for ever.
//
// Decides how often. Invariant: a call that says nothing but EINTR ends in that error.
#pragma once

#include <cerrno>

namespace tj::support {

inline constexpr int kMostInterruptions = 100;  ///< of one call: a file system that says nothing else does not work

/// Counts those of one call.
class Interruptions {
 public:
  /// Is the call that ended in this error to be made again?
  bool again(int error) noexcept { return error == EINTR && ++count_ < kMostInterruptions; }
  /// The call came further: what follows is another one.
  void came_further() noexcept { count_ = 0; }

 private:
  int count_ = 0;
};

}  // namespace tj::support
