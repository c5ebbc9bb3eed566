// Architectures that a release of AMD's compilers must not be asked for.
//
// Decides by version alone, as nothing can be tried. An early hiprtc does not fail on an architecture that is newer
// than itself: it ends the whole process. Knows no library.
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace tj::compile {

struct HipVersion {
  int major = 0, minor = 0;
  friend auto operator<=>(const HipVersion&, const HipVersion&) = default;
};

/// The first ROCm whose hiprtc may be asked for the architecture, "gfx1100" or "gfx90a:xnack-".
HipVersion first_release(std::string_view arch);
/// The first clang that knows it; 0 when every clang that is looked for does.
int first_clang(std::string_view arch);

/// Throws tj::Error(compile, unsupported) naming architecture, version, the first version that may be asked, and what
/// else can be done.
void refuse_aborting_arch(HipVersion version, std::string_view arch, std::string_view path);

/// The version in the name of the file behind the links: 6.2 of "libhiprtc.so.6.2.60204", 6.0 of "libhiprtc.so.6"; 0.0
/// when it says nothing.
HipVersion version_in_file_name(const std::string& path);

/// A version that claims another major number than the file's name becomes that of the name.
HipVersion bounded_by_file_name(HipVersion claimed, const std::string& path);

}  // namespace tj::compile
