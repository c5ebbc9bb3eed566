// Objects that live until the process is gone, and objects of a thread that may be asked for while it ends.
//
// Decides how everything that is made once is kept. A program may call the library from a destructor of a static
// object, and from threads that go on while main() has returned. Objects that C++ would destroy by then must still be
// there. Invariant: nothing here has a destructor that runs; a fork finds each object either whole or not begun.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#include "support/fork_safe.hpp"

namespace tj::support {

/// Made by the first that asks, never destroyed:
///     static constinit support::Lasting<const std::vector<int>> list;
///     return list.get([] { return std::vector<int>{1, 2, 3}; });
/// An exception from making it goes to the caller, and the next caller tries anew.
template <class T>
class Lasting {
 public:
  constexpr Lasting() = default;
  Lasting(const Lasting&) = delete;
  Lasting& operator=(const Lasting&) = delete;

  template <class Make>
  T& get(Make&& make) {
    if (T* made = made_.load(std::memory_order_acquire)) return *made;
    const std::lock_guard lock(mutex_);
    if (T* made = made_.load(std::memory_order_relaxed)) return *made;
    T* made = new T(std::forward<Make>(make)());
    made_.store(made, std::memory_order_release);
    return *made;
  }
  T& get() {
    return get([] { return T(); });
  }
  /// Each that asks while there is none makes one, outside the section that a fork waits for: it may take long or be
  /// held up. The first one that is made stays.
  template <class Make>
  T& get_made_outside(Make&& make) {
    if (T* made = made_.load(std::memory_order_acquire)) return *made;
    std::unique_ptr<T> made(new T(std::forward<Make>(make)()));
    const std::lock_guard lock(mutex_);
    if (T* first = made_.load(std::memory_order_relaxed)) return *first;
    made_.store(made.get(), std::memory_order_release);
    return *made.release();
  }

 private:
  std::atomic<T*> made_{nullptr};
  Mutex mutex_;
};
static_assert(std::is_trivially_destructible_v<Lasting<int>>, "std::mutex has to leave nothing to do at the end");

/// A lasting constant of a namespace, made when the library is loaded:
///     const std::vector<int>& kList = support::lasting<std::vector<int>>({1, 2, 3});
template <class T>
const T& lasting(T value) {
  return *new T(std::move(value));
}

/// Calls drop(object) when this thread ends, also when it is ending already. The main thread's are not called any more
/// then.
void at_thread_end(void (*drop)(void*), void* object);

/// An object for each thread, made when it is first asked for, destroyed with the thread, and made again for whoever
/// asks after that:
///     thread_local constinit support::PerThread<std::string> text;
///     return text.get();
template <class T>
class PerThread {
 public:
  constexpr PerThread() = default;
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  T& get() {
    if (!made_) {
      at_thread_end(&drop, this);
      new (bytes_) T();
      made_ = true;
    }
    return *std::launder(reinterpret_cast<T*>(bytes_));
  }

 private:
  static void drop(void* object) {
    auto& own = *static_cast<PerThread*>(object);
    if (!own.made_) return;  // making it has thrown
    own.made_ = false;
    std::launder(reinterpret_cast<T*>(own.bytes_))->~T();
  }
  bool made_ = false;
  alignas(T) std::byte bytes_[sizeof(T)]{};
};

}  // namespace tj::support
