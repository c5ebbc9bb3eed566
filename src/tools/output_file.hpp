// Files that a tool writes because its user named them.
//
// Decides how they are written: into what already has that name, be it a file, a link, a pipe or a device. Publishing a
// new file under the name would put it in the place of /dev/stdout. Invariant: what could not be written whole is an
// error.
#pragma once

#include <string>

namespace tj::tools {

/// Throws tj::Error(argument) that names the flag, the path and the reason.
void write_output_file(const char* flag, const std::string& path, const std::string& text);

}  // namespace tj::tools
