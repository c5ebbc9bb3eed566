// Constants of the entry format (README.md) and the names of entry files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cache/cache.hpp"

namespace tj::cache {

/// Raised whenever the bytes of an entry or the making of a key change; part of both.
inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::string_view kMagic = "TJKERNEL";
inline constexpr std::string_view kSuffix = ".tjk";
/// Longest half of a key, in characters; keeps file names below the 143 of encrypting file systems.
inline constexpr std::size_t kMaxHexLength = 64;

/// Magic, version, and how many bytes there are in all.
inline constexpr std::size_t kHeaderBytes = 8 + 4 + 8;

/// Why a file of that many bytes that begins so is none of ours; empty where magic, version and length are right. Needs
/// the first kHeaderBytes, so that a forged file is refused before it is read.
std::string header_problem(std::string_view first, std::uint64_t file_bytes, Rejection* why);

/// The same of bytes that a pack's index has verified: their own checksum is not looked at.
std::optional<Entry> decode_known(std::string_view bytes, const Key* expected, std::string* problem, Rejection* why);

/// "<request_hex>-<compiler_hex>.tjk".
std::string file_name(const Key& key);
/// The key that a file name stands for; false for anything that is not the name of an entry.
bool parse_file_name(std::string_view name, Key* key);
/// Letters and digits only, so that no key can name a file elsewhere; the compiler's half may be empty.
bool is_well_formed(const Key& key);

}  // namespace tj::cache
