// Work that pthread_cancel() does not interrupt.
//
// Decides that the thread is cancelled later, at its next cancellation point outside. Cancellation unwinds like an
// exception, but must not be caught, and destructors that close files are cancellation points too. Invariant: the
// thread has the state that it came with when this is gone.
#pragma once

#include <pthread.h>

#include <memory>

namespace tj::support {

class Uncancelled {
 public:
  Uncancelled() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { ::pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

/// An object that is made without a cancellation, and destroyed without one, whoever has the last share of it.
template <class Made, class... Given>
std::shared_ptr<Made> made_whole(const Given&... given) {
  const Uncancelled whole;
  return {new Made(given...), [](Made* made) {
            const Uncancelled end;
            delete made;
          }};
}

}  // namespace tj::support
