// See signature.hpp. The calls that are used need neither sodium_init() nor a source of random numbers.
#include "support/signature.hpp"

#include <sodium/crypto_sign_ed25519.h>
#include <sodium/utils.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::support {
namespace {

constexpr std::string_view kPublic = "tilejit-public-key ", kSecret = "tilejit-secret-key ";

using Key = std::array<std::uint8_t, 32>;
static_assert(crypto_sign_ed25519_PUBLICKEYBYTES == std::tuple_size_v<PublicKey> &&
              crypto_sign_ed25519_BYTES == std::tuple_size_v<Signature> &&
              crypto_sign_ed25519_SEEDBYTES == std::tuple_size_v<Key>);

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

std::string hex_of(const std::uint8_t* bytes, std::size_t count) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string hex;
  for (std::size_t i = 0; i < count; ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 15];
  }
  return hex;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool read_key(std::string_view hex, Key& key) {
  if (hex.size() != 2 * key.size()) return false;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    key[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

/// The keys of a text whose lines begin so.
std::vector<Key> read_keys(std::string_view text, std::string_view begin, std::string* problem) {
  std::vector<Key> keys;
  problem->clear();
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    Key key;
    if (!line.starts_with(begin) || !read_key(line.substr(begin.size()), key)) {
      *problem = cat("line ", number, " is no key; allowed: '", begin, "' and 64 digits of 0-9 and a-f");
      return {};
    }
    keys.push_back(key);
  }
  if (keys.empty()) *problem = cat("it has no line '", begin, "...'");
  return keys;
}

struct Pair {
  PublicKey public_key;
  std::array<unsigned char, crypto_sign_ed25519_SECRETKEYBYTES> secret;
  explicit Pair(const Key& seed) { crypto_sign_ed25519_seed_keypair(public_key.data(), secret.data(), seed.data()); }
  ~Pair() { sodium_memzero(secret.data(), secret.size()); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
};

}  // namespace

std::optional<SecretKey> SecretKey::make(std::string* problem) {
  Key seed;
  ssize_t count = 0;
  do count = ::getrandom(seed.data(), seed.size(), 0);
  while (count < 0 && errno == EINTR);
  if (count == static_cast<ssize_t>(seed.size())) return SecretKey(seed);
  *problem = cat("the system gives no random numbers: ", errno_text(count < 0 ? errno : EIO));
  return std::nullopt;
}

std::optional<SecretKey> SecretKey::parse(std::string_view text, std::string* problem) {
  const std::vector<Key> keys = read_keys(text, kSecret, problem);
  if (keys.size() == 1) return SecretKey(keys.front());
  if (problem->empty()) *problem = cat("it has ", keys.size(), " secret keys; allowed: one");
  return std::nullopt;
}

SecretKey::~SecretKey() { sodium_memzero(seed_.data(), seed_.size()); }

PublicKey SecretKey::public_key() const { return Pair(seed_).public_key; }

Signature SecretKey::sign(std::string_view text) const {
  const Pair pair(seed_);
  Signature signature;
  crypto_sign_ed25519_detached(signature.data(), nullptr, bytes_of(text), text.size(), pair.secret.data());
  return signature;
}

std::string SecretKey::line() const { return cat(kSecret, hex_of(seed_.data(), seed_.size()), "\n"); }

bool is_signed_by(const PublicKey& key, std::string_view text, const Signature& signature) {
  return crypto_sign_ed25519_verify_detached(signature.data(), bytes_of(text), text.size(), key.data()) == 0;
}

std::vector<PublicKey> parse_public_keys(std::string_view text, std::string* problem) {
  return read_keys(text, kPublic, problem);
}

std::string line_of(const PublicKey& key) { return cat(kPublic, hex_of(key.data(), key.size()), "\n"); }

std::string name_of(const PublicKey& key) { return hex_of(key.data(), 8); }

}  // namespace tj::support
