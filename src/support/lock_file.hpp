// Files that are open for the sake of locks on them.
//
// Decides how a lock's life is tied to its holder: open file description locks end with the process, whatever ends it.
// A forked child inherits descriptors, and with them locks that would outlive a parent that dies. So it closes its
// copies at once, which leaves the parent's locks in force. Does not decide what is locked. Invariant: each object has
// a description of its own, so threads exclude each other as processes do.
#pragma once

#include <sys/types.h>

#include <utility>

namespace tj::support {

class LockFile {
 public:
  LockFile() = default;
  /// Opened for reading and writing, with these flags of open() besides; made with mode 0600 where they say O_CREAT.
  /// False, with errno, when it could not be opened.
  LockFile(int directory, const char* name, int flags);
  ~LockFile();
  LockFile(LockFile&& other) noexcept : file_(std::exchange(other.file_, -1)), opener_(other.opener_) {}
  LockFile& operator=(LockFile&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(opener_, other.opener_);
    return *this;
  }

  explicit operator bool() const noexcept { return file_ >= 0; }
  int get() const noexcept { return file_; }
  /// Locks these bytes, or the whole file when there are 0 of them. Returns 0, EAGAIN when somebody else has them, or
  /// another errno where locks do not work.
  int try_lock(off_t first, off_t bytes) const noexcept;

 private:
  int file_ = -1;
  unsigned opener_ = 0;  ///< the process's generation: in a child the number may already mean another file
};

}  // namespace tj::support
