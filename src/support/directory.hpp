// Folders read and emptied by the system's own calls.
//
// Decides nothing about what is in them. The iterators of std::filesystem, and what it builds upon them, end the
// process when memory runs out. Invariant: here that is std::bad_alloc, or a value.
#pragma once

#include <string>
#include <vector>

namespace tj::support {

/// Appends the names in an open folder, without "." and "..". Returns 0, or the errno for which some are missing.
int list_directory(int directory, std::vector<std::string>& names);
/// The same of a folder that is opened for it.
int list_directory(const std::string& path, std::vector<std::string>& names);

/// Removes all that is in an open folder, and below it, but for one name in it. Links are not followed. False when
/// something is left besides. Needs no memory of operator new.
bool empty_directory(int directory, const char* kept = nullptr) noexcept;

}  // namespace tj::support
