// See record_file.hpp.
#include "support/record_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <map>
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
  std::map<std::string, int> torn;  ///< by path whose last line may lack its end: how often a line was torn
};

Added& added() {
  static constinit Lasting<Added> all;
  return all.get();
}

/// 0 or an errno. torn: a part of a line may stand at the end. tears: this line has become such a part.
int append(const std::string& path, const std::string& line, bool torn, bool& tears) {
  constexpr mode_t kMode = 0644;
  const FileDescriptor file = open_to_append(path, kMode);
  if (!file) return errno;
  const int error = write_all(file.get(), cat(torn ? "\n" : "", line, "\n"));
  tears = error != 0 && ::lseek(file.get(), 0, SEEK_CUR) != 0;  // behind what this descriptor has written
  return error;
}

}  // namespace

void RecordFile::add(const std::string& line) {
  const Uncancelled whole;
  Added& known = added();
  int torn = 0;
  {
    const std::lock_guard lock(known.mutex);
    if (!known.lines.emplace(path_, line).second) return;
    const auto found = known.torn.find(path_);
    if (found != known.torn.end()) torn = found->second;
  }
  bool tears = false;
  const int error = append(path_, line, torn != 0, tears);
  if (error != 0 || torn != 0) {
    const std::lock_guard lock(known.mutex);
    if (error != 0) known.lines.erase({path_, line});
    // Others that wrote meanwhile began a line, too. One that was torn meanwhile stays marked.
    const auto found = known.torn.find(path_);
    if (tears)
      ++known.torn[path_];
    else if (error == 0 && found != known.torn.end() && found->second == torn)
      known.torn.erase(found);
  }
  if (error == 0) return;
  log_(warned_.exchange(true) ? LogLevel::debug : LogLevel::warn,
       cat("cannot add to the record '", shown_path(path_), "' (TJ_RECORD): ", errno_text(error),
           ". Calls go on, and the record lacks what they ask for; ",
           next_step(error, "name a file that can be made or appended to"), "."));
}

}  // namespace tj::support
