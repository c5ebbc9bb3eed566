// The clang that compiles HIP, and the linker that goes with it.
//
// Decides by stat alone. A clang counts only with an ld.lld of its own version: with another's it fails late, or gives
// binaries that do not load. Starts nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tj::compile {

struct HipClang {
  std::string clang;  ///< path as it is started; empty: there is none
  std::string lld;
  bool present() const { return !clang.empty(); }
};

/// The newest clang-<n> in PATH, n from 22 down to 15 and no older than the architecture needs; else ROCm's; else the
/// clang in PATH. `rejected` gets a sentence for each clang that is too old or has no ld.lld.
HipClang find_hip_clang(std::string_view arch, std::vector<std::string>* rejected = nullptr);

/// "clang 17 or newer with its lld (Debian: apt-get install clang-19 lld-19)": what to install.
std::string clang_advice(std::string_view arch);

/// "clang-22 to clang-15 and clang in /usr/bin, /bin; amdclang++ and clang++ below /opt/rocm": for messages.
std::string describe_clang_search();

}  // namespace tj::compile
