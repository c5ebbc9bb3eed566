// Files that a tool reads because its user named them.
//
// Decides how long a pipe is waited for, and what is said meanwhile. Does not decide what a file has to say. Invariant:
// a wait is never silent.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

namespace tj::tools {

struct InputFile {
  const char* tool;  ///< who says that it waits: "tj-warm"
  const char* flag;  ///< that named the path
  std::string path;
  const char* expected;  ///< the next step where it cannot be read: "give a JSON file"
};

/// The bytes of the file, of at most so many and one more. A pipe, such as /dev/stdin or <(command), is read until its
/// writers close it; `err` is told after a second, and again from time to time, that nobody writes. Throws
/// tj::Error(argument) that names the flag, the path and the reason.
std::string read_input_file(const InputFile& file, std::size_t most_bytes, std::ostream& err);

}  // namespace tj::tools
