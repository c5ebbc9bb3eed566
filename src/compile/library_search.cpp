// The search itself: builds the folder lists and asks the file system. Reads the loader's configuration as text,
// because identity() may not open a library and the loader offers no way to ask without opening.
#include "compile/library_search.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <set>
#include <utility>

#include "compile/host_process.hpp"
#include "support/dynamic_library.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/installations.hpp"
#include "support/lasting.hpp"
#include "support/text_stream.hpp"

namespace tj::compile {
namespace {

using Folders = std::vector<std::string>;

/// The folders of /etc/ld.so.conf and of what it includes; `depth` ends a circle of includes.
void read_loader_configuration(const std::string& file, int depth, Folders& folders) {
  std::string text;
  if (!read_file(file, text)) return;
  support::TextReader lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos) continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
    if (line.starts_with("include") && depth > 0) {
      const std::size_t pattern = line.find_first_not_of(" \t", 7);
      if (pattern == std::string::npos) continue;
      for (const std::string& included : support::matching(line.substr(pattern)))
        read_loader_configuration(included, depth - 1, folders);
    } else if (line.front() == '/') {
      folders.push_back(line);
    }
  }
}

/// The loader's folders, and how its configuration was when they were read.
struct LoaderFolders {
  support::Mutex mutex;
  std::vector<std::pair<std::uint64_t, std::int64_t>> stamps;  ///< sizes and times
  Folders folders;
};

/// Each kernel of a start asks where the compiler is, and the configuration is some ten files. They are read again when
/// one was added or removed, or ldconfig has run.
Folders loader_folders() {
  static constinit support::Lasting<LoaderFolders> kept;
  LoaderFolders& known = kept.get();
  std::vector<std::pair<std::uint64_t, std::int64_t>> stamps;
  for (const char* path : {"/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.cache"}) {
    const FileStamp now = stamp(path);
    stamps.emplace_back(now.size, now.mtime_ns);
  }
  const std::lock_guard lock(known.mutex);
  if (stamps == known.stamps) return known.folders;
  Folders folders;
  read_loader_configuration("/etc/ld.so.conf", 4, folders);
  for (const char* fixed :
       {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"})
    folders.emplace_back(fixed);
  known.folders = folders;
  known.stamps = std::move(stamps);
  return folders;
}

/// A toolkit's root to the folders in it that may hold libraries.
Folders below(const Folders& roots, std::initializer_list<const char*> parts) {
  Folders folders;
  for (const std::string& root : roots)
    for (const char* part : parts) folders.push_back(root + part);
  return folders;
}

Folders from_variables(std::initializer_list<const char*> names) {
  Folders roots;
  for (const char* name : names)
    if (const auto value = support::environment_variable(name)) roots.push_back(*value);
  return roots;
}

Folders library_path() {
  const auto list = support::environment_variable("LD_LIBRARY_PATH");
  return list ? split_path(*list) : Folders{};
}

Folders own_folders() {
  const std::string own = own_folder();
  return own.empty() ? Folders{} : Folders{own};
}

Folders hiprtc_names() {
  // Before version 6 the compiler lives in the HIP runtime itself; newer runtimes keep only forwarding symbols.
  Folders names = support::rocm_library_names("libhiprtc");
  names.insert(std::find(names.begin(), names.end(), "libhiprtc.so.5") + 1, "libamdhip64.so.5");
  names.emplace_back("libhiprtc.so");  // as frameworks bring it along
  return names;
}

constexpr std::initializer_list<const char*> kToolkit = {"/lib64", "/lib", "/targets/x86_64-linux/lib"};
/// The wheels unpack below one folder, which may be on the loader path itself or hold this library some levels down.
constexpr std::initializer_list<const char*> kWheels = {"", "/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib"};
constexpr std::initializer_list<const char*> kWheelsAbove = {"",
                                                             "/nvidia/cu13/lib",
                                                             "/nvidia/cuda_nvrtc/lib",
                                                             "/../nvidia/cu13/lib",
                                                             "/../nvidia/cuda_nvrtc/lib",
                                                             "/../../nvidia/cu13/lib",
                                                             "/../../nvidia/cuda_nvrtc/lib"};

/// Folders of Python packages, as they were added.
struct Packages {
  support::Mutex mutex;
  Folders folders;
};
Packages& packages() {
  static constinit support::Lasting<Packages> added;
  return added.get();
}

Folders added_packages() {
  Packages& added = packages();
  const std::lock_guard lock(added.mutex);
  return added.folders;
}

}  // namespace

void add_packages_folder(const std::string& folder) {
  Packages& added = packages();
  const std::lock_guard lock(added.mutex);
  if (std::find(added.folders.begin(), added.folders.end(), folder) == added.folders.end())
    added.folders.push_back(folder);
}

std::vector<std::string> split_path(const std::string& list) {
  Folders folders;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) folders.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

std::string behind_links(const std::string& path) {
  char file[PATH_MAX];
  return ::realpath(path.c_str(), file) != nullptr ? file : path;
}

std::string own_file() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_file), &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

std::string own_folder() {
  const std::string file = own_file();
  if (file.empty()) return {};
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? std::string(".") : file.substr(0, slash);
}

std::string unused_rocm_remark() {
  const std::string unused = support::unused_rocm(hiprtc_names());
  return unused.empty() ? unused : "; " + unused;
}

LibrarySearch nvrtc_search() {
  LibrarySearch search{"libnvrtc", {"libnvrtc.so.13", "libnvrtc.so.12"}, {}};
  search.groups.push_back(below(own_folders(), kWheelsAbove));
  search.groups.push_back(below(library_path(), kWheels));
  search.groups.push_back(below(added_packages(), kWheels));
  search.groups.push_back(below(from_variables({"CUDA_HOME", "CUDA_PATH"}), kToolkit));
  search.groups.push_back(loader_folders());
  search.groups.push_back(below({"/usr/local/cuda", "/opt/cuda"}, kToolkit));
  Folders versions = support::newest_first("/usr/local/cuda-*");
  for (std::string& folder : support::newest_first("/opt/cuda-*")) versions.push_back(std::move(folder));
  search.groups.push_back(below(versions, kToolkit));
  return search;
}

std::string nvrtc_search_inputs() {
  std::string inputs;
  for (const char* name : {"LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"}) {
    const auto value = support::environment_variable(name);
    inputs += value ? support::cat(name, '=', *value, '\n') : std::string();
  }
  for (const std::string& folder : added_packages()) inputs += support::cat(folder, '\n');
  return inputs;
}

LibrarySearch hiprtc_search() {
  LibrarySearch search{"libhiprtc", hiprtc_names(), {}};
  // A process that runs kernels already, as PyTorch's, wants binaries of the same release.
  const std::string loaded = support::DynamicLibrary::loaded_path(search.names);
  if (!loaded.empty()) search.groups.push_back({loaded.substr(0, loaded.rfind('/'))});
  search.groups.push_back(own_folders());
  for (Folders& chosen : support::rocm_chosen_folders()) search.groups.push_back(std::move(chosen));
  // All as one group: the copy that a distribution ships is often older than the one in ROCm's own folders.
  Folders usual = loader_folders();
  for (std::string& folder : below(support::rocm_roots(), {"/lib", "/lib64"})) usual.push_back(std::move(folder));
  search.groups.push_back(std::move(usual));
  return search;
}

std::string find_library(const LibrarySearch& search) {
  struct stat info{};
  for (const auto& folders : search.groups)
    for (const std::string& name : search.names)
      for (const std::string& folder : folders) {
        std::string path = folder + "/" + name;
        if (::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) return path;
      }
  return {};
}

std::string describe(const LibrarySearch& search) {
  std::string text;
  for (const std::string& name : search.names) text += (text.empty() ? "" : ", ") + name;
  std::set<std::string> seen;
  for (const auto& folders : search.groups)
    for (const std::string& folder : folders)
      if (seen.insert(folder).second) text += (seen.size() == 1 ? " in " : ", ") + folder;
  return text + (seen.empty() ? " in no folder at all" : "");
}

Identity identify(std::string_view kind, const std::string& path) {
  Identity identity;
  identity.kind = kind;
  static_cast<FileStamp&>(identity) = stamp(path);
  return identity;
}

FileStamp stamp(const std::string& path) {
  struct stat info{};
  if (path.empty() || ::stat(path.c_str(), &info) != 0) return {};
  return {path, static_cast<std::uint64_t>(info.st_size),
          static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec};
}

}  // namespace tj::compile
