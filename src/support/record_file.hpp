// A text file to which lines are added, each once in a process.
//
// Decides how a line comes into the file: by one write at its end, so that threads and processes may share it. Does not
// decide what a line says. Invariant: nothing here fails a call; what cannot be written is told once, as a warning.
#pragma once

#include <atomic>
#include <string>

#include "support/log.hpp"

namespace tj::support {

class RecordFile {
 public:
  /// path: absolute; empty: nothing is recorded. The file is made with the first line. log outlives this.
  RecordFile(std::string path, const Log& log) : path_(std::move(path)), log_(log) {}
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  bool wanted() const noexcept { return !path_.empty(); }
  /// Adds the line, which has no end of line in it, unless this process has added it to the same path. One that could
  /// not be written is tried again when it comes again. Any thread may call it.
  void add(const std::string& line);

 private:
  const std::string path_;
  const Log& log_;
  std::atomic<bool> warned_{false};
};

}  // namespace tj::support
