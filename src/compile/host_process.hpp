// Running a compiler.
//
// Decides the environment that a compiler sees, where its output goes and how long it may take. Knows no options.
// Invariant: no descriptor of this process leaks into the child on purpose, and the compiler does not outlive this
// process.
#pragma once

#include <string>
#include <vector>

#include "support/private_directory.hpp"
#include "support/process.hpp"

namespace tj::compile {

struct ProcessResult {
  int status = support::kUnknownStatus;  ///< as wait_for_process() gives it
  std::string output;                    ///< standard output and error together; of a long one, start and end

  /// For all that is known: the object has to be there, too.
  bool ended_well() const { return status == 0 || status == support::kUnknownStatus; }
  /// "was ended by signal 9", else these words.
  std::string how(const std::string& otherwise) const;
};

/// Runs argv[0] (a path) in `directory`'s environment: PATH, TMPDIR and little else, so that equal jobs give equal
/// results. After limit_s seconds (0: never) it is ended, with all that it has started. `first_on_path`: a folder that
/// goes before those of PATH. Throws tj::Error(compile, io) when it cannot be started, or this process is ending, and
/// tj::Error(compile, compile_failed) when its time is over.
ProcessResult run_process(const std::vector<std::string>& argv, const support::PrivateDirectory& directory,
                          double limit_s = 0, const std::string& first_on_path = {});

/// The whole of a regular file of at most 256 MiB, or false.
bool read_file(const std::string& path, std::string& bytes);

}  // namespace tj::compile
