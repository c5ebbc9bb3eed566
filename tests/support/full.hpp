// How much of a long list a test runs: all of it with TJ_TEST_FULL=1, as tests/run.sh --full sets it.
#pragma once

#include <cstdlib>
#include <string_view>

namespace tj::testing {

inline bool full_run() {
  const char* value = std::getenv("TJ_TEST_FULL");
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

/// Of a long list under the address sanitizer, where the model runs five to ten times slower: every third, unless all
/// is asked for.
inline bool thinned_out(int index) {
#ifdef TJ_SANITIZED
  return !full_run() && index % 3 != 0;
#else
  return index < 0;
#endif
}

}  // namespace tj::testing
