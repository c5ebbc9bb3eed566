// Protects the promise that an entry is used exactly as it was written or not at all.
#include <doctest/doctest.h>

#include "support/hash.hpp"
#include "tests/cache/cache_fixture.hpp"

using tj::cache::decode;
using tj::cache::encode;
using tj::cache::Entry;
using tj::cache::Key;
using tj::testing::entry_of;
using tj::testing::key_of;

namespace {

std::string problem_of(std::string_view bytes, const Key* expected = nullptr) {
  std::string problem;
  const auto entry = decode(bytes, expected, &problem);
  CHECK(entry.has_value() == problem.empty());
  return problem;
}

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

/// A frame whose length and checksum are right around any body.
std::string framed(const std::string& body, std::uint32_t version = tj::cache::kFormatVersion) {
  std::string bytes = std::string(tj::cache::kMagic) + little(version, 4) + little(20 + body.size() + 32, 8) + body;
  const auto digest = tj::support::sha256(bytes);
  return bytes.append(digest.begin(), digest.end());
}

}  // namespace

TEST_CASE("what goes in comes out: any bytes, empty parts, repeated names, megabytes") {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  for (const std::string& payload : {std::string(), all, std::string(3 << 20, 'x')}) {
    Entry entry = entry_of(payload);
    entry.metadata.emplace_back(all, all);
    entry.metadata.emplace_back("name", "again");
    const Key key = key_of("a");
    const auto back = decode(encode(key, entry), &key, nullptr);
    REQUIRE(back.has_value());
    CHECK(back->metadata == entry.metadata);
    CHECK(back->payload == entry.payload);
    CHECK(*back->find("name") == "fmha_f16_d128");
    CHECK(back->find("missing") == nullptr);
  }
}

TEST_CASE("every changed byte is noticed") {
  const Key key = key_of("a");
  const std::string good = encode(key, entry_of("payload"));
  REQUIRE(problem_of(good, &key).empty());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      CAPTURE(i);
      CHECK_FALSE(problem_of(bad, &key).empty());
    }
  }
}

TEST_CASE("every shorter file and every longer one is noticed") {
  const std::string good = encode(key_of("a"), entry_of("payload"));
  for (std::size_t size = 0; size < good.size(); ++size) CHECK_FALSE(problem_of(good.substr(0, size)).empty());
  CHECK(problem_of(good + '\0').find("bytes where") != std::string::npos);
  CHECK(problem_of(good + good).find("bytes where") != std::string::npos);
  CHECK(problem_of(std::string(good.size(), '\0')) == "not a tilejit kernel entry");
}

TEST_CASE("another version and another key are named") {
  const Key key = key_of("a");
  CHECK(problem_of(framed("", 2)) == "format version 2; this library reads version 1");
  const std::string bytes = encode(key, entry_of("payload"));
  for (const Key& other : {key_of("b"), key_of("a", "other compiler"), key_of("b", "")}) {
    CHECK(problem_of(bytes, &other).find("made for another key") == 0);
  }
  const Key any{key.request_hex, ""};
  CHECK(problem_of(bytes, &any).empty());
}

TEST_CASE("a right checksum around a malformed body reads nothing out of bounds") {
  const std::string key = little(1, 4) + "a" + little(1, 4) + "b";
  const std::string huge32 = little(0xffffffff, 4), huge64 = little(~0ull, 8);
  CHECK(problem_of(framed(key + little(0, 4) + little(2, 8) + "xy")).empty());
  for (const std::string& body :
       {std::string(), huge32, little(1, 4), key, key + huge32, key + little(1, 4), key + little(1, 4) + huge32,
        key + little(0, 4) + huge64, key + little(0, 4) + little(3, 8) + "xy", key + little(0, 4) + little(1, 8) + "xy",
        key + little(1, 4) + little(1, 4) + "n" + huge32 + "v"}) {
    CHECK(problem_of(framed(body)) == "malformed fields under a right checksum");
  }
}

TEST_CASE("the bytes of this format version stay what they are: raise kFormatVersion when this changes") {
  const std::string bytes = encode(Key{"12", "ab"}, Entry{{{"n", "v"}}, "PAY"});
  const std::string body = little(2, 4) + "12" + little(2, 4) + "ab" + little(1, 4) + little(1, 4) + "n" +
                           little(1, 4) + "v" + little(3, 8) + "PAY";
  CHECK(bytes == framed(body, 1));
}

TEST_CASE("bytes that another checksum covers are taken without their own, and for their key alone") {
  std::string bytes = encode(key_of("one"), entry_of("payload"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  const tj::cache::Key one = key_of("one"), two = key_of("two");
  std::string problem;
  tj::cache::Rejection why{};
  CHECK_FALSE(decode(bytes, &one, &problem));
  CHECK(problem == "checksum does not match");
  const auto known = tj::cache::decode_known(bytes, &one, &problem, &why);
  REQUIRE_MESSAGE(known, problem);
  CHECK(known->payload == "payload");
  CHECK_FALSE(tj::cache::decode_known(bytes, &two, &problem, &why));
  CHECK_FALSE(tj::cache::decode_known(bytes.substr(1), &one, &problem, &why));
}
