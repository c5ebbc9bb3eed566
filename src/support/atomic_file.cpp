// Temporary, fsync, rename.
#include "support/atomic_file.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <system_error>
#include <utility>

#include "support/fail.hpp"
#include "support/interruptions.hpp"
#include "support/process_end.hpp"
#include "support/text.hpp"

namespace tj::support {
namespace {

/// A random name, from the kernel each time: a generator of our own would repeat itself in a forked child.
std::string random_name() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof bits)) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    bits = (static_cast<std::uint64_t>(::getpid()) << 40) ^ static_cast<std::uint64_t>(now.tv_sec << 30) ^
           static_cast<std::uint64_t>(now.tv_nsec);
  }
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(bits));
  return std::string(kTemporaryPrefix) + digits;
}

/// Some file systems have nothing to flush and say so.
bool flush(int file) {
  int status = 0;
  Interruptions interruptions;
  do {
    status = ::fsync(file);
  } while (status != 0 && interruptions.again(errno));
  return status == 0 || errno == EINVAL || errno == ENOTSUP;
}

/// A file that is larger than the process's limit gets a signal, and so does a pipe whose reader has gone. Either ends
/// a process that does nothing about it. The signal goes to the thread that writes: blocked there and taken back, it
/// leaves an errno alone. What signals do in this process stays its program's.
class SignalsAreErrors {
 public:
  SignalsAreErrors() {
    ::sigemptyset(&own_);
    for (const int signal : {SIGXFSZ, SIGPIPE}) ::sigaddset(&own_, signal);
    ::pthread_sigmask(SIG_BLOCK, &own_, &before_);
    sigset_t pending;
    ::sigemptyset(&pending);
    ::sigpending(&pending);
    for (const int signal : {SIGXFSZ, SIGPIPE})
      if (::sigismember(&pending, signal) == 1) ::sigdelset(&own_, signal);  // one was there already
  }
  ~SignalsAreErrors() {
    const int error = errno;
    const timespec none{};
    while (::sigtimedwait(&own_, nullptr, &none) > 0) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  SignalsAreErrors(const SignalsAreErrors&) = delete;
  SignalsAreErrors& operator=(const SignalsAreErrors&) = delete;

 private:
  sigset_t own_, before_;
};

}  // namespace

std::string errno_text(int error) { return std::generic_category().message(error); }

std::string next_step(int error, std::string_view otherwise) {
  switch (error) {
    case EMFILE:
      return "raise the limit of open files (ulimit -n), or close some";
    case ENFILE:
      return "the whole system has too many files open: close some, or raise fs.file-max";
    case EAGAIN:
      return "raise the limit of processes (ulimit -u), or end some";
    case ENOMEM:
      return "free some memory, or raise its limit (ulimit -v)";
    case EFBIG:
      return "raise the limit on the size of files (ulimit -f)";
    case ENAMETOOLONG:
      return "give a shorter path";
    case ECANCELED:
      return std::string(kProcessIsEnding);
    default:
      return std::string(otherwise);
  }
}

FileDescriptor open_to_append(const std::string& path, mode_t mode) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY;
  constexpr int kTries = 4;
  FileDescriptor file;
  for (int i = 0; i < kTries && !file; ++i) {
    file = FileDescriptor(::open(path.c_str(), kFlags | O_NONBLOCK, mode));
    if (!file && errno != ESTALE && errno != EINTR) break;
  }
  // Writes to a pipe with a reader wait for it.
  if (file && ::fcntl(file.get(), F_SETFL, O_APPEND) != 0) {
    const int error = errno;
    file.reset();
    errno = error;
  }
  return file;
}

int write_all(int file, std::string_view bytes, off_t at) {
  const SignalsAreErrors guard;
  Interruptions interruptions;
  while (!bytes.empty()) {
    const ssize_t count =
        at < 0 ? ::write(file, bytes.data(), bytes.size()) : ::pwrite(file, bytes.data(), bytes.size(), at);
    if (count > 0) {
      if (at >= 0) at += count;
      bytes.remove_prefix(static_cast<std::size_t>(count));
      interruptions.came_further();
    } else if (count == 0) {
      return EIO;
    } else if (!interruptions.again(errno)) {
      return errno;
    }
  }
  return 0;
}

bool is_temporary_name(std::string_view name) {
  constexpr std::size_t kDigits = 16;
  return name.size() == kTemporaryPrefix.size() + kDigits && name.starts_with(kTemporaryPrefix) &&
         name.find_first_not_of("0123456789abcdef", kTemporaryPrefix.size()) == std::string_view::npos;
}

AtomicFile::AtomicFile(int directory, std::string name, mode_t mode, Mode how)
    : directory_(directory), name_(std::move(name)) {
  constexpr int kTries = 64;
  for (int i = 0; i < kTries && !file_; ++i) {
    std::string candidate = random_name();
    note_ = TemporaryNote(directory_, candidate);
    if (note_.refused()) {
      errno = ECANCELED;
      break;
    }
    file_ = FileDescriptor(
        ::openat(directory_, candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (file_) {
      note_.made();
      temporary_ = std::move(candidate);
    } else if (errno != EEXIST && errno != EINTR) {
      break;
    }
  }
  if (!file_) {
    failed("create a temporary for", errno);
  } else if (how == Mode::exact && ::fchmod(file_.get(), mode) != 0) {
    failed("set the mode of", errno);
  }
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlinkat(directory_, temporary_.c_str(), 0);  // the note goes behind it
}

bool AtomicFile::failed(const char* step, int error) {
  if (problem_.empty()) {
    problem_ = cat("cannot ", step, " ", name_, ": ", errno_text(error));
    error_ = error;
  }
  file_.reset();
  if (!temporary_.empty()) ::unlinkat(directory_, temporary_.c_str(), 0);
  temporary_.clear();
  note_.forget();
  return false;
}

bool AtomicFile::write(std::string_view bytes) {
  if (!ok()) return false;
  const int error = write_all(file_.get(), bytes);
  return error == 0 || failed("write", error);
}

timespec AtomicFile::stamp() {
  struct stat status{};
  if (!ok() || ::fstat(file_.get(), &status) != 0) return {};
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const timespec times[2] = {now, now};
  (void)::futimens(file_.get(), times);
  return status.st_mtim;
}

bool AtomicFile::finish() {
  if (!ok()) return false;
  if (temporary_.empty()) return failed("commit twice", EINVAL);
  if (finished_) return true;
  if (!flush(file_.get())) return failed("flush", errno);
  // Network file systems may report a lost write only here.
  if (::close(file_.release()) != 0 && errno != EINTR) return failed("close", errno);
  finished_ = true;
  return true;
}

bool AtomicFile::commit() {
  if (!finish()) return false;
  if (::renameat(directory_, temporary_.c_str(), directory_, name_.c_str()) != 0) return failed("rename to", errno);
  temporary_.clear();
  note_.forget();
  return true;
}

bool AtomicFile::commit_new() {
  if (!finish()) return false;
  constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE, which older C libraries do not declare
  const char *const from = temporary_.c_str(), *const to = name_.c_str();
  if (::syscall(SYS_renameat2, directory_, from, directory_, to, kNoReplace) != 0) {
    if (errno != EINVAL && errno != ENOSYS && errno != EPERM) return failed("rename to", errno);
    if (::linkat(directory_, from, directory_, to, 0) != 0) return failed("link to", errno);
    ::unlinkat(directory_, from, 0);
  }
  temporary_.clear();
  note_.forget();
  return true;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

bool write_file_atomically(const std::string& path, std::string_view bytes, mode_t mode, std::string* problem) {
  const std::string parent = folder_of(path), name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  std::string reason;
  if (name.empty() || name == "." || name == "..") {
    reason = "'" + shown_path(path) + "' does not end in a file name";
  } else {
    const FileDescriptor directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) {
      reason = cat("cannot open the directory ", shown_path(parent), ": ", errno_text(errno));
    } else {
      AtomicFile file(directory.get(), name, mode);
      file.write(bytes);
      file.commit();
      reason = file.problem();
    }
  }
  if (problem != nullptr) *problem = reason;
  return reason.empty();
}

}  // namespace tj::support
