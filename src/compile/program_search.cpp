// See program_search.hpp.
#include "compile/program_search.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "compile/library_search.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::compile {
namespace {

using support::cat;

constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

}  // namespace

std::string program_path() { return support::environment_variable("PATH").value_or(kDefaultPath); }

std::vector<std::string> path_folders() {
  std::vector<std::string> folders = split_path(program_path());
  std::erase_if(folders, [](const std::string& folder) { return folder.front() != '/'; });
  return folders;
}

bool is_program(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

std::string find_program(const std::string& name) {
  for (const std::string& folder : path_folders()) {
    std::string path = folder + "/" + name;
    if (is_program(path)) return path;
  }
  return {};
}

std::string path_text() {
  const std::vector<std::string> folders = path_folders();
  return folders.empty() ? cat("'", support::shown_path(program_path()), "', which names no absolute folder")
                         : join(folders);
}

std::string join(const std::vector<std::string>& folders) {
  std::string text;
  for (const std::string& folder : folders) text += (text.empty() ? "" : ", ") + folder;
  return text;
}

}  // namespace tj::compile
