// See output_file.hpp.
#include "tools/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <iostream>
#include <optional>
#include <system_error>
#include <utility>

#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/file_descriptor.hpp"
#include "support/text.hpp"
#include "tools/options.hpp"

namespace tj::tools {
namespace {

namespace fs = std::filesystem;

bool same_file(const std::string& one, const std::string& other) {
  std::error_code unknown;
  if (fs::equivalent(one, other, unknown)) return true;
  const fs::path first = fs::weakly_canonical(fs::absolute(one, unknown), unknown);
  return !unknown && first == fs::weakly_canonical(fs::absolute(other, unknown), unknown);
}

constexpr mode_t kModeBits = 07777;

constexpr int kWriteFlags = O_WRONLY | O_CLOEXEC | O_NOCTTY;

/// Writes all of the text and closes the file. 0, or the errno. made: a file that was not there before is removed where
/// this fails, unless another one has its name by then.
int fill(support::FileDescriptor file, const std::string& path, bool made, const std::string& text) {
  struct stat ours{}, there{};
  const bool known = ::fstat(file.get(), &ours) == 0;
  int error = support::write_all(file.get(), text);
  const int closed = ::close(file.release());  // some file systems tell of a lost write only here
  if (error == 0 && closed != 0 && errno != EINTR) error = errno;
  if (error == 0 || !made || !known) return error;
  std::error_code unknown;
  const fs::path real = fs::canonical(path, unknown);  // a link stays
  if (!unknown && ::lstat(real.c_str(), &there) == 0 && there.st_dev == ours.st_dev && there.st_ino == ours.st_ino)
    ::unlink(real.c_str());
  return error;
}

int write_in_place(const NewFile& file) {
  support::FileDescriptor made(::open(file.path.c_str(), kWriteFlags | O_CREAT | O_EXCL, file.mode));
  return made ? fill(std::move(made), file.path, true, file.text) : errno;
}

/// A new file that has no name yet, or that its file system lets have no other.
class Pending {
 public:
  explicit Pending(const NewFile& file) : file_(file) {
    const fs::path path(file.path), name = path.filename();
    if (struct stat status{}; ::lstat(file.path.c_str(), &status) == 0) {
      error_ = EEXIST;
    } else if (!name.empty() && name != "." && name != "..") {
      const std::string parent = support::folder_of(file.path);
      folder_ = support::FileDescriptor(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!folder_) return;
      whole_.emplace(folder_.get(), name.string(), file.mode, support::Mode::masked);
      whole_->write(file.text);
      whole_->finish();
      if (!needs_place(whole_->error())) error_ = whole_->error();
    }
  }
  int error() const { return error_; }
  void publishing() {
    if (whole_) whole_->publishing();
  }
  int commit() {
    if (error_ == 0 && whole_) {
      whole_->commit_new();
      error_ = whole_->error();
    }
    if (error_ == 0 && whole_) return 0;
    return error_ == 0 || needs_place(error_) ? write_in_place(file_) : error_;
  }

 private:
  /// Do file systems and rules give these errors that would let the file itself be made?
  static bool needs_place(int error) {
    return error == EACCES || error == EPERM || error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
  }
  const NewFile& file_;
  support::FileDescriptor folder_;
  std::optional<support::AtomicFile> whole_;
  int error_ = 0;
};

/// 0, or the errno. What was there is lost when this fails.
int write_into(const std::string& path, const std::string& text) {
  const NewFile new_file{path, text, 0666};
  const int made = write_new_files({&new_file, 1}, nullptr);
  if (made != EEXIST) return made;
  struct stat status{};
  const bool leads_nowhere = ::stat(path.c_str(), &status) != 0 && errno == ENOENT;
  support::FileDescriptor file(::open(path.c_str(), kWriteFlags | O_CREAT | O_TRUNC, 0666));
  return file ? fill(std::move(file), path, leads_nowhere, text) : errno;
}

/// The stream of this process that goes into this file; -1: none. Its words must not be lost with the old file.
int stream_into(const struct stat& file) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
    if (struct stat own{}; ::fstat(stream, &own) == 0 && own.st_dev == file.st_dev && own.st_ino == file.st_ino)
      return stream;
  return -1;
}

/// 0, or the errno: the file is as it was then. A link stays, and leads to the new file.
int replace(const std::string& path, mode_t mode, const std::string& text) {
  std::error_code unknown;
  const fs::path real = fs::canonical(path, unknown);
  if (unknown) return unknown.value();
  const support::FileDescriptor folder(::open(real.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return errno;
  support::AtomicFile file(folder.get(), real.filename().string(), mode);
  file.write(text);
  file.commit();
  return file.error();
}

}  // namespace

int write_new_files(std::span<const NewFile> files, std::size_t* which) {
  std::size_t unused = 0;
  std::size_t& at = which != nullptr ? *which : unused;
  std::deque<Pending> all;
  for (at = 0; at < files.size(); ++at)
    if (const int error = all.emplace_back(files[at]).error(); error != 0) return error;
  for (Pending& file : all) file.publishing();
  for (at = 0; at < files.size(); ++at) {
    const int error = all[at].commit();
    if (error == 0) continue;
    for (std::size_t made = 0; made < at; ++made) ::unlink(files[made].path.c_str());
    return error;
  }
  return 0;
}

void require_different_files(const std::vector<OutputPath>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const auto& [flag, path] = outputs[i];
      const auto& [earlier, earlier_path] = outputs[j];
      if (path.empty() || earlier_path.empty() || same_file(path, "/dev/null") || !same_file(path, earlier_path))
        continue;
      bad_use(support::cat(flag, " is '", support::shown_path(path), "', the file that ", earlier,
                           " is to write; allowed: a file of its own for each"));
    }
}

void write_output_file(const char* flag, const std::string& path, const std::string& text) {
  struct stat status{};
  const bool there = ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  // A file with other names, or another's, must stay what it is. So must a device and a pipe.
  const bool plain = there && status.st_nlink == 1 && status.st_uid == ::geteuid();
  const int stream = there ? stream_into(status) : -1;
  if (stream >= 0) std::cout.flush();
  int error = stream >= 0 ? support::write_all(stream, text)
              : plain     ? replace(path, status.st_mode & kModeBits, text)
                          : write_into(path, text);
  if (plain && (error == EACCES || error == EPERM)) error = write_into(path, text);  // the folder takes no new file
  if (error != 0)
    bad_use(
        support::cat(flag, ": cannot write '", support::shown_path(path), "': ", support::errno_text(error), "; ",
                     support::next_step(error, "give a file in a directory that exists, may be written and has room")));
}

}  // namespace tj::tools
