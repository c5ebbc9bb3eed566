// Numbers that stand in a file beside their test, so that a change of one is seen and meant.
//
// Decides how they are compared and made anew: with TJ_TEST_WRITE set the file is written instead. Invariant: a line a
// thing, so that a failure and a change of the file name what has changed.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace tj::testing {

/// file: below the repository. Each line that differs fails by itself; the way to keep what is meant is in the message.
inline void check_pinned(const std::string& file, const std::vector<std::string>& lines) {
  const std::string path = std::string(TJ_REPO_DIR "/") + file;
  if (std::getenv("TJ_TEST_WRITE") != nullptr) {
    std::ofstream out(path);
    for (const std::string& line : lines) out << line << '\n';
    return;
  }
  std::ifstream in(path);
  std::vector<std::string> pinned;
  for (std::string line; std::getline(in, line);) pinned.push_back(line);
  CHECK_MESSAGE(pinned.size() == lines.size(), file, " has another number of lines");
  for (std::size_t i = 0; i < lines.size() && i < pinned.size(); ++i)
    CHECK_MESSAGE(pinned[i] == lines[i],
                  "if this is meant, run the test with TJ_TEST_WRITE=1 and say why in the commit; ", file, ":", i + 1);
}

}  // namespace tj::testing
