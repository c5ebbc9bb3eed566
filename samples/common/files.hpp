// Result files that are whole or not there.
//
// Decides how a set of files replaces earlier ones. Does not decide names or contents. Invariant: each path has what it
// had before or all of the new text, and nothing else is left in the folder. That holds whatever fails, and whenever
// the program is interrupted.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tj::samples {

/// Throws tj::Error(argument, io) that names the folder unless files could be made there, or in the nearest folder
/// above that exists.
void check_writable(const std::string& folder);

/// Throws tj::Error(argument) where two options name one file, by whatever paths; an empty one was not given. /dev/null
/// may be named twice.
void require_different(const char* option, const std::string& path, const char* other, const std::string& other_path);

/// (name, text) each, all or none of them; the folder is made where it is not there. Throws tj::Error(argument, io).
void write_files(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace tj::samples
