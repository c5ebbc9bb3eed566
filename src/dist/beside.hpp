// Work in a second stream, of which the caller's stream stays the end.
//
// Decides when the two wait for each other. Invariant: what a call enqueued in the second stream is waited for by the
// caller's, also where the call throws. A capture ends with all its streams joined, and memory goes back behind work.
#pragma once

#include <exception>

#include "launch/driver.hpp"

namespace tj::dist {

/// A call's use of a second stream.
class Beside {
 public:
  Beside(launch::SideStream& side, Stream main) : side_(side), main_(main) {}
  ~Beside() {
    try {
      end();
    } catch (const std::exception&) {  // a device that is lost has no order to keep
    }
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  /// The second stream's next work waits for the caller's.
  void follow() {
    side_.follow(main_);
    open_ = true;
  }
  /// The caller's next work waits for the second stream's, if that has followed; it may get more.
  void join() {
    if (open_) side_.join(main_);
  }
  /// The same, and it gets no more.
  void end() {
    join();
    open_ = false;
  }

 private:
  launch::SideStream& side_;
  const Stream main_;
  bool open_ = false;
};

}  // namespace tj::dist
