// Helpers of tests of files and processes: a directory that disappears with its owner, whole-file access, children.
#pragma once

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tj::testing {

/// An empty directory, mode 0700, removed with all its content whatever modes the test has set.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tilejit-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    path_ = pattern;
  }
  ~Scratch() {
    ::chmod(path_.c_str(), 0700);
    std::error_code error;
    using Options = std::filesystem::directory_options;
    for (std::filesystem::recursive_directory_iterator at(path_, Options::skip_permission_denied, error), end;
         !error && at != end; at.increment(error)) {
      if (at->is_directory(error) && !at->is_symlink(error)) ::chmod(at->path().c_str(), 0700);
    }
    std::filesystem::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ::chmod(path.c_str(), 0600);
}

inline std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(directory)) names.push_back(item.path().filename());
  return names;
}

/// Runs `work` in a forked child; its return value is the exit status. An exception there is status 99.
template <class Work>
pid_t start_child(Work&& work) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child > 0) return child;
  int status = 99;
  try {
    status = work();
  } catch (...) {
  }
  ::_exit(status);
}

/// Exit status, or minus the signal that ended it.
inline int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// The thread of this process waits for something.
inline bool sleeps(pid_t thread) {
  return read_bytes("/proc/self/task/" + std::to_string(thread) + "/stat").find(") S ") != std::string::npos;
}
/// The same, in a call of the system's, such as SYS_write. Any call will do where the kernel tells none.
inline bool sleeps_in(pid_t thread, long call) {
  const std::string now = read_bytes("/proc/self/task/" + std::to_string(thread) + "/syscall");
  return sleeps(thread) && (now.empty() || now.starts_with(std::to_string(call) + " "));
}

/// This process has a child that has not ended.
inline bool has_child() {
  siginfo_t ended{};
  return ::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
}

}  // namespace tj::testing
