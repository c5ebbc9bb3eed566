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
  std::set<std::string> torn;                           ///< paths of which the last line may lack its end
};

Added& added() {
  static constinit Lasting<Added> all;
  return all.get();
}

/// 0 or an errno. `torn`: whether a part of a line stands at the end, before and afterwards.
int append(const std::string& path, const std::string& line, bool& torn) {
  constexpr mode_t kMode = 0644;
  const FileDescriptor file = open_to_append(path, kMode);
  if (!file) return errno;
  const int error = write_all(file.get(), cat(torn ? "\n" : "", line, "\n"));
  torn = error != 0;
  return error;
}

}  // namespace

void RecordFile::add(const std::string& line) {
  const Uncancelled whole;
  Added& known = added();
  bool torn = false;
  {
    const std::lock_guard lock(known.mutex);
    if (!known.lines.emplace(path_, line).second) return;
    torn = known.torn.erase(path_) != 0;
  }
  const int error = append(path_, line, torn);
  if (error == 0) return;
  {
    const std::lock_guard lock(known.mutex);
    known.lines.erase({path_, line});
    if (torn) known.torn.insert(path_);
  }
  log_(warned_.exchange(true) ? LogLevel::debug : LogLevel::warn,
       cat("cannot add to the record '", shown_path(path_), "' (TJ_RECORD): ", errno_text(error),
           ". Calls go on, and the record lacks what they ask for; ",
           next_step(error, "name a file that can be made or appended to"), "."));
}

}  // namespace tj::support
