// Signatures of files: Ed25519 keys as lines of text, signing, and checking.
//
// Decides how a key is written down: "tilejit-public-key" or "tilejit-secret-key", a space, and 64 hexadecimal digits.
// Does not decide what is signed, nor who is trusted. The only file that knows libsodium is signature.cpp. Invariant:
// equal texts have equal signatures by one key.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tj::support {

using PublicKey = std::array<std::uint8_t, 32>;
using Signature = std::array<std::uint8_t, 64>;

/// A secret key; wiped from memory with its last copy's end.
class SecretKey {
 public:
  /// A new one. Empty, with the system's reason, where it gives no random numbers.
  static std::optional<SecretKey> make(std::string* problem);
  /// The key of a file's text, where lines that are empty or begin with '#' say nothing. Empty, and what is wrong.
  static std::optional<SecretKey> parse(std::string_view text, std::string* problem);
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();

  PublicKey public_key() const;
  Signature sign(std::string_view text) const;
  std::string line() const;  ///< with its end of line

 private:
  explicit SecretKey(const std::array<std::uint8_t, 32>& seed) : seed_(seed) {}
  std::array<std::uint8_t, 32> seed_;
};

bool is_signed_by(const PublicKey& key, std::string_view text, const Signature& signature);
/// The keys of a file's text, one a line. Empty, and what is wrong, for a line of another form and a file without keys.
std::vector<PublicKey> parse_public_keys(std::string_view text, std::string* problem);
std::string line_of(const PublicKey& key);  ///< with its end of line
/// The key's first 16 hexadecimal digits, for messages.
std::string name_of(const PublicKey& key);

}  // namespace tj::support
