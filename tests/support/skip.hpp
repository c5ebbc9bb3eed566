// Skipping of tests where the machine lacks what they need.
//
// Invariant: exit status 77, which ctest counts as skipped, and one line that names the reason. Objects of the caller
// are not destroyed: ask before anything is made that has to be removed.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace tj::testing {

[[noreturn]] inline void skip(const std::string& reason) {
  std::printf("skipped: %s\n", reason.c_str());
  std::exit(77);
}

}  // namespace tj::testing
