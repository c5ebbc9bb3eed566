// A tool called in this process: its exit code and both of its outputs.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "tools/schedule.hpp"
#include "tools/timeline.hpp"
#include "tools/warm.hpp"

namespace tj::test {

struct ToolRun {
  int code = 0;
  std::string out, err;
};

inline ToolRun run_warm(const std::vector<std::string>& words, bool terminal = false) {
  std::ostringstream out, err;
  const int code = tools::warm(words, out, err, terminal);
  return {code, out.str(), err.str()};
}

inline ToolRun run_schedule(const std::vector<std::string>& words) {
  std::ostringstream out, err;
  const int code = tools::schedule(words, out, err);
  return {code, out.str(), err.str()};
}

inline ToolRun run_timeline(const std::vector<std::string>& words) {
  std::ostringstream out, err;
  const int code = tools::timeline(words, out, err);
  return {code, out.str(), err.str()};
}

}  // namespace tj::test
