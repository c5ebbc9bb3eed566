// The promise of the reader of entries for any bytes: nothing, and why, or what encode() makes again of it.
//
// Bytes are read as they are, and once more with the length and the checksum that they should have: the parser behind
// the checksum must not rely on it.
#include <cstdlib>
#include <string>
#include <string_view>

#include "cache/bytes.hpp"
#include "cache/cache.hpp"
#include "cache/format.hpp"
#include "support/fuzz.hpp"
#include "support/hash.hpp"

namespace {

void read(std::string_view bytes) {
  std::string problem;
  const auto entry = tj::cache::decode(bytes, nullptr, &problem);
  if (entry.has_value() != problem.empty()) std::abort();
  if (!entry) return;
  tj::cache::Reader key(bytes.substr(tj::cache::kHeaderBytes));
  const std::string request = key.text(), compiler = key.text();
  if (tj::cache::encode({request, compiler}, *entry) != bytes) std::abort();
}

}  // namespace

TJ_FUZZ_TARGET(tj::testing::fuzz_entry)(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  std::string framed(tj::cache::kMagic);
  tj::cache::put(framed, tj::cache::kFormatVersion, 4);
  tj::cache::put(framed, tj::cache::kHeaderBytes + size + sizeof(tj::support::Digest), 8);
  framed += bytes;
  const tj::support::Digest digest = tj::support::sha256(framed);
  framed.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  read(framed);
  return 0;
}
