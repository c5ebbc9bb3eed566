// An owned file descriptor. Invariant: closed exactly once, by its last owner; none of the three that programs print
// to.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tj::support {

/// A program that has closed its standard output gives that number to the next file, and prints into it. So no file of
/// the library keeps such a number. Returns another one for the same file, or -1 with errno.
inline int away_from_standard(int value) noexcept {
  if (value < 0 || value > STDERR_FILENO) return value;
  const int moved = ::fcntl(value, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(value);
  errno = error;
  return moved;
}

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int value) : value_(away_from_standard(value)) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      value_ = std::exchange(other.value_, -1);
    }
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const noexcept { return value_; }
  explicit operator bool() const noexcept { return value_ >= 0; }
  int release() noexcept { return std::exchange(value_, -1); }
  void reset() noexcept {
    if (value_ >= 0) ::close(value_);
    value_ = -1;
  }

 private:
  int value_ = -1;
};

}  // namespace tj::support
