// Installations: several versions of a vendor's software may lie beside each other.
//
// Decides the order of folders that the compiling and the launching side share, so that both take one version. Opens
// nothing.
#pragma once

#include <string>
#include <vector>

namespace tj::support {

/// The files that match a shell pattern.
std::vector<std::string> matching(const std::string& pattern);

/// The folders sorted by version, the highest first: "cuda-13.0" before "cuda-12.4".
std::vector<std::string> newest_first(const std::string& pattern);

/// "libamdhip64.so.7" and so on, in the order in which they are tried. The releases that this version knows come first,
/// from the newest on, then later ones, whose calls have stayed the same so far.
std::vector<std::string> rocm_library_names(const std::string& library);

/// The user's own: the folders of LD_LIBRARY_PATH, then those of libraries below ROCM_PATH and HIP_PATH, which go
/// before all others.
std::vector<std::vector<std::string>> rocm_chosen_folders();

/// The reason why none of these libraries is taken from the ROCm that the user names: "ROCM_PATH is '/x', which does
/// not exist". Empty where one is taken, or where no variable names a ROCm.
std::string unused_rocm(const std::vector<std::string>& libraries);

/// Folders that may have a ROCm: ROCM_PATH, HIP_PATH, /opt/rocm, the versions below and beside it from the newest on;
/// each once.
std::vector<std::string> rocm_roots();

}  // namespace tj::support
