// The version table; see the header.
#include "compile/hip_version.hpp"

#include <algorithm>

#include "compile/clang_search.hpp"
#include "compile/library_search.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::compile {
namespace {

/// For each processor: the first ROCm whose hiprtc may be asked for it, the first LLVM whose clang knows it.
///
/// LLVM: the table of processors in "User Guide for AMDGPU Backend" of each release. ROCm: the release notes that list
/// such a GPU, or the first release that is built from such an LLVM, whichever is later. `amdclang --version` says 16
/// in 5.5, 17 in 6.0, 18 in 6.2, 19 in 6.4, 20 in 7.0. An older hiprtc ends the process. This was seen with
/// `hiprtcCompileProgram` of Debian 12's 5.2.3 for gfx1100, gfx942 and a name that does not exist.
struct Processor {
  std::string_view name;
  HipVersion rocm;
  int clang;
};
constexpr Processor kProcessors[] = {
    {"gfx900", {}, 0},       {"gfx906", {}, 0},       {"gfx908", {}, 0},       {"gfx90a", {}, 0},
    {"gfx1010", {}, 0},      {"gfx1011", {}, 0},      {"gfx1012", {}, 0},      {"gfx1030", {}, 0},
    {"gfx1031", {}, 0},      {"gfx1032", {}, 0},  //
    {"gfx1100", {5, 5}, 15}, {"gfx1101", {5, 5}, 15}, {"gfx1102", {5, 5}, 15}, {"gfx1103", {5, 5}, 15},
    {"gfx942", {6, 0}, 17},                            // release notes of 6.0: MI300A, MI300X
    {"gfx1150", {6, 2}, 17}, {"gfx1151", {6, 2}, 17},  // programs were first published with 6.2
    {"gfx1152", {7, 0}, 19}, {"gfx1153", {7, 0}, 20},  //
    {"gfx1200", {6, 4}, 18}, {"gfx1201", {6, 4}, 18},  // release notes of 6.4.1: RX 9060 XT, RX 9070
    {"gfx950", {7, 0}, 20},                            // release notes of 7.0: MI350X, MI355X
};
/// For any other name: a GPU before those (a newer ROCm has it), or a GPU after them.
constexpr Processor kUnlisted{"", {7, 0}, 0};

const Processor& processor(std::string_view arch) {
  const std::string_view name = arch.substr(0, arch.find(':'));
  const auto* found = std::find_if(std::begin(kProcessors), std::end(kProcessors),
                                   [&](const Processor& each) { return each.name == name; });
  return found != std::end(kProcessors) ? *found : kUnlisted;
}

/// The digits at `at`; `at` moves behind them; -1 when there are none.
int digits(const std::string& text, std::size_t& at) {
  int value = -1;
  for (; at < text.size() && support::is_digit(text[at]) && value < 1'000'000; ++at)
    value = std::max(value, 0) * 10 + (text[at] - '0');
  return value;
}

}  // namespace

HipVersion first_release(std::string_view arch) { return processor(arch).rocm; }
int first_clang(std::string_view arch) { return processor(arch).clang; }

void refuse_aborting_arch(HipVersion version, std::string_view arch, std::string_view path) {
  const HipVersion first = first_release(arch);
  if (version >= first) return;
  support::fail(
      Stage::compile, Code::unsupported,
      support::cat("target \"", arch, "\" needs hiprtc ", first.major, ".", first.minor, " or newer, and ", path,
                   " is ", version.major, ".", version.minor, ", which would end the process; install ROCm ",
                   first.major, ".", first.minor, " or newer, or ", clang_advice(arch),
                   " and leave TJ_HIP_COMPILER at auto", unused_rocm_remark()));
}

HipVersion version_in_file_name(const std::string& path) {
  const std::string file = behind_links(path);
  const std::size_t suffix = file.rfind(".so.");
  if (suffix == std::string::npos || file.find('/', suffix) != std::string::npos) return {};
  std::size_t at = suffix + 4;
  const int major = digits(file, at);
  if (major < 1) return {};
  if (at < file.size() && file[at] == '.') return {major, std::max(digits(file, ++at), 0)};
  return {major, 0};
}

HipVersion bounded_by_file_name(HipVersion claimed, const std::string& path) {
  const HipVersion named = version_in_file_name(path);
  return named.major == 0 || named.major == claimed.major ? claimed : named;
}

}  // namespace tj::compile
