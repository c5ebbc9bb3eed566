// Open file description locks on one lock file: each key locks the byte at an offset that is its hash.
//
// One file for all keys leaves nothing to clean up. Each lock has a description of its own, so threads exclude each
// other as processes do. Keys whose offsets collide wait for each other, nothing worse.
#include "cache/lock.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include <cerrno>
#include <mutex>
#include <set>

#include "cache/format.hpp"
#include "support/atomic_file.hpp"
#include "support/file_descriptor.hpp"
#include "support/hash.hpp"

namespace tj::cache {
namespace {

/// The lock files that are open in this process. A forked child inherits descriptors, and with them locks that would
/// outlive a parent that dies; so it closes its copies at once (which leaves the parent's locks in force).
class OpenLocks {
 public:
  static OpenLocks& instance() {
    static OpenLocks* const locks = new OpenLocks;  // never destroyed: locks may be released while the process ends
    return *locks;
  }

  /// Opened and noted in one step as seen by fork().
  int open(int directory) {
    const std::lock_guard<std::mutex> guard(mutex_);
    int file = -1;
    do {
      file = ::openat(directory, kLockFile, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    } while (file < 0 && errno == EINTR);
    if (file >= 0) files_.insert(file);
    return file;
  }

  /// Only in the process that opened it: in a child the number may already mean another file.
  void close(int file, pid_t opener) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (opener != ::getpid() || files_.erase(file) == 0) return;
    struct flock region = whole_file(F_UNLCK);  // explicitly: a child may hold a copy of the descriptor for a moment
    ::fcntl(file, F_OFD_SETLK, &region);
    ::close(file);
  }

  static struct flock whole_file(short type) {
    struct flock region {};
    region.l_type = type;
    region.l_whence = SEEK_SET;
    return region;
  }

 private:
  OpenLocks() {
    ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                     [] {
                       OpenLocks& locks = instance();
                       for (const int file : locks.files_) ::close(file);
                       locks.files_.clear();
                       locks.mutex_.unlock();
                     });
  }

  std::mutex mutex_;
  std::set<int> files_;
};

class HeldLock {
 public:
  explicit HeldLock(int file) : file_(file), opener_(::getpid()) {}
  ~HeldLock() { OpenLocks::instance().close(file_, opener_); }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

 private:
  int file_;
  pid_t opener_;
};

off_t offset_of(const Key& key) {
  const support::Digest digest = support::sha256(file_name(key));
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < 8; ++i) offset = offset << 8 | digest[i];
  return static_cast<off_t>(offset >> 2);  // with its length still a positive off_t
}

bool lock_byte(int file, off_t offset) {
  struct flock region = OpenLocks::whole_file(F_WRLCK);
  region.l_start = offset;
  region.l_len = 1;
  int status = 0;
  do {
    status = ::fcntl(file, F_OFD_SETLKW, &region);
  } while (status != 0 && errno == EINTR);
  return status == 0;
}

/// False when the file was deleted or replaced while we waited: then a lock on it excludes nobody any more.
bool still_there(int directory, int file) {
  struct stat opened {}, named {};
  return ::fstat(file, &opened) == 0 && ::fstatat(directory, kLockFile, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

std::shared_ptr<void> lock_key(int directory, const Key& key, std::string* problem) {
  problem->clear();
  const off_t offset = offset_of(key);
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const int file = OpenLocks::instance().open(directory);
    if (file < 0) {
      *problem = support::errno_text(errno);
      return nullptr;
    }
    auto held = std::make_shared<HeldLock>(file);
    if (!lock_byte(file, offset)) {
      *problem = support::errno_text(errno);
      return nullptr;
    }
    if (still_there(directory, file)) return held;
  }
  *problem = "the lock file keeps being replaced";
  return nullptr;
}

}  // namespace tj::cache
