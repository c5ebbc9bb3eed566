// The promise of the reader of a remote store's values for any bytes: nothing, and why, or an entry's bytes that are
// written the same again.
//
// No bytes are taken where a key is wanted: nobody can have signed them.
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "cache/remote_format.hpp"
#include "support/fuzz.hpp"

TJ_FUZZ_TARGET(tj::testing::fuzz_remote)(const std::uint8_t* data, std::size_t size) {
  using namespace tj::cache;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string problem;
  const auto entry = read_remote("name", bytes, nullptr, &problem);
  if (entry.has_value() != problem.empty()) std::abort();
  const bool is_signed = entry && bytes.substr(20, 32) != std::string(32, '\0');  // nobody here can sign it again
  if (entry &&
      (is_signed ? bytes.substr(kRemoteHeaderBytes) != *entry : encode_remote("name", *entry, nullptr) != bytes))
    std::abort();
  const std::vector<tj::support::PublicKey> keys(1);
  problem.clear();
  if (read_remote("name", bytes, &keys, &problem) || problem.empty()) std::abort();
  return 0;
}
