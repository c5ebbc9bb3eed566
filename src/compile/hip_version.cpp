// The version table; see the header.
#include "compile/hip_version.hpp"

#include "support/fail.hpp"

namespace tj::compile {
namespace {

struct Rule {
  std::string_view prefix;  ///< of the architecture's name
  HipVersion first;         ///< release whose notes list such a GPU; before it the compiler ends the process
};
/// ROCm's release notes; the end of the process was seen with `hiprtcCompileProgram` of Debian 12's 5.2.3 for gfx1100
/// and gfx942.
constexpr Rule kRules[] = {{"gfx11", {5, 5}}, {"gfx94", {6, 0}}, {"gfx95", {7, 0}}, {"gfx12", {6, 4}}};

}  // namespace

void refuse_aborting_arch(HipVersion version, std::string_view arch, std::string_view path) {
  for (const Rule& rule : kRules)
    if (arch.starts_with(rule.prefix) && version < rule.first)
      support::fail(Stage::compile, Code::unsupported,
                    support::cat("target \"", arch, "\" needs hiprtc ", rule.first.major, ".", rule.first.minor,
                                 " or newer, and ", path, " is ", version.major, ".", version.minor,
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
