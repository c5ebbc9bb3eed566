// The bytes of a pack: many entries in one file (README.md).
//
// Decides what a pack's end and index look like, and what is believed of them. Touches no file. Invariants: reading
// never goes past the end; what is accepted is what writing makes, byte for byte, so that equal contents are equal
// packs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache.hpp"
#include "support/hash.hpp"
#include "support/signature.hpp"

namespace tj::cache {

/// Raised whenever the bytes of a pack change. Those of its entries have a version of their own.
inline constexpr std::uint32_t kPackVersion = 1;
inline constexpr std::string_view kPackMagic = "TJPACKED";
inline constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{64} << 20;

/// An entry of a pack: its bytes are those of its file in a directory.
struct PackRecord {
  Key key;
  std::uint64_t offset = 0, bytes = 0;
  support::Digest sha256{};
};

/// The end of a pack. `digest` is that of the index and of the numbers before it.
struct PackEnd {
  std::uint64_t count = 0, index_bytes = 0, total = 0;
  support::Digest digest{};
  support::PublicKey key{};  ///< zeros, as the signature, where there is none
  support::Signature signature{};

  bool is_signed() const { return key != support::PublicKey{}; }
  std::uint64_t index_offset() const;
};
inline constexpr std::size_t kPackEndBytes = 4 + 3 * 8 + 32 + 32 + 64 + 8;

/// records: in the order of their file names, one behind the other from kPackMagic's end on.
std::string encode_index(const std::vector<PackRecord>& records);
/// The end of a pack with this index; secret: null leaves it unsigned.
std::string encode_end(std::uint64_t count, std::string_view index, std::uint64_t index_offset,
                       const support::SecretKey* secret);

/// last: the file's last kPackEndBytes. Empty, and why, when they end no pack of this version, of a file of that many
/// bytes.
std::optional<PackEnd> read_end(std::string_view last, std::uint64_t file_bytes, std::string* problem);
/// Empty, and why, when the index is not the one of this end.
std::optional<std::vector<PackRecord>> read_index(std::string_view index, const PackEnd& end, std::string* problem);
/// Is its signature another one than its key's, or there without a key?
bool has_wrong_signature(const PackEnd& end);

}  // namespace tj::cache
