// Whether a test that has a sample of a long list runs all of it: TJ_TEST_FULL=1, as tests/run.sh --full sets it.
#pragma once

#include <cstdlib>
#include <string_view>

namespace tj::testing {

inline bool full_run() {
  const char* value = std::getenv("TJ_TEST_FULL");
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

}  // namespace tj::testing
