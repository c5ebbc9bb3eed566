// Line by line readers of compiler logs; see the header for what they promise.
#include "compile/compile_log.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "support/code_object.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::compile {
namespace {

void for_each_line(std::string_view log, const std::function<void(std::string_view)>& visit) {
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    visit(log.substr(0, end));
    log.remove_prefix(std::min(end + 1, log.size()));
  }
}

/// The number that ends right before `words`: 24 in "Used 24 registers" for " registers"; 0 when there is none.
int number_before(std::string_view line, std::string_view words) {
  const std::size_t end = line.find(words);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && support::is_digit(line[begin - 1])) --begin;
  int value = 0;
  for (std::size_t i = begin; i < end && value < 100'000'000; ++i) value = value * 10 + (line[i] - '0');
  return value;
}

bool contains(std::string_view line, std::string_view words) { return line.find(words) != std::string_view::npos; }

/// ptxas says with these, as mere notes, that it gave up the overlap of asynchronous matrix instructions.
bool says_serialised(std::string_view line) {
  return contains(line, "C7510") || contains(line, "C7512") || contains(line, "erialization") ||
         contains(line, "erialized");
}

}  // namespace

void read_ptxas_log(Binary& binary) {
  for_each_line(binary.log, [&binary](std::string_view line) {
    binary.registers = std::max(binary.registers, number_before(line, " registers"));
    const int spilled = number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
    binary.spill_bytes += spilled;
    if (spilled > 0 || says_serialised(line)) binary.warnings.emplace_back(line);
  });
}

void read_code_object_use(Binary& binary) {
  const auto object = support::read_code_object(binary.bytes);
  if (!object) return;
  if (!binary.log.empty() && binary.log.back() != '\n') binary.log += '\n';
  for (const support::CodeObjectKernel& kernel : object->kernels) {
    binary.registers = std::max(binary.registers, kernel.vgprs);
    binary.spill_bytes += static_cast<int>(kernel.scratch_bytes);
    std::string line = support::cat(kernel.name, " on ", object->processor, ": ", kernel.vgprs, " VGPRs");
    if (kernel.agprs > 0) line += support::cat(" (", kernel.agprs, " of them AGPRs)");
    line += support::cat(", ", kernel.sgprs, " SGPRs, ", kernel.lds_bytes, " bytes of LDS, ", kernel.max_threads,
                         " threads in waves of ", kernel.wave, ", ", kernel.vgpr_spills, " VGPRs and ",
                         kernel.sgpr_spills, " SGPRs spilled, ", kernel.scratch_bytes,
                         " bytes of scratch memory a lane", kernel.dynamic_stack ? " and a stack of unknown size" : "");
    binary.log += line + "\n";
    if (kernel.vgpr_spills > 0 || kernel.sgpr_spills > 0 || kernel.scratch_bytes > 0 || kernel.dynamic_stack)
      binary.warnings.push_back(std::move(line));
  }
}

std::string first_error(std::string_view log) {
  std::string first, error;
  for_each_line(log, [&](std::string_view line) {
    if (first.empty() && line.find_first_not_of(" \t\r") != std::string_view::npos) first = line;
    if (error.empty() && (contains(line, "error:") || contains(line, "error :") || contains(line, "fatal")))
      error = line;
  });
  constexpr std::size_t kMost = 1000;  // the whole of it stands in the log
  return support::shown(error.empty() ? first : error, kMost);
}

}  // namespace tj::compile
