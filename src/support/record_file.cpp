// See record_file.hpp.
#include "support/record_file.hpp"

#include <cerrno>
#include <mutex>
#include <set>
#include <utility>

#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"
#include "support/uncancelled.hpp"

namespace tj::support {
namespace {

/// The lines of this process, whichever of its runtimes came first.
struct Added {
  Mutex mutex;
  std::set<std::pair<std::string, std::string>> lines;  ///< path and line
};

Added& added() {
  static constinit Lasting<Added> all;
  return all.get();
}

int append(const std::string& path, const std::string& line) {
  constexpr mode_t kMode = 0644;
  const FileDescriptor file = open_to_append(path, kMode);
  return file ? write_all(file.get(), line + "\n") : errno;
}

}  // namespace

void RecordFile::add(const std::string& line) {
  const Uncancelled whole;
  Added& known = added();
  {
    const std::lock_guard lock(known.mutex);
    if (!known.lines.emplace(path_, line).second) return;
  }
  const int error = append(path_, line);
  if (error == 0) return;
  {
    const std::lock_guard lock(known.mutex);
    known.lines.erase({path_, line});
  }
  log_(warned_.exchange(true) ? LogLevel::debug : LogLevel::warn,
       cat("cannot add to the record '", shown_path(path_), "' (TJ_RECORD): ", errno_text(error),
           ". Calls go on, and the record lacks what they ask for; ",
           next_step(error, "name a file that can be made or appended to"), "."));
}

}  // namespace tj::support
