// See private_directory.hpp.
#include "support/private_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/atomic_file.hpp"
#include "support/directory.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/file_descriptor.hpp"
#include "support/fork_safe.hpp"
#include "support/lasting.hpp"
#include "support/process.hpp"
#include "support/process_end.hpp"
#include "support/text.hpp"
#include "support/uncancelled.hpp"

namespace tj::support {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "tilejit-";
constexpr const char* kOwner = ".owner";
constexpr std::string_view kMark = "tilejit: removed when its owner, who holds a lock on this file, is gone\n";
constexpr std::size_t kRandomLetters = 6;

std::string owner_of(const std::string& directory) { return cat(directory, "/", kOwner); }

/// The mark goes last: without it, nobody would ever recognise the rest. Compilers that were just ended may still
/// write. False when it is still there.
bool remove_directory(const std::string& path) noexcept {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (folder && empty_directory(folder.get(), kOwner)) {
      ::unlinkat(folder.get(), kOwner, 0);
      if (::rmdir(path.c_str()) == 0) return true;
    }
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

/// The directories of this process.
struct Live {
  Mutex mutex;
  std::set<std::string> paths;
  std::set<std::string> swept;  ///< folders in which leftovers were looked for, once a process
  bool ended = false;           ///< nobody would remove what is made now
};
Live& live() {
  static constinit Lasting<Live> list;
  return list.get([] {
    in_forked_children([] {
      if (!live().mutex.is_whole()) return;
      live().paths.clear();  // the parent's
      live().ended = false;
    });
    return Live{};
  });
}

bool all_were_removed() {
  const std::lock_guard lock(live().mutex);
  return live().ended;
}

bool first_in(const std::string& base) {
  const std::lock_guard lock(live().mutex);
  return live().swept.insert(base).second;
}

/// Made and noted in one step as seen by the process's end.
std::string make_directory(const std::string& base) {
  std::string path = cat(base, "/", kPrefix, std::string(kRandomLetters, 'X'));
  const std::lock_guard lock(live().mutex);
  if (live().ended) fail(Stage::compile, Code::io, std::string(kProcessIsEnding));
  if (::mkdtemp(path.data()) == nullptr)
    fail(Stage::compile, Code::io,
         cat("cannot make a directory in ", shown_path(base), ": ", errno_text(errno), "; ",
             next_step(errno, "set TMPDIR to a writable directory")));
  live().paths.insert(path);
  return path;
}

/// Removes a new folder, which nobody would recognise without its mark. It takes no file descriptor.
[[noreturn]] void give_up(const std::string& directory, int error) {
  ::unlink(owner_of(directory).c_str());
  ::rmdir(directory.c_str());
  {
    const std::lock_guard lock(live().mutex);
    live().paths.erase(directory);
    if (live().ended) fail(Stage::compile, Code::io, std::string(kProcessIsEnding));
  }
  fail(Stage::compile, Code::io,
       cat("cannot write ", shown_path(owner_of(directory)), ": ", errno_text(error), "; ",
           next_step(error, "set TMPDIR to a directory with room")));
}

/// The mark is written under the lock: a process that sees it and gets the lock knows that the owner is gone. Without
/// locks there is no mark: others would take the folder for a leftover.
LockFile claim(const std::string& directory) {
  LockFile owner(AT_FDCWD, owner_of(directory).c_str(), O_CREAT | O_EXCL);
  if (!owner) give_up(directory, errno);
  if (owner.try_lock(0, 0) != 0) return {};
  if (const int error = write_all(owner.get(), kMark); error != 0) give_up(directory, error);
  return owner;
}

bool is_ours(const std::string& base, const std::string& name) {
  if (name.size() != kPrefix.size() + kRandomLetters || !name.starts_with(kPrefix)) return false;
  struct stat status{};
  return ::lstat(cat(base, "/", name).c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
}

bool has_mark(const LockFile& owner) {
  std::array<char, kMark.size()> bytes{};
  return ::pread(owner.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()) &&
         std::string_view(bytes.data(), bytes.size()) == kMark;
}

/// A process that ended before its mark was whole left nothing but an empty file. A folder that is being made looks
/// alike, and is younger.
void remove_unmarked(const std::string& path) {
  constexpr std::time_t kLongestClaim_s = 3600;
  struct stat folder{}, owner{};
  if (::lstat(path.c_str(), &folder) != 0 || ::time(nullptr) - folder.st_mtime < kLongestClaim_s) return;
  std::vector<std::string> names;
  if (list_directory(path, names) != 0 || names != std::vector<std::string>(names.size(), kOwner)) return;
  if (::lstat(owner_of(path).c_str(), &owner) == 0 && S_ISREG(owner.st_mode) && owner.st_size == 0)
    ::unlink(owner_of(path).c_str());
  ::rmdir(path.c_str());  // refused where anything is inside
}

/// Runs after the destructors of all that uses this library; threads may still be compiling. All handlers of exit()
/// have been taken by now: a second thread that calls it would end the process while folders are being removed.
__attribute__((destructor)) void at_normal_end() {
  end_first();
  abandon_compiles();
}

}  // namespace

void sweep_private_directories(const std::string& base) {
  std::vector<std::string> names;
  list_directory(base, names);  // as far as it can be read
  for (const std::string& name : names) {
    if (!is_ours(base, name)) continue;
    const std::string path = cat(base, "/", name);
    const LockFile owner(AT_FDCWD, owner_of(path).c_str(), 0);
    if (owner && owner.try_lock(0, 0) != 0) continue;  // its owner is alive
    if (owner && has_mark(owner))
      remove_directory(path);
    else
      remove_unmarked(path);
  }
}

void abandon_compiles() noexcept {
  // A second caller waits. It ends the process, and would leave what the first caller has not removed yet.
  static constinit Turn removing;
  if (locks_are_lost()) return;  // a child that has made nothing
  end_processes();
  const std::lock_guard turn(removing);
  try {
    std::set<std::string> paths;
    {
      const std::lock_guard lock(live().mutex);
      live().ended = true;
      paths.swap(live().paths);
    }
    for (const std::string& path : paths) remove_directory(path);
  } catch (...) {  // no memory: the next process removes them
  }
}

PrivateDirectory::PrivateDirectory() : generation_(process_generation()) {
  const std::string base = environment_variable("TMPDIR").value_or("/tmp");
  if (first_in(base)) sweep_private_directories(base);
  end_first("private directories");  // so that one thread alone comes to at_normal_end()
  path_ = make_directory(base);
  owner_ = claim(path_);
}

PrivateDirectory::~PrivateDirectory() {
  if (generation_ != process_generation()) return;  // the parent's
  const Uncancelled whole;
  {
    const std::lock_guard lock(live().mutex);
    if (live().paths.count(path_) == 0) return;  // removed already, at the process's end
  }
  // Nothing here needs memory of operator new, which may have run out. What cannot be removed now is removed when the
  // process ends.
  if (!remove_directory(path_)) return;
  const std::lock_guard lock(live().mutex);
  live().paths.erase(path_);  // only now: a process that ends in between removes the rest
}

namespace {

/// Makes folders below a private one, and a file there, in one step as seen by the process's end: nothing is made in a
/// folder that is being removed. That folder may lack its mark already. error: an errno, or 0.
FileDescriptor make_file(const std::string& directory, const fs::path& name, int& error) {
  const std::lock_guard lock(live().mutex);
  if (live().ended) fail(Stage::compile, Code::io, std::string(kProcessIsEnding));
  fs::path folder = directory;
  for (const fs::path& part : name.parent_path()) {
    std::error_code failed;
    fs::create_directory(folder /= part, failed);
  }
  FileDescriptor file(::open((directory / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  error = file ? 0 : errno;
  return file;
}

}  // namespace

std::string PrivateDirectory::write(const std::string& name, std::string_view text) const {
  const fs::path path = fs::path(path_) / name;
  int error = 0;
  const FileDescriptor file = make_file(path_, name, error);
  if (file) error = write_all(file.get(), text);
  if (error == 0) return path.string();
  if (all_were_removed()) fail(Stage::compile, Code::io, std::string(kProcessIsEnding));
  fail(Stage::compile, Code::io,
       cat("cannot write ", path.string(), ": ", errno_text(error), "; ",
           next_step(error, "set TMPDIR to a directory with room")));
}

}  // namespace tj::support
