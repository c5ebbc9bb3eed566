// Files that a tool writes because its user named them.
//
// Decides how they are written. A file of the user's own is replaced, so that it stays as it was where that fails. All
// else that has the name, be it a pipe or a device, is written into: a new file would take the place of /dev/stdout.
// Invariant: what could not be written whole is an error, and leaves no file that was not there before.
#pragma once

#include <sys/types.h>

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

/// Writes a file that is not there yet. 0, or the errno, EEXIST where something has the name; then nothing was changed.
int write_new_file(const std::string& path, const std::string& text, mode_t mode);

/// Throws tj::Error(argument) that names the flag, the path and the reason.
void write_output_file(const char* flag, const std::string& path, const std::string& text);

}  // namespace tj::tools
