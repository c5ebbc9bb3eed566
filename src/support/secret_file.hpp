// Secret keys in files.
//
// Decides which file may hold one: a file that nobody but its owner can read or write. The line itself is
// signature.hpp's.
#pragma once

#include <optional>
#include <string>

#include "support/signature.hpp"

namespace tj::support {

/// Empty, and why with what to do next, for a file that cannot be read, that others can, or that has no such key.
std::optional<SecretKey> read_secret_key(const std::string& path, std::string* problem);

}  // namespace tj::support
