// SHA-256 and the field framing.
//
// Decides the byte form that is hashed. Invariant: two different field lists never have the same bytes.
// The block functions are used, though they are deprecated. The one-shot SHA256() and EVP of OpenSSL 3 fetch a
// provider, which reads the machine's OpenSSL configuration and links a few megabytes more.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "support/hash.hpp"

#include <openssl/sha.h>

namespace tj::support {
namespace {

void append_size(std::string& out, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>((value >> shift) & 0xff));
}

}  // namespace

Digest sha256(std::string_view bytes) {
  Digest digest{};
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, bytes.data(), bytes.size());
  SHA256_Final(digest.data(), &context);
  return digest;
}

std::string to_hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (const std::uint8_t byte : digest) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

FieldHash& FieldHash::field(std::string_view name, std::string_view value) {
  append_size(buffer_, name.size());
  buffer_.append(name);
  append_size(buffer_, value.size());
  buffer_.append(value);
  return *this;
}

FieldHash& FieldHash::field(std::string_view name, std::uint64_t value) {
  return field(name, std::string_view(std::to_string(value)));
}

Digest FieldHash::finish() const { return sha256(buffer_); }

}  // namespace tj::support
