// Keys from fields.
//
// Decides what is hashed besides the caller's fields: the entry format's version, and which of the hashes it is. So a
// new format never meets an old entry. A request, a text and a compiler never have equal hashes.
#include "cache/cache.hpp"
#include "cache/format.hpp"
#include "support/hash.hpp"

namespace tj::cache {
namespace {

std::string hash_fields(std::string_view kind, const Fields& fields) {
  support::FieldHash hash;
  hash.field("tilejit", kind).field("format", kFormatVersion).field("fields", fields.size());
  for (const auto& [name, value] : fields) hash.field(name, value);
  return support::to_hex(hash.finish());
}

Key key_of_kind(std::string_view kind, const Fields& fields, const Fields& compiler) {
  return Key{hash_fields(kind, fields), compiler.empty() ? std::string() : hash_fields("compiler", compiler)};
}

}  // namespace

Key make_key(const Fields& request, const Fields& compiler) { return key_of_kind("request", request, compiler); }
Key make_text_key(const Fields& text, const Fields& compiler) { return key_of_kind("text", text, compiler); }

}  // namespace tj::cache
