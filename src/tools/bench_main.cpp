// The process around tools::bench(), and a count of its allocations.
#include <cstdint>
#include <cstdlib>
#include <new>

#include "tools/bench.hpp"
#include "tools/process.hpp"

namespace {

thread_local constinit std::uint64_t t_allocations = 0;

void* counted(std::size_t bytes, std::size_t alignment) {
  ++t_allocations;
  if (void* memory = std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment)) return memory;
  throw std::bad_alloc();
}
// Not inlined: gcc takes free() next to a call of new for a mistake.
[[gnu::noinline]] void give_back(void* memory) noexcept { std::free(memory); }

}  // namespace

// The library is linked into this program, so that these are what it calls. Forms that are not here come down to these.
void* operator new(std::size_t bytes) { return counted(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give_back(memory); }

int main(int argc, char** argv) {
  return tj::tools::run_process("tj-bench", argc, argv,
                                [](const auto& words, auto& out, auto& err, tj::tools::Terminal) {
                                  return tj::tools::bench(words, out, err, [] { return t_allocations; });
                                });
}
