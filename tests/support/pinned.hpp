// Numbers that stand in a file beside their test, so that a change of one is seen and meant.
//
// Decides how they are compared and made anew: with TJ_TEST_WRITE set the file is written instead. Invariant: a line a
// thing, so that a failure and a change of the file name what has changed.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace tj::testing {

inline bool writes_pinned() { return std::getenv("TJ_TEST_WRITE") != nullptr; }

/// file: below the repository, here and below.
inline std::vector<std::string> pinned_lines(const std::string& file) {
  std::ifstream in(std::string(TJ_REPO_DIR "/") + file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline void write_pinned(const std::string& file, const std::vector<std::string>& lines) {
  std::ofstream out(std::string(TJ_REPO_DIR "/") + file);
  for (const std::string& line : lines) out << line << '\n';
}

/// Each line that differs fails by itself; the way to keep what is meant is in the message.
inline void check_pinned(const std::string& file, const std::vector<std::string>& lines) {
  if (writes_pinned()) return write_pinned(file, lines);
  const std::vector<std::string> pinned = pinned_lines(file);
  CHECK_MESSAGE(pinned.size() == lines.size(), file, " has another number of lines");
  for (std::size_t i = 0; i < lines.size() && i < pinned.size(); ++i)
    CHECK_MESSAGE(pinned[i] == lines[i],
                  "if this is meant, run the test with TJ_TEST_WRITE=1 and say why in the commit; ", file, ":", i + 1);
}

/// Some of the lines alone, in any order: what a sanitizer's build looks at.
inline void check_pinned_some(const std::string& file, const std::vector<std::string>& lines) {
  const std::vector<std::string> pinned = pinned_lines(file);
  for (const std::string& line : lines)
    CHECK_MESSAGE(std::find(pinned.begin(), pinned.end(), line) != pinned.end(), file, " lacks: ", line);
}

}  // namespace tj::testing
