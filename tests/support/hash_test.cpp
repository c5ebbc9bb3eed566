// Protects cache keys: the hash is SHA-256, and no two field lists share their bytes.
#include "support/hash.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

using tj::support::Digest;
using tj::support::FieldHash;
using tj::support::sha256;
using tj::support::to_hex;

TEST_CASE("sha256 gives the published values") {
  CHECK(to_hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(to_hex(sha256(std::string(1000000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("fields cannot run together") {
  using List = std::vector<std::pair<std::string, std::string>>;
  const std::string zero(1, '\0');
  const std::vector<List> lists = {
      {},
      {{"", ""}},
      {{"", ""}, {"", ""}},
      {{"a", "bc"}},
      {{"ab", "c"}},
      {{"abc", ""}},
      {{"", "abc"}},
      {{"a", "b"}, {"c", ""}},
      {{"a", ""}, {"b", "c"}},
      {{"c", ""}, {"a", "b"}},
      {{"a", "b" + zero}},
      {{"a", "b"}, {zero, ""}},
      {{"a", zero + "b"}},
      {{"a" + zero, "b"}},
  };
  std::set<Digest> digests;
  for (const List& list : lists) {
    FieldHash hash;
    for (const auto& [name, value] : list) hash.field(name, value);
    digests.insert(hash.finish());
  }
  CHECK(digests.size() == lists.size());
}

TEST_CASE("a number is its decimal text, and finish() does not consume") {
  FieldHash number, text;
  number.field("n", std::uint64_t{18446744073709551615u});
  text.field("n", "18446744073709551615");
  CHECK(number.finish() == text.finish());
  CHECK(number.finish() == number.finish());
}
