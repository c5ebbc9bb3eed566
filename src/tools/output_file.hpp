// Files that a tool writes because its user named them.
//
// Decides how they are written. A file of the user's own is replaced, so that it stays as it was where that fails. All
// else that has the name, be it a pipe or a device, is written into: a new file would take the place of /dev/stdout.
// Invariant: what could not be written whole is an error.
#pragma once

#include <string>
#include <vector>

namespace tj::tools {

struct OutputPath {
  const char* flag;
  std::string path;  ///< empty: the flag was not given
};
/// Throws tj::Error(argument) where two flags name one file, by whatever path: the later text would replace the earlier
/// one. /dev/null keeps nothing, and may be named again.
void require_different_files(const std::vector<OutputPath>& outputs);

/// Throws tj::Error(argument) that names the flag, the path and the reason.
void write_output_file(const char* flag, const std::string& path, const std::string& text);

}  // namespace tj::tools
