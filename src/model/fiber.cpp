// See fiber.hpp. Boost.Context gives the three assembler routines; its stack classes are not position
// independent.
#include "model/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <new>

#if defined(__has_feature)
#define TJ_HAS_FEATURE(x) __has_feature(x)
#else
#define TJ_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || TJ_HAS_FEATURE(address_sanitizer)
#define TJ_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define TJ_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || TJ_HAS_FEATURE(thread_sanitizer)
#define TJ_TSAN 1
#include <sanitizer/tsan_interface.h>
#else
#define TJ_TSAN 0
#endif

namespace tj::model {

namespace context = boost::context::detail;

namespace {

// A role's fragments are a few kilobytes; sanitized library frames are large.
constexpr std::size_t kStackBytes = (TJ_ASAN || TJ_TSAN) ? 256 * 1024 : 64 * 1024;
constexpr std::size_t kMaxKept = 2048;

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

void unmap(const Stack& stack) noexcept {
#if TJ_TSAN
  __tsan_destroy_fiber(stack.sanitizer);
#endif
  ::munmap(stack.bottom - page_bytes(), stack.bytes + page_bytes());
}

}  // namespace

StackPool::~StackPool() {
  for (const Stack& stack : free_) unmap(stack);
}

Stack StackPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      const Stack stack = free_.back();
      free_.pop_back();
      return stack;
    }
    free_.reserve(kMaxKept);  // so that giving back never allocates
  }
  const std::size_t total = kStackBytes + page_bytes();
  void* memory =
      ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ::mprotect(memory, page_bytes(), PROT_NONE);
  Stack stack{static_cast<std::byte*>(memory) + page_bytes(), kStackBytes, nullptr};
#if TJ_TSAN
  stack.sanitizer = __tsan_create_fiber(0);
#endif
  return stack;
}

void StackPool::give_back(Stack stack) noexcept {
  const std::lock_guard lock(mutex_);
  if (free_.size() < kMaxKept)
    free_.push_back(stack);
  else
    unmap(stack);
}

// The first frame on a fiber's stack.
struct FiberStart {
  static void run(context::transfer_t from) {
    auto& fiber = *static_cast<Fiber*>(from.data);
    fiber.context_ = from.fctx;
#if TJ_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &fiber.scheduler_bottom_, &fiber.scheduler_bytes_);
#endif
    fiber.entry_(fiber.argument_);
  }
};

void Fiber::prepare(Entry entry, void* argument) {
  entry_ = entry;
  argument_ = argument;
#if TJ_ASAN
  // An abandoned fiber's frames have left their red zones behind.
  __asan_unpoison_memory_region(stack_.bottom, stack_.bytes);
#endif
  context_ = context::make_fcontext(stack_.bottom + stack_.bytes, stack_.bytes, &FiberStart::run);
}

void Fiber::resume() {
#if TJ_ASAN
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_.bottom, stack_.bytes);
#endif
#if TJ_TSAN
  scheduler_fiber_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(stack_.sanitizer, 0);
#endif
  const context::transfer_t back = context::jump_fcontext(context_, this);
  context_ = back.fctx;
#if TJ_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fiber::leave([[maybe_unused]] bool for_ever) {
#if TJ_ASAN
  __sanitizer_start_switch_fiber(for_ever ? nullptr : &own_fake_stack_, scheduler_bottom_, scheduler_bytes_);
#endif
#if TJ_TSAN
  __tsan_switch_to_fiber(scheduler_fiber_, 0);
#endif
  const context::transfer_t back = context::jump_fcontext(context_, nullptr);
  context_ = back.fctx;
#if TJ_ASAN
  __sanitizer_finish_switch_fiber(own_fake_stack_, &scheduler_bottom_, &scheduler_bytes_);
#endif
}

void Fiber::finish() {
  for (;;) leave(true);
}

}  // namespace tj::model
