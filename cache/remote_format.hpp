// The bytes of a remote store's value: an entry and who vouches for it (README.md).
//
// Decides what a value looks like, and what is believed of one. Asks no store. Invariants: reading never goes past the
// end; a value that was signed for one name holds for no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/signature.hpp"

namespace tj::cache {

/// Raised whenever the bytes around the entry change.
inline constexpr std::uint32_t kRemoteVersion = 1;
inline constexpr std::string_view kRemoteMagic = "TJREMOTE";
inline constexpr std::size_t kRemoteHeaderBytes = 8 + 4 + 8 + 32 + 64;

/// secret: null leaves it unsigned.
std::string encode_remote(std::string_view name, std::string_view entry, const support::SecretKey* secret);
/// The bytes of the entry, which are not looked at. Empty, and why, where the value is not whole, or its signature is
/// not right. keys: null takes a value without a signature; else one of them must have signed it.
std::optional<std::string_view> read_remote(std::string_view name, std::string_view value,
                                            const std::vector<support::PublicKey>* keys, std::string* problem);

}  // namespace tj::cache
