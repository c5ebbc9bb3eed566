// Running a compiler, and a private directory for its files.
//
// Decides the environment that a compiler sees and where its output goes. Knows no options.
// Invariant: the directory disappears with its owner; no descriptor of this process leaks into the child on purpose.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/process.hpp"

namespace tj::compile {

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
};

struct ProcessResult {
  int status = support::kUnknownStatus;  ///< as wait_for_process() gives it
  std::string output;  ///< standard output and error together

  /// For all that is known: the object has to be there, too.
  bool ended_well() const { return status == 0 || status == support::kUnknownStatus; }
  /// "was ended by signal 9", else these words.
  std::string how(const std::string& otherwise) const;
};

/// Runs argv[0] (a path) in `directory`'s environment: PATH, TMPDIR and little else, so that equal jobs give equal
/// results. `first_on_path`: a folder that goes before those of PATH. Throws tj::Error(compile, io) when it cannot be started.
ProcessResult run_process(const std::vector<std::string>& argv, const PrivateDirectory& directory, const std::string& first_on_path = {});

/// The whole file, or false.
bool read_file(const std::string& path, std::string& bytes);

}  // namespace tj::compile
