// Open file description locks on one lock file: each key locks the byte at an offset that is its hash.
//
// One file for all keys leaves nothing to clean up. Keys whose offsets collide wait for each other, nothing worse. The
// file's first bytes are notes in which holders say who they are, one place for each hash. They are read for messages
// alone and never believed for anything else.
#include "cache/lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include "cache/format.hpp"
#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/hash.hpp"
#include "support/lock_file.hpp"
#include "support/patience.hpp"
#include "support/text_stream.hpp"

namespace tj::cache {
namespace {

using support::LockFile;

constexpr off_t kNotes = 256;
constexpr std::size_t kNoteBytes = 160;
constexpr std::chrono::milliseconds kFirstPause{1}, kLongestPause{50};

off_t offset_of(const Key& key) {
  const support::Digest digest = support::sha256(file_name(key));
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < 8; ++i) offset = offset << 8 | digest[i];
  return static_cast<off_t>(offset >> 2);  // with its length still a positive off_t
}

// ---- notes --------------------------------------------------------------------------------------

off_t place_of(off_t offset) { return offset % kNotes * static_cast<off_t>(kNoteBytes); }

std::string host_name() {
  std::array<char, 65> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "-";
}

/// One word that ends up in a line of text, whoever wrote it.
std::string plain(std::string word) {
  if (word.size() > 64) word.resize(64);
  std::replace_if(word.begin(), word.end(), [](char c) { return c <= ' ' || c > '~'; }, '?');
  return word.empty() ? "-" : word;
}

/// Empty: the note of nobody. Nothing depends on whether it could be written.
void write_note(const LockFile& file, off_t offset, std::string note) {
  note.resize(kNoteBytes);
  [[maybe_unused]] const int error = support::write_all(file.get(), note, place_of(offset));
}

void sign(const LockFile& file, off_t offset) {
  write_note(
      file, offset,
      support::cat(offset, ' ', ::getpid(), ' ', plain(program_invocation_short_name), ' ', plain(host_name()), '\n'));
}

/// "process 1234 (tj-warm)", or words for one that left no note.
std::string holder(const LockFile& file, off_t offset) {
  std::array<char, kNoteBytes> bytes{};
  const ssize_t read = ::pread(file.get(), bytes.data(), bytes.size(), place_of(offset));
  support::TextReader words(std::string(bytes.data(), read > 0 ? static_cast<std::size_t>(read) : 0));
  off_t noted = -1;
  long process = 0;
  std::string program, host;
  if (!(words >> noted >> process >> program >> host) || noted != offset || process <= 0) return "another process";
  host = plain(host);
  return support::cat("process ", process, " (", plain(program), host == host_name() ? "" : ", host " + host, ")");
}

class HeldLock {
 public:
  HeldLock(LockFile file, off_t offset) : file_(std::move(file)), offset_(offset), opener_(::getpid()) {
    sign(file_, offset_);
  }
  ~HeldLock() {
    if (opener_ == ::getpid()) write_note(file_, offset_, {});  // in a child the number may mean another file
  }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

 private:
  LockFile file_;
  off_t offset_;
  pid_t opener_;
};

/// False when the file was deleted or replaced while we waited: then a lock on it excludes nobody any more.
bool still_there(int directory, const LockFile& file) {
  struct stat opened{}, named{};
  return ::fstat(file.get(), &opened) == 0 && ::fstatat(directory, kLockFile, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// A directory that cannot be written, or has no room for the file, is told of by whoever stores an entry there.
NoLock cannot_open(int directory, int error) {
  struct stat named{};
  const bool is_there = ::fstatat(directory, kLockFile, &named, AT_SYMLINK_NOFOLLOW) == 0;
  const bool ours = is_there && ::faccessat(directory, ".", W_OK | X_OK, AT_EACCESS) == 0;
  const bool is_link = is_there && S_ISLNK(named.st_mode);
  return {is_link ? "it is a symbolic link, which is not followed" : support::errno_text(error), ours ? error : 0};
}

/// 0, EAGAIN when the time is over, ECANCELED when the wait was given up, or another errno. Asks again and again: a
/// call that waits could not be given up in a thread.
int lock_byte(const LockFile& file, off_t offset, support::Patience& patience, const LockWait& wait) {
  auto pause = kFirstPause;
  for (;;) {
    const int error = file.try_lock(offset, 1);
    if (error != EAGAIN) return error;
    if (wait.waited != nullptr) *wait.waited = true;
    if (wait.given_up && wait.given_up()) return ECANCELED;
    if (wait.says && patience.word_is_due()) wait.says(patience.waited_s(), holder(file, offset), false);
    if (patience.over()) {
      if (wait.says) wait.says(patience.waited_s(), holder(file, offset), true);
      return EAGAIN;
    }
    std::this_thread::sleep_for(patience.step(pause));
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace

std::shared_ptr<void> lock_key(int directory, const Key& key, const LockWait& wait, NoLock* reason) {
  *reason = {};
  const off_t offset = offset_of(key);
  support::Patience patience(wait.limit_s);
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    LockFile file(directory, kLockFile, O_CREAT);
    if (!file) {
      *reason = cannot_open(directory, errno);
      return nullptr;
    }
    if (const int error = lock_byte(file, offset, patience, wait); error != 0) {
      reason->problem = error == EAGAIN      ? "another process has held it for longer than the limit"
                        : error == ECANCELED ? "the wait for another process was given up"
                                             : support::errno_text(error);
      return nullptr;
    }
    if (still_there(directory, file)) return std::make_shared<HeldLock>(std::move(file), offset);
  }
  reason->problem = "the lock file keeps being replaced";
  return nullptr;
}

}  // namespace tj::cache
