// Calls in threads that are cancelled: a child process whose exit status says how one ended.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <functional>

#include "support/scratch.hpp"

namespace tj::testing {

/// 0 when the call came back in a thread that was cancelled before, and the thread ended by that. In a child, as the
/// fault ends the process. `prepare` runs there first, in a thread that is not cancelled.
inline int end_of_cancelled(const std::function<void()>& call, const std::function<void()>& prepare = {}) {
  struct Cancelled {
    const std::function<void()>& call;
    bool came_back = false;
  };
  return wait_for(start_child([&] {
    ::alarm(60);
    if (prepare) prepare();
    Cancelled given{call};
    pthread_t thread;
    const auto work = [](void* its) -> void* {
      auto& own = *static_cast<Cancelled*>(its);
      ::pthread_cancel(::pthread_self());  // acts at the first cancellation point
      own.call();
      own.came_back = true;
      ::pthread_testcancel();
      return nullptr;
    };
    if (::pthread_create(&thread, nullptr, work, &given) != 0) return 1;
    void* result = nullptr;
    ::pthread_join(thread, &result);
    return !given.came_back ? 2 : result != PTHREAD_CANCELED ? 3 : 0;
  }));
}

}  // namespace tj::testing
