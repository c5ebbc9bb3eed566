// tj-warm: fills the disk cache ahead of time, lists and checks it.
//
// Decides the command line, the order of work and what is printed. Does not decide how a kernel is made (runtime) or
// kept (cache). Invariant: with --json nothing but one JSON document goes to `out`.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cache/cache.hpp"
#include "tools/options.hpp"

namespace tj::tools {

/// All of tj-warm but the process. words: without the program's name. terminal: `out` may be rewritten with \r.
/// Returns an exit code; throws nothing.
int warm(const std::vector<std::string>& words, std::ostream& out, std::ostream& err, bool terminal);

/// The table behind --list (every entry) and --verify (damaged ones only), or its JSON. Returns an exit code:
/// kExitFailures when an entry is damaged.
int list_cache(const std::string& directory, const std::vector<cache::ListedEntry>& entries, bool damaged_only, bool json, std::ostream& out);

}  // namespace tj::tools
