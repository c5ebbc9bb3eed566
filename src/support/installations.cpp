// See installations.hpp.
#include "support/installations.hpp"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/directory.hpp"
#include "support/environment.hpp"
#include "support/text_stream.hpp"

namespace tj::support {

namespace {

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// Names in the folder that match; a pattern without wildcards is a name.
std::vector<std::string> names_like(const std::string& pattern, const std::string& folder) {
  if (pattern.find_first_of("*?[\\") == std::string::npos) return {pattern};
  std::vector<std::string> names;
  list_directory(folder.empty() ? "." : folder, names);
  std::erase_if(names,
                [&](const std::string& name) { return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) != 0; });
  return names;
}

}  // namespace

// Not by glob(), which in glibc frees twice when it runs out of memory.
std::vector<std::string> matching(const std::string& pattern) {
  std::vector<std::string> paths{""};
  for (std::size_t begin = 0; begin < pattern.size();) {
    const std::size_t slash = std::min(pattern.find('/', begin), pattern.size());
    const std::string part = pattern.substr(begin, slash - begin);
    const std::size_t next = std::min(pattern.find_first_not_of('/', slash), pattern.size());
    std::vector<std::string> longer;
    for (const std::string& path : paths)
      for (const std::string& name : part.empty() ? std::vector<std::string>{""} : names_like(part, path))
        if (std::string each = path + name + pattern.substr(slash, next - slash); exists(each))
          longer.push_back(std::move(each));
    paths = std::move(longer);
    begin = next;
  }
  if (pattern.empty()) paths.clear();
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> newest_first(const std::string& pattern) {
  std::vector<std::string> paths = matching(pattern);
  std::stable_sort(paths.begin(), paths.end(),
                   [](const std::string& a, const std::string& b) { return ::strverscmp(a.c_str(), b.c_str()) > 0; });
  return paths;
}

namespace {

constexpr const char* kRocmVariables[] = {"ROCM_PATH", "HIP_PATH"};
constexpr const char* kLibraryFolders[] = {"/lib", "/lib64"};

}  // namespace

std::string unused_rocm(const std::vector<std::string>& libraries) {
  std::string text;
  for (const char* name : kRocmVariables) {
    const auto root = environment_variable(name);
    if (!root) continue;
    for (const char* folder : kLibraryFolders)
      for (const std::string& library : libraries)
        if (exists(*root + folder + "/" + library)) return {};
    text += (text.empty() ? "" : "; ") + std::string(name) + " is '" + *root + "', which " +
            (exists(*root) ? "has no lib/" + libraries.front() + " nor an earlier one" : std::string("does not exist"));
  }
  return text;
}

std::vector<std::string> rocm_library_names(const std::string& library) {
  std::vector<std::string> names;
  for (const int release : {7, 6, 5, 10, 9, 8}) names.push_back(library + ".so." + std::to_string(release));
  return names;
}

std::vector<std::vector<std::string>> rocm_chosen_folders() {
  std::vector<std::vector<std::string>> groups(2);
  TextReader list(environment_variable("LD_LIBRARY_PATH").value_or(""));
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty()) groups[0].push_back(folder);
  for (const char* name : kRocmVariables)
    if (const auto root = environment_variable(name))
      for (const char* folder : kLibraryFolders) groups[1].push_back(*root + folder);
  return groups;
}

std::vector<std::string> rocm_roots() {
  std::vector<std::string> roots;
  const auto add = [&](std::string root) {
    if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(std::move(root));
  };
  for (const char* name : kRocmVariables)
    if (auto value = environment_variable(name)) add(std::move(*value));
  add("/opt/rocm");
  // Newer releases lie below it (core-7.14), earlier ones beside it.
  for (const char* pattern : {"/opt/rocm/core", "/opt/rocm/core-*", "/opt/rocm-*"})
    for (std::string& root : newest_first(pattern)) add(std::move(root));
  return roots;
}

}  // namespace tj::support
