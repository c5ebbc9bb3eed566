// The version table; see the header.
#include "compile/hip_version.hpp"

#include "support/fail.hpp"

namespace tj::compile {
namespace {

struct Rule {
  std::string_view prefix;  ///< of the architecture's name
  HipVersion first;         ///< release whose notes list such a GPU; before it the compiler ends the process
};
/// ROCm's release notes; the end of the process was seen with `hiprtcCompileProgram` of Debian 12's 5.2.3 for gfx1100,
/// gfx942 and a name that does not exist.
constexpr Rule kRules[] = {{"gfx11", {5, 5}}, {"gfx94", {6, 0}}, {"gfx95", {7, 0}}, {"gfx12", {6, 4}}};

/// What releases before kChecksNames may be asked for: any other name ends the process there.
constexpr HipVersion kChecksNames{5, 5};
constexpr std::string_view kEarlyArchs[] = {"gfx900",  "gfx906",  "gfx908",  "gfx90a",  "gfx1010",
                                            "gfx1011", "gfx1012", "gfx1030", "gfx1031", "gfx1032"};

/// The first release that may be asked for the architecture.
HipVersion first_release(std::string_view arch) {
  for (const Rule& rule : kRules)
    if (arch.starts_with(rule.prefix)) return rule.first;
  const std::string_view processor = arch.substr(0, arch.find(':'));  // "gfx90a:xnack-"
  for (const std::string_view early : kEarlyArchs)
    if (processor == early) return {};
  return kChecksNames;
}

}  // namespace

void refuse_aborting_arch(HipVersion version, std::string_view arch, std::string_view path) {
  const HipVersion first = first_release(arch);
  if (version >= first) return;
  support::fail(Stage::compile, Code::unsupported,
                support::cat("target \"", arch, "\" needs hiprtc ", first.major, ".", first.minor, " or newer, and ", path,
                             " is ", version.major, ".", version.minor,
                             ", which would end the process; install a newer ROCm or choose another target"));
}

HipVersion bounded_by_file_name(HipVersion claimed, std::string_view path) {
  const std::size_t dot = path.rfind(".so.");
  if (dot == std::string_view::npos || dot + 4 >= path.size()) return claimed;
  const int major = path[dot + 4] - '0';
  if (major < 1 || major > 9 || claimed.major == major) return claimed;
  return {major, 0};
}

}  // namespace tj::compile
