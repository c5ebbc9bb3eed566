// A folder for files of a moment, such as a compiler's, that nobody has to clean up by hand.
//
// Decides where it lies, how its owner is known, and when it goes. It goes with its object, or at the process's normal
// end. If the process ended otherwise, the next process that makes such a folder there removes it. Invariant: only a
// folder that bears this library's mark, and whose owner is gone, is removed for others, and an empty one of its name
// after an hour.
#pragma once

#include <string>
#include <string_view>

#include "support/lock_file.hpp"

namespace tj::support {

/// A new directory, mode 0700, in TMPDIR or /tmp; removed with all its content. Throws tj::Error(compile, io).
class PrivateDirectory {
 public:
  PrivateDirectory();
  ~PrivateDirectory();
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;

  const std::string& path() const noexcept { return path_; }
  /// Writes a file below it; folders of the relative name are made. Throws tj::Error(compile, io).
  std::string write(const std::string& name, std::string_view text) const;

 private:
  std::string path_;
  LockFile owner_;  ///< locked while this lives
  unsigned generation_;
};

/// Removes the folders that ended processes have left in this folder.
void sweep_private_directories(const std::string& base);

/// For the end of this process: ends its compilers and removes its directories. Done at a normal end without being
/// called; programs that handle signals call it before they end themselves.
void abandon_compiles() noexcept;

}  // namespace tj::support
