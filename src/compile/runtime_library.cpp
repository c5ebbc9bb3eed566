// The libraries of compilers: opened, and kept open.
#include "compile/runtime_library.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/imported_calls.hpp"
#include "support/installations.hpp"
#include "support/process_end.hpp"

namespace tj::compile {
namespace {

constexpr int kWatchedCalls = 8;  // a version and a compile of each kind: a binary, PTX, quick ones

constexpr std::size_t kLibraries = 2;
constexpr std::array<const char*, kLibraries> kNames = {"NVRTC", "hiprtc"};

/// Calls of the process into one library, and whether a thread that a forked child does not have was in one.
struct Calls {
  std::atomic<int> under_way{0};
  std::atomic<bool> cut_off{false};
  std::atomic<std::uint32_t> first_in{0};  ///< the generation of the process that made the first call; 0: none
};
constinit std::array<Calls, kLibraries> calls_of{};
constinit std::atomic<bool> is_cut_off{false};  ///< of any library
/// This thread's. The forking thread takes them along: it may fork in a signal's handler.
thread_local constinit std::array<int, kLibraries> own_calls{};

void begin_child() {
  for (std::size_t i = 0; i < kLibraries; ++i) {
    if (calls_of[i].under_way.load() > own_calls[i]) {
      calls_of[i].cut_off.store(true);
      is_cut_off.store(true);
      support::leave_out_handlers();
    }
    calls_of[i].under_way.store(own_calls[i]);
  }
}

/// Stands in for pthread_mutex_lock(), which handlers of constructors come to. Those handlers were registered before
/// any call could be led elsewhere.
int lock_or_leave(pthread_mutex_t* mutex) {
  if (!is_cut_off.load(std::memory_order_relaxed)) [[likely]]
    return ::pthread_mutex_lock(mutex);
  const int error = ::pthread_mutex_trylock(mutex);
  if (error != EBUSY) return error;
  support::leave_handler();
  return ::pthread_mutex_lock(mutex);
}

/// Before anything can be counted: a count that a child keeps would never fall.
__attribute__((constructor)) void look_at_forks() { support::in_forked_children(&begin_child); }

std::size_t index_of(CompilerLibrary library) { return static_cast<std::size_t>(library); }

[[noreturn]] void fail_forked(const char* library, const char* when, const char* next_step) {
  support::fail(Stage::compile, Code::io,
                support::cat(library, " cannot be used in this process: it was forked while ", when, "; ", next_step,
                             ", or start a program (exec) instead"));
}

void refuse_forked(const Calls& calls, const char* library) {
  if (calls.cut_off.load())
    fail_forked(
        library,
        "another thread of its parent was in a call of that library, which has locks that nobody gives back "
        "here",
        "make the kernel in the parent (this process then finds it in the cache), fork while nothing is compiled");
  const std::uint32_t first = calls.first_in.load();
  if (first != 0 && first <= support::ended_generation())
    fail_forked(library, "its parent was ending, whose exit handlers may have taken that library down",
                "fork before main returns");
}

}  // namespace

LibraryCall::Counted::Counted(CompilerLibrary of) noexcept : library(of) {
  calls_of[index_of(of)].under_way.fetch_add(1);
  ++own_calls[index_of(of)];
}

LibraryCall::Counted::~Counted() {
  --own_calls[index_of(library)];
  calls_of[index_of(library)].under_way.fetch_sub(1);
}

LibraryCall::LibraryCall(CompilerLibrary of) : counted_(of) {
  static constinit std::atomic<int> calls{0};
  refuse_forked(calls_of[index_of(of)], kNames[index_of(of)]);
  if (!before_end_ || support::process_end_is_late()) fail_ending();
  std::uint32_t none = 0;
  calls_of[index_of(of)].first_in.compare_exchange_strong(none, support::process_generation());
  if (calls.load() < kWatchedCalls && calls.fetch_add(1) < kWatchedCalls) again_.emplace();
}

LibraryCall::~LibraryCall() { support::end_first(); }

void LibraryCall::fail_ending() { support::fail(Stage::compile, Code::io, std::string(support::kProcessIsEnding)); }

void RuntimeLibrary::fail_symbol(const char* name) const {
  support::fail(Stage::compile, Code::not_found,
                support::cat("symbol ", name, " is missing in ", path,
                             "; the library is damaged or of a version that is not supported: install another one"));
}

void let_children_end(const void* inside) noexcept {
  support::lead_calls(inside, "pthread_mutex_lock", reinterpret_cast<void*>(&lock_or_leave));
}

RuntimeLibrary open_found(const LibrarySearch& search, const std::string& advice,
                          const std::function<void(const std::string& path)>& before) {
  const std::string path = find_library(search);
  if (path.empty())
    support::fail(Stage::compile, Code::not_found,
                  support::cat(search.library, " was not found; searched ", describe(search), "; ", advice));
  if (support::process_is_ending()) LibraryCall::fail_ending();  // nothing holds its constructors' exit handlers back
  if (before) before(path);
  std::string reason;
  auto library = support::DynamicLibrary::open_first({path}, &reason);
  if (!library)
    support::fail(Stage::compile, Code::not_found,
                  support::cat(search.library, " is at ", path, " but does not open: ", reason,
                               "; repair or remove that file, or ", advice));
  support::keep_open(library);
  support::end_first(path.c_str());  // its exit handlers would end what a compile is working with
  return {path, std::move(library)};
}

void open_beside(const std::string& folder, const std::string& pattern) {
  std::string reason;
  for (const std::string& file : support::newest_first(folder + "/" + pattern))
    if (auto library = support::DynamicLibrary::open_first({file}, &reason)) support::keep_open(std::move(library));
}

}  // namespace tj::compile
