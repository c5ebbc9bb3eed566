// See files.hpp.
#include "common/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <tilejit/error.hpp>

namespace tj::samples {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what, int number) {
  throw Error(Stage::argument, Code::io, what + ": " + std::strerror(number));
}

/// Interruptions wait until the files are in place.
class Uninterrupted {
 public:
  Uninterrupted() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, signal);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~Uninterrupted() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;

 private:
  sigset_t before_{};
};

/// Files that vanish unless they are put in place.
class Drafts {
 public:
  Drafts() = default;
  ~Drafts() {
    for (const auto& [draft, path] : files_) ::unlink(draft.c_str());
  }
  Drafts(const Drafts&) = delete;
  Drafts& operator=(const Drafts&) = delete;

  void write(const std::string& path, const std::string& text) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) fail("cannot write '" + path + "'", EISDIR);
    std::string draft = path + ".XXXXXX";
    const int file = ::mkstemp(draft.data());
    if (file < 0) fail("cannot write '" + path + "'", errno);
    files_.emplace_back(draft, path);
    std::size_t done = 0;
    int problem = ::fchmod(file, 0644) == 0 ? 0 : errno;
    while (problem == 0 && done < text.size()) {
      const ssize_t wrote = ::write(file, text.data() + done, text.size() - done);
      if (wrote < 0 && errno != EINTR) problem = errno;
      if (wrote > 0) done += static_cast<std::size_t>(wrote);
    }
    if (problem == 0 && ::fsync(file) != 0) problem = errno;
    if (::close(file) != 0 && problem == 0) problem = errno;
    if (problem != 0) fail("cannot write '" + path + "'", problem);
  }
  void put_in_place() {
    while (!files_.empty()) {
      const auto& [draft, path] = files_.back();
      if (std::rename(draft.c_str(), path.c_str()) != 0) fail("cannot write '" + path + "'", errno);
      files_.pop_back();
    }
  }

 private:
  std::vector<std::pair<std::string, std::string>> files_;
};

}  // namespace

void check_writable(const std::string& folder) {
  fs::path place = fs::absolute(folder).lexically_normal();
  std::error_code ignored;
  while (!fs::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  if (!fs::is_directory(place, ignored)) fail("cannot write into '" + folder + "'", ENOTDIR);
  const Uninterrupted uninterrupted;
  std::string probe = (place / "probe.XXXXXX").string();
  const int file = ::mkstemp(probe.data());
  if (file < 0) fail("cannot write into '" + folder + "'", errno);
  ::close(file);
  ::unlink(probe.c_str());
}

void require_different(const char* option, const std::string& path, const char* other, const std::string& other_path) {
  if (path.empty() || other_path.empty()) return;
  std::error_code unknown;
  const fs::path one = fs::weakly_canonical(fs::absolute(path, unknown), unknown);
  const bool same = one == fs::weakly_canonical(fs::absolute(other_path, unknown), unknown) ||
                    fs::equivalent(path, other_path, unknown);
  if (same && one != "/dev/null")
    throw Error(Stage::argument, Code::invalid_argument,
                std::string(other) + " is '" + other_path + "', the file that " + option +
                    " is to write; allowed: a file of its own for each");
}

void write_files(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& files) {
  const Uninterrupted uninterrupted;
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) fail("cannot make '" + folder + "'", problem.value());
  Drafts drafts;
  for (const auto& [name, text] : files) drafts.write((fs::path(folder) / name).string(), text);
  drafts.put_in_place();
}

}  // namespace tj::samples
