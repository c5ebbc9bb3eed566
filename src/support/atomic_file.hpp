// Files that appear whole or not at all.
//
// Decides how a file is published: a temporary in the same directory, fsync, rename. Does not create directories.
// Invariant: under the final name there is at every moment either the old content or all of the new one; without
// commit() nothing changes. Crash safe in the same sense; whether a commit survives a power cut is the file system's.
#pragma once

#include <sys/types.h>

#include <ctime>
#include <string>
#include <string_view>

#include "support/file_descriptor.hpp"
#include "support/temporaries.hpp"

namespace tj::support {

/// Temporaries are named kTemporaryPrefix + 16 hex digits. One that is an hour old lost its writer.
inline constexpr std::string_view kTemporaryPrefix = ".tmp-";
/// Does a file bear such a name? Nothing else may be removed: users keep files of their own where they like.
bool is_temporary_name(std::string_view name);

/// Is a file's mode the one that is given, or that without the bits of the process's umask?
enum class Mode { exact, masked };

/// Not thread safe; one writer each. Failures are values: ok() turns false, problem() says why, later calls do nothing.
class AtomicFile {
 public:
  /// `directory` is an open directory that outlives this object; `name` has no slash.
  AtomicFile(int directory, std::string name, mode_t mode, Mode how = Mode::exact);
  /// Removes the temporary unless committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  bool write(std::string_view bytes);
  /// Sets last access and modification to now, in full clock resolution. Some file systems refuse: then they keep what
  /// the system gave. Returns the time of the last write by the file system's clock, 0 where that is not known.
  timespec stamp();
  bool commit();
  /// All of it but the name, for who commits several files together: commit_new() is short then.
  bool finish();
  /// For when all of these have been finished: an ending process lets them get their names.
  void publishing() noexcept { note_.publishing(); }
  /// commit() that never replaces something of that name: then error() is EEXIST. EPERM, EINVAL, ENOSYS,
  /// EOPNOTSUPP: the file system can do neither of what this needs, a rename that refuses or a link.
  bool commit_new();

  bool ok() const noexcept { return problem_.empty(); }
  const std::string& problem() const noexcept { return problem_; }
  int error() const noexcept { return error_; }  ///< the errno of the problem, or 0

 private:
  bool failed(const char* step, int error);

  int directory_;
  std::string name_;
  std::string temporary_;  // empty when there is none to remove
  TemporaryNote note_;
  FileDescriptor file_;
  std::string problem_;
  int error_ = 0;
  bool finished_ = false;
};

/// The folder that has a path's last name: "." of "x", "/" of "/x".
std::string folder_of(const std::string& path);

/// Publishes bytes under a path whose directory exists. False, with the reason, when that failed; nothing changed then.
bool write_file_atomically(const std::string& path, std::string_view bytes, mode_t mode, std::string* problem);

/// "No such file or directory"; thread safe.
std::string errno_text(int error);

/// The next step after an errno that says which limit was met: "raise the limit of open files (ulimit -n)". For any
/// other errno, the words `otherwise`.
std::string next_step(int error, std::string_view otherwise);

/// A file to whose end each write goes; it is made where there is none. A pipe that nobody reads is an error, and no
/// wait. Without a value, errno says why.
FileDescriptor open_to_append(const std::string& path, mode_t mode);

/// Writes all of it, at the file's place or at this one. Returns 0 or the errno: EFBIG too, where the system would
/// otherwise end the process by SIGXFSZ.
int write_all(int file, std::string_view bytes, off_t at = -1);

}  // namespace tj::support
