// Opening, trusting and reading what lies in a cache directory.
#include "cache/directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <limits>

#include "support/atomic_file.hpp"
#include "support/directory.hpp"
#include "support/fail.hpp"
#include "support/interruptions.hpp"

namespace tj::cache {
namespace {

using support::cat;
using support::errno_text;
using support::FileDescriptor;

FileInfo to_info(const std::string& name, const struct stat& status) {
  return {name, static_cast<std::uint64_t>(status.st_size), nanoseconds(status.st_atim), nanoseconds(status.st_mtim)};
}

/// Every missing component, like mkdir -p, private to the user.
bool make_directories(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      // On a read-only or foreign parent mkdir may refuse before it says that the directory exists.
      struct stat status{};
      const int error = errno;
      if (::stat(part.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
        errno = error;
        return false;
      }
    }
    if (end == std::string::npos) return true;
  }
}

}  // namespace

std::string distrust(const struct stat& status) {
  const uid_t self = ::geteuid();
  if (status.st_uid != self && status.st_uid != 0) {
    return cat("it belongs to user ", status.st_uid, "; user ", self, " takes kernels only from itself and from root");
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return "others can write it; run chmod go-w on it if its content can be trusted";
  }
  return {};
}

// Network file systems say ESTALE of a file that was replaced just now, and a signal may interrupt them.
FileDescriptor open_file(int directory, const std::string& name, int flags) {
  constexpr int kTries = 4;
  FileDescriptor file;
  for (int i = 0; i < kTries && !file; ++i) {
    file = FileDescriptor(::openat(directory, name.c_str(), flags));
    if (!file && errno != ESTALE && errno != EINTR) break;
  }
  return file;
}

std::int64_t nanoseconds(const timespec& time) noexcept {
  constexpr std::int64_t kSecond = 1'000'000'000, kMost = std::numeric_limits<std::int64_t>::max();
  const auto seconds = static_cast<std::int64_t>(time.tv_sec);
  if (seconds < 0) return 0;
  return seconds < kMost / kSecond ? seconds * kSecond + time.tv_nsec : kMost;
}

FileDescriptor open_directory(const std::string& path, WhenMissing when_missing, std::string* problem, int* error) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int unasked = 0;
  int& failed = error != nullptr ? *error : unasked;
  failed = 0;
  problem->clear();
  FileDescriptor directory = open_file(AT_FDCWD, path, kFlags);
  if (!directory && errno == ENOENT) {
    if (when_missing == WhenMissing::leave) return {};
    if (!make_directories(path)) {
      failed = errno;
      *problem = "cannot make it: " + errno_text(failed);
      return {};
    }
    directory = open_file(AT_FDCWD, path, kFlags);
  }
  if (!directory) {
    failed = errno;
    struct stat link{};
    const bool is_link = ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
    *problem = is_link ? "it is a symbolic link, which is not followed; name the real directory" : errno_text(failed);
    return {};
  }
  struct stat status{};
  if (::fstat(directory.get(), &status) != 0) failed = errno;
  *problem = failed != 0 ? errno_text(failed) : distrust(status);
  return problem->empty() ? std::move(directory) : FileDescriptor();
}

std::vector<std::string> list_names(int directory, std::string* problem) {
  std::vector<std::string> names;
  const int error = support::list_directory(directory, names);
  if (error != 0 && problem != nullptr) *problem = "cannot read it: " + errno_text(error);
  return names;
}

bool file_info(int directory, const std::string& name, FileInfo* info) {
  struct stat status{};
  if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
  *info = to_info(name, status);
  return true;
}

// A folder that is renamed replaces at most an empty one.
bool free_name(int directory, const std::string& name, std::string* aside) {
  constexpr int kMostAside = 100;
  aside->clear();
  if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0) return true;
  if (errno == ENOTDIR || errno == ENOENT) return true;  // another process has freed it, and may have stored there
  for (int i = 1; i <= kMostAside; ++i) {
    const std::string other = cat(name, ".aside", i);
    if (::renameat(directory, name.c_str(), directory, other.c_str()) == 0) {
      *aside = other;
      return true;
    }
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR && errno != EISDIR) break;
  }
  return false;
}

namespace {

/// Adds to `bytes` until there are `wanted`, or the file ends; false with a problem.
bool read_up_to(int file, std::size_t wanted, std::string& bytes, std::string* problem) {
  std::size_t filled = bytes.size();
  support::Interruptions interruptions;
  bytes.resize(wanted);
  while (filled < wanted) {
    const ssize_t count = ::read(file, bytes.data() + filled, wanted - filled);
    if (count > 0) {
      filled += static_cast<std::size_t>(count);
      interruptions.came_further();
    } else if (count == 0) {
      break;
    } else if (!interruptions.again(errno)) {
      *problem = "cannot read it: " + errno_text(errno);
      return false;
    }
  }
  bytes.resize(filled);  // a file cut short while being read fails its checksum
  return true;
}

}  // namespace

std::optional<ReadFile> read_file(int directory, const std::string& name, const Admission& admission,
                                  std::string* problem, Rejection* why) {
  problem->clear();
  Rejection unasked{};
  Rejection& kind = why != nullptr ? *why : unasked;
  kind = Rejection::unreadable;
  // O_NONBLOCK: somebody may have put a pipe there. O_NOATIME keeps "last used" ours; only owners may ask for it.
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  FileDescriptor file = open_file(directory, name, kFlags | O_NOATIME);
  if (!file && errno == EPERM) file = open_file(directory, name, kFlags);
  if (!file) {
    if (errno == ELOOP) kind = Rejection::untrusted;
    if (errno != ENOENT) *problem = errno == ELOOP ? "it is a symbolic link" : errno_text(errno);
    return std::nullopt;
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) {
    *problem = errno_text(errno);
  } else if (!S_ISREG(status.st_mode)) {
    kind = Rejection::untrusted;
    *problem = "it is not a regular file";
  } else if (status.st_size > kMaxFileBytes) {
    kind = Rejection::damaged;
    *problem = cat("it has ", status.st_size, " bytes; an entry has at most ", kMaxFileBytes);
  } else {
    *problem = distrust(status);
    if (!problem->empty()) kind = Rejection::untrusted;
  }
  if (!problem->empty()) return std::nullopt;

  const auto size = static_cast<std::size_t>(status.st_size);
  std::string bytes;
  if (!read_up_to(file.get(), std::min(admission.bytes, size), bytes, problem)) return std::nullopt;
  *problem = admission.problem(bytes, size, &kind);
  if (!problem->empty()) return std::nullopt;
  kind = Rejection::unreadable;
  if (!read_up_to(file.get(), size, bytes, problem)) return std::nullopt;
  return ReadFile{std::move(file), std::move(bytes)};
}

void mark_used(int file) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);  // UTIME_NOW would be the last timer tick, too coarse to order uses
  timespec keep{};
  keep.tv_nsec = UTIME_OMIT;
  const timespec times[2] = {now, keep};
  (void)::futimens(file, times);
}

}  // namespace tj::cache
