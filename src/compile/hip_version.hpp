// Which architectures a release of hiprtc must not be asked for.
//
// Decides by version alone: an early hiprtc does not fail on an architecture that is newer than itself, it ends the whole
// process, so that nothing can be tried. Knows no library.
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace tj::compile {

struct HipVersion {
  int major = 0, minor = 0;
  friend auto operator<=>(const HipVersion&, const HipVersion&) = default;
};

/// Throws tj::Error(compile, unsupported) naming architecture, version and the first version that may be asked.
void refuse_aborting_arch(HipVersion version, std::string_view arch, std::string_view path);

/// "libhiprtc.so.6" says that the release is 6.x: a version that claims another major one becomes the lowest of that.
HipVersion bounded_by_file_name(HipVersion claimed, std::string_view path);

}  // namespace tj::compile
