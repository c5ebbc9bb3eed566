// See lines_report.hpp.
#include "common/lines_report.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace tj::samples {
namespace {

std::string trimmed(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t") - begin + 1);
}

/// Lines that are not empty, each once.
std::vector<std::string> distinct(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (line = trimmed(line); !line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(line);
  return lines;
}

/// "dev::wait_full<RingA>" of "dev::wait_full<12, RingA>": places are numbered anew in each kernel.
std::string without_places(std::string line) {
  const std::string device = "dev::";
  for (std::size_t at = line.find(device); at != std::string::npos; at = line.find(device, at + 1)) {
    const std::size_t open = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", at + device.size());
    if (open == std::string::npos || line[open] != '<') continue;
    std::size_t end = open + 1;
    while (end < line.size() && std::isdigit(static_cast<unsigned char>(line[end])) != 0) ++end;
    if (end == open + 1) continue;
    if (line.compare(end, 2, ", ") == 0)
      line.erase(open + 1, end + 2 - open - 1);
    else if (line.compare(end, 1, ">") == 0)
      line.erase(open, end + 1 - open);
  }
  return line;
}

}  // namespace

std::vector<std::string> changed_lines(const std::string& before, const std::string& now) {
  const std::vector<std::string> old = distinct(before), fresh = distinct(now);
  std::vector<std::string> changes;
  const auto add = [&](const char* sign, const std::vector<std::string>& of, const std::vector<std::string>& other) {
    for (const std::string& line : of)
      if (std::find(other.begin(), other.end(), line) == other.end()) changes.push_back(sign + line);
  };
  add("+ ", fresh, old);
  add("- ", old, fresh);
  return changes;
}

std::string code_lines(const std::string& source, const std::string& kernel) {
  std::string text;
  std::istringstream stream(source);
  for (std::string line; std::getline(stream, line);) {
    if (line.find("TJ_NOTES") != std::string::npos) break;
    if (const std::size_t comment = line.find("//"); comment != std::string::npos) line.erase(comment);
    const auto has = [&](const std::string& part) { return line.find(part) != std::string::npos; };
    const bool place = has("kFull = ") || has("tensor_begin") || has("load_shared<unsigned>(shared");  // in memory
    if (place || has("at_node") || (!kernel.empty() && has(kernel))) continue;
    if (line = trimmed(without_places(line)); line.size() > 1) text += line + "\n";  // a brace alone says nothing
  }
  return text;
}

}  // namespace tj::samples
