// The promise of the reader of aliases for any fields: nothing, or 64 letters and digits, which are written the same
// again.
//
// The bytes are lines "name=value"; entry_fuzz has the bytes around them.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cache/cache.hpp"
#include "cache/format.hpp"
#include "support/fields_text.hpp"
#include "support/fuzz.hpp"

TJ_FUZZ_TARGET(tj::testing::fuzz_alias)(const std::uint8_t* data, std::size_t size) {
  tj::cache::Entry entry;
  entry.metadata = tj::testing::fields_of_text({reinterpret_cast<const char*>(data), size});
  const std::string named = tj::cache::aliased(entry);
  if (named.empty()) return 0;
  // Letters and digits: no name of a file leads out of the directory.
  if (named.size() != 64 || !tj::cache::is_well_formed({named, ""}) ||
      tj::cache::aliased(tj::cache::alias_entry(named, {})) != named)
    std::abort();
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (!std::all_of(named.begin(), named.end(), plain)) std::abort();
  entry.payload = "a kernel is no alias";
  if (!tj::cache::aliased(entry).empty()) std::abort();
  return 0;
}
