// Places of a run-time compiler's library.
//
// Decides the folders and their order, by stat alone. Does not open anything. identity() names the library that is
// found here, and the backend opens it. So a cache key never names one compiler and the binary comes from another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compile/compiler.hpp"

namespace tj::compile {

/// Folders in groups: an earlier group wins over a later one. Within a group the earlier name wins, then the earlier
/// folder. In the system's folders the newest version wins, but the user's own choice comes before that.
struct LibrarySearch {
  std::string library;             ///< for messages: "libnvrtc"
  std::vector<std::string> names;  ///< file names, preferred first
  std::vector<std::vector<std::string>> groups;
};

/// libtilejit's own folder, LD_LIBRARY_PATH, CUDA_HOME and CUDA_PATH, the loader's configured folders, the usual places
/// of the CUDA toolkit. Folders that may hold NVIDIA's wheels (nvidia/cu13/lib, nvidia/cuda_nvrtc/lib) come with those.
LibrarySearch nvrtc_search();
/// The inputs of nvrtc_search() besides the folders that are there: variables of the environment, and folders that
/// were added. Asks the file system nothing.
std::string nvrtc_search_inputs();
/// Adds a folder of Python packages that libtilejit does not lie in: NVIDIA's wheels in it are searched behind
/// LD_LIBRARY_PATH. A folder that is known already changes nothing. Thread safe.
void add_packages_folder(const std::string& folder);
/// The places of AMD's hiprtc: first where the process has loaded it from, then the user's choice (LD_LIBRARY_PATH,
/// ROCM_PATH, HIP_PATH). Then the newest of the loader's folders and of the folders of /opt/rocm. The HIP runtime is
/// opened in that order, too (launch/hip/api.cpp).
LibrarySearch hiprtc_search();

/// The first name that exists; empty when none does.
std::string find_library(const LibrarySearch& search);

/// "libnvrtc.so.13, libnvrtc.so.12 in /a, /b": every place, each once.
std::string describe(const LibrarySearch& search);
/// "; ROCM_PATH is '/x', which does not exist" where a variable names a ROCm that has no hiprtc; else empty.
std::string unused_rocm_remark();

/// Path, size and time of a file; a path that is empty or gone gives an identity that is not present.
Identity identify(std::string_view kind, const std::string& path);
/// The stamp of one file: path, size and time.
FileStamp stamp(const std::string& path);

/// The folders of a list such as PATH: what lies between colons, without empty ones.
std::vector<std::string> split_path(const std::string& list);

/// The file behind the links, whose exchange is another compiler; the path itself where there is no such file.
std::string behind_links(const std::string& path);

/// The file (shared library or program) that holds this code; empty when the loader does not say.
std::string own_file();
/// The folder of the file (shared library or program) that holds this code; empty when the loader does not say.
std::string own_folder();

}  // namespace tj::compile
