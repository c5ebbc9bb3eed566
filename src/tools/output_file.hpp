// Files that a tool writes because its user named them.
//
// Decides how they are written. A file of the user's own is replaced, so that it stays as it was where that fails. All
// else that has the name, be it a pipe or a device, is written into: a new file would take the place of /dev/stdout. So
// is a file that standard output goes to.
// Invariant: what could not be written whole is an error, and leaves no file that was not there before.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
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

struct NewFile {
  std::string path, text;
  mode_t mode;  ///< without the bits of the process's umask
};
/// Writes files that are not there yet, all of them or none, each of them whole at once. A process that is killed
/// between two of them leaves the first. Returns 0, or the errno and the file's place: EEXIST where something has the
/// name.
int write_new_files(std::span<const NewFile> files, std::size_t* which);

/// Throws tj::Error(argument) that names the flag, the path and the reason.
void write_output_file(const char* flag, const std::string& path, const std::string& text);

}  // namespace tj::tools
