// See lock_file.hpp.
#include "support/lock_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>

#include "support/file_descriptor.hpp"
#include "support/fork_safe.hpp"
#include "support/interruptions.hpp"
#include "support/lasting.hpp"

namespace tj::support {
namespace {

struct flock region(short type, off_t first, off_t bytes) {
  struct flock asked{};
  asked.l_type = type;
  asked.l_whence = SEEK_SET;
  asked.l_start = first;
  asked.l_len = bytes;
  return asked;
}

/// The open lock files of this process.
class OpenFiles {
 public:
  static OpenFiles& instance() {
    static constinit Lasting<OpenFiles> files;
    return files.get();
  }
  OpenFiles() { in_forked_children(&close_all); }

  /// Opened and noted in one step as seen by fork().
  int open(int directory, const char* name, int flags) {
    const std::lock_guard guard(mutex_);
    int file = -1;
    for (int i = 0; i < kMostInterruptions && file < 0 && (i == 0 || errno == EINTR); ++i)
      file = ::openat(directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags, 0600);
    file = away_from_standard(file);
    if (file >= 0) files_.insert(file);
    return file;
  }

  void close(int file) {
    const std::lock_guard guard(mutex_);
    if (files_.erase(file) == 0) return;
    struct flock all = region(F_UNLCK, 0, 0);  // explicitly: a child may hold a copy of the descriptor for a moment
    ::fcntl(file, F_OFD_SETLK, &all);
    ::close(file);
  }

 private:
  static void close_all() {
    OpenFiles& own = instance();
    if (!own.mutex_.is_whole()) return;
    for (const int file : own.files_) ::close(file);
    own.files_.clear();
  }
  Mutex mutex_;
  std::set<int> files_;
};

}  // namespace

LockFile::LockFile(int directory, const char* name, int flags)
    : file_(OpenFiles::instance().open(directory, name, flags)), opener_(process_generation()) {}

LockFile::~LockFile() {
  if (file_ >= 0 && opener_ == process_generation()) OpenFiles::instance().close(file_);
}

int LockFile::try_lock(off_t first, off_t bytes) const noexcept {
  for (int i = 0; i < kMostInterruptions; ++i) {
    struct flock asked = region(F_WRLCK, first, bytes);
    if (::fcntl(file_, F_OFD_SETLK, &asked) == 0) return 0;
    if (errno != EINTR) return errno == EACCES ? EAGAIN : errno;
  }
  return EINTR;
}

}  // namespace tj::support
