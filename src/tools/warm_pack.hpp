// Packs: made of the cache, written into it, and the keys that sign them.
//
// Decides what is printed, and where secret keys lie: in files that their owner alone can read. Does not decide what a
// pack is (cache).
#pragma once

#include <iosfwd>
#include <string>

#include "support/environment.hpp"

namespace tj::tools {

/// --pack: writes a pack of the whole cache; sign: a file with a secret key, or empty. Each returns an exit code.
int pack_cache(const std::string& path, const std::string& sign, const support::Settings& settings, bool json,
               std::ostream& out, std::ostream& err);
/// --unpack: writes what the cache lacks.
int unpack_cache(const std::string& path, const support::Settings& settings, bool json, std::ostream& out,
                 std::ostream& err);
/// --make-key: writes a secret key, and the public one beside it under the name with ".pub". A file that is there
/// stays.
int make_key(const std::string& path, std::ostream& out);

}  // namespace tj::tools
