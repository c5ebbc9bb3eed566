// See phases.hpp.
#include "compile/phases.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>

namespace tj::compile {
namespace {

constexpr std::string_view kHeads = "File name, phase name, metric, unit";

/// Between commas, without the blanks around them.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    std::string_view cell = line.substr(begin, end - begin);
    while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\r')) cell.remove_suffix(1);
    cells.emplace_back(cell);
    begin = end + 1;
  }
  return cells;
}

std::string common_name(const std::string& name) {
  if (name == "CUDA C++ Frontend") return kFrontEnd;
  if (name == "NVVM Optimizer") return kOptimiser;
  if (name == "PTX Translation") return kAssembler;
  return name;
}

/// One of file name, phase, number, "ms"; false for any other line.
bool read_row(std::string_view line, std::vector<Phase>& phases) {
  const std::vector<std::string> cells = cells_of(line);
  if (cells.size() != 4 || cells[3] != "ms") return false;
  double milliseconds = 0;
  const char* const end = cells[2].data() + cells[2].size();
  if (std::from_chars(cells[2].data(), end, milliseconds).ptr != end || cells[2].empty()) return false;
  phases.push_back({common_name(cells[1]), milliseconds});
  return true;
}

}  // namespace

void take_nvrtc_times(Binary& binary) {
  const std::size_t begin = binary.log.find(kHeads);
  if (begin == std::string::npos) return;
  std::size_t at = std::min(binary.log.find('\n', begin), binary.log.size() - 1) + 1;
  while (at < binary.log.size()) {
    const std::size_t end = std::min(binary.log.find('\n', at), binary.log.size());
    if (!read_row(std::string_view(binary.log).substr(at, end - at), binary.phases)) break;
    at = std::min(end + 1, binary.log.size());
  }
  binary.log.erase(begin, at - begin);
}

std::vector<Phase> phases_by_shorter_runs(const std::vector<std::string>& argv, const std::vector<ShorterRun>& runs,
                                          const support::PrivateDirectory& directory, const std::string& first_on_path,
                                          double whole_ms, const char* rest) {
  std::vector<Phase> phases;
  double before_ms = 0;
  for (const ShorterRun& run : runs) {
    std::vector<std::string> words = argv;
    words.insert(words.end(), run.options.begin(), run.options.end());
    const auto start = std::chrono::steady_clock::now();
    if (!run_process(words, directory, 0, first_on_path).ended_well()) return {};
    const double so_far_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    phases.push_back({run.phase, std::max(0.0, so_far_ms - before_ms)});
    before_ms = std::max(before_ms, so_far_ms);
  }
  phases.push_back({rest, std::max(0.0, whole_ms - before_ms)});
  return phases;
}

}  // namespace tj::compile
