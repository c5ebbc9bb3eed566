// Protects signatures: those of RFC 8032, keys as texts, and that one changed bit of key, text or signature is seen.
#include "support/signature.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/expect.hpp"
#include "support/hash.hpp"

namespace {

using namespace tj::support;
using tj::testing::has;

/// Of the RFC's second test: one byte, 0x72.
constexpr const char* kSeed = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb";
constexpr const char* kPublic = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
constexpr const char* kSigned =
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aee"
    "b00d291612bb0c00";

template <class Bytes>
std::string hex(const Bytes& bytes) {
  std::string out;
  for (const std::uint8_t byte : bytes) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

SecretKey rfc_key() {
  std::string problem;
  const auto key = SecretKey::parse(std::string("# of the RFC\n\ntilejit-secret-key ") + kSeed + "\n", &problem);
  REQUIRE_MESSAGE(key, problem);
  return *key;
}

TEST_CASE("a signature is that of RFC 8032, each time") {
  const SecretKey key = rfc_key();
  CHECK(hex(key.public_key()) == kPublic);
  CHECK(hex(key.sign("\x72")) == kSigned);
  CHECK(hex(key.sign("\x72")) == kSigned);
  CHECK(is_signed_by(key.public_key(), "\x72", key.sign("\x72")));
  CHECK(name_of(key.public_key()) == std::string(kPublic).substr(0, 16));
}

TEST_CASE("a bit of key, text or signature that changed is seen") {
  const SecretKey key = rfc_key();
  const std::string text = "a text";
  const Signature good = key.sign(text);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Signature bad = good;
    bad[bit / 8] = static_cast<std::uint8_t>(bad[bit / 8] ^ 1u << bit % 8);
    CHECK_FALSE(is_signed_by(key.public_key(), text, bad));
  }
  for (std::size_t bit = 0; bit < 8 * key.public_key().size(); ++bit) {
    PublicKey other = key.public_key();
    other[bit / 8] = static_cast<std::uint8_t>(other[bit / 8] ^ 1u << bit % 8);
    CHECK_FALSE(is_signed_by(other, text, good));
  }
  CHECK_FALSE(is_signed_by(key.public_key(), "a text ", good));
  CHECK_FALSE(is_signed_by(PublicKey{}, text, Signature{}));
}

TEST_CASE("keys are new each time, and are what was written down") {
  std::string problem;
  const auto one = SecretKey::make(&problem), other = SecretKey::make(&problem);
  REQUIRE(one);
  REQUIRE(other);
  CHECK(one->line() != other->line());
  const auto again = SecretKey::parse(one->line(), &problem);
  REQUIRE(again);
  CHECK(again->public_key() == one->public_key());
  const auto keys =
      parse_public_keys(line_of(one->public_key()) + "# and\r\n" + line_of(other->public_key()), &problem);
  REQUIRE_MESSAGE(keys.size() == 2, problem);
  CHECK(keys[1] == other->public_key());
}

TEST_CASE("texts that are no keys are refused by the line") {
  std::string problem;
  const std::string digits(64, 'a'), wrong(64, 'g');
  const std::string texts[] = {
      "tilejit-public-key 12",        "tilejit-public-key " + wrong,    "tilejit-public-key " + digits + "a", digits,
      "tilejit-secret-key " + digits, "\ntilejit-public-key  " + digits};
  for (const std::string& text : texts) {
    CHECK(parse_public_keys(text, &problem).empty());
    CHECK_MESSAGE(has(problem, " is no key; allowed: 'tilejit-public-key ' and 64 digits"), problem);
  }
  CHECK(parse_public_keys("# none\n", &problem).empty());
  CHECK(has(problem, "it has no line 'tilejit-public-key"));
  const std::string line = std::string("tilejit-secret-key ") + kSeed + "\n";
  CHECK_FALSE(SecretKey::parse(line + line, &problem));
  CHECK(has(problem, "it has 2 secret keys; allowed: one"));
  CHECK_FALSE(SecretKey::parse("", &problem));
}

}  // namespace
