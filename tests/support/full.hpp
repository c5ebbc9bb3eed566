// How much of a long list a test runs: all of it with TJ_TEST_FULL=1, as tests/run.sh --full sets it.
#pragma once

#include <cstdlib>
#include <string_view>

namespace tj::testing {

inline bool full_run() {
  const char* value = std::getenv("TJ_TEST_FULL");
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

/// The build of the address sanitizer.
#ifdef TJ_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// The build of the thread sanitizer. It ends a process that ends beside its own threads with an error.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TJ_THREAD_SANITIZED
#endif
#endif
#ifdef TJ_THREAD_SANITIZED
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

/// Cases whose paths through the library others take as well are left out there.
inline bool left_out() { return kSanitized && !full_run(); }

/// The sanitizers' share of a count of seeds, rounds or cases is a quarter. Their builds are for the host's code, which
/// most entries of a list take alike, and they run it five to ten times slower.
template <typename Count>
Count share(Count count) {
  return (kSanitized || kThreadSanitized) && !full_run() ? (count + 3) / 4 : count;
}

/// A list of edges runs whole. Under the address sanitizer every 24th entry does.
inline bool thinned_out(int index) { return kSanitized ? !full_run() && index % 24 != 0 : index < 0; }

/// Every second entry of a product of lists runs, under the address sanitizer every 48th. With the sum of an entry's
/// places in those lists as index, each value of each list runs beside every second one of the others. Dear lists say
/// how many entries one stands for.
inline bool sampled_out(int index, int every = 2) {
  return !full_run() && (index % every != 0 || thinned_out(index / every));
}

/// A third of so many drawn problems run, as each run draws others; under the address sanitizer a quarter of that.
inline int drawn(int count) { return full_run() ? count : share((count + 2) / 3); }

}  // namespace tj::testing
