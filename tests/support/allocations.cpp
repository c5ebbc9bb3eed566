#include "support/allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

#ifndef TJ_OWN_NEW
#define TJ_OWN_NEW 1
#endif

namespace {

std::atomic<long> g_allocations{0};
std::atomic<long> g_left{-1};
std::atomic<bool> g_all{false};
thread_local long t_allocations = 0;

#if TJ_OWN_NEW
using Align = std::align_val_t;
constexpr std::size_t kDefaultAlignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

void* counted(std::size_t bytes, std::size_t alignment) noexcept {
  ++g_allocations;
  ++t_allocations;
  if (g_left.load(std::memory_order_relaxed) >= 0) {
    if (g_all && g_left == 0) return nullptr;
    if (g_left.fetch_sub(1) == 0) return nullptr;
  }
  return std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
}

void* counted_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* memory = counted(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

// Not inlined: gcc takes free() next to a call of new for a mistake.
[[gnu::noinline]] void give_back(void* memory) noexcept { std::free(memory); }
#endif

}  // namespace

#if TJ_OWN_NEW
// Every form is replaced, so that what a sanitizer pairs is always malloc() with free().
void* operator new(std::size_t bytes) { return counted_or_throw(bytes, kDefaultAlignment); }
void* operator new[](std::size_t bytes) { return counted_or_throw(bytes, kDefaultAlignment); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, kDefaultAlignment); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, kDefaultAlignment); }
void* operator new(std::size_t bytes, Align alignment) {
  return counted_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, Align alignment) {
  return counted_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete[](void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, Align) noexcept { give_back(memory); }
void operator delete[](void* memory, Align) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, Align) noexcept { give_back(memory); }
void operator delete[](void* memory, std::size_t, Align) noexcept { give_back(memory); }

#endif

namespace tj::testing {

long allocations() noexcept { return g_allocations.load(); }
long thread_allocations() noexcept { return t_allocations; }
void fail_allocation_after(long count) noexcept {
  g_all = false;
  g_left = count;
}
void fail_allocations_from(long count) noexcept {
  g_all = true;
  g_left = count;
}

}  // namespace tj::testing
