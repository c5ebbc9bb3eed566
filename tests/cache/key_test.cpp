// Protects keys: every field counts, the two halves are independent, and they make safe file names.
#include <doctest/doctest.h>

#include <set>

#include "tests/cache/cache_fixture.hpp"

using tj::cache::Fields;
using tj::cache::Key;
using tj::cache::make_key;

TEST_CASE("each change of a request gives another key, and leaves the compiler's half alone") {
  const Fields compiler = {{"path", "/usr/lib/libnvrtc.so"}, {"size", "1"}};
  const std::vector<Fields> requests = {
      {},
      {{"op", "fmha"}},
      {{"op", "fmhb"}},
      {{"op", "fmha"}, {"dtype", "f16"}},
      {{"op", "fmha"}, {"dtype", "bf16"}},
      {{"dtype", "f16"}, {"op", "fmha"}},
      {{"op", "fmha"}, {"dtype", "f1"}, {"6", ""}},
      {{"op", "fmhadtype"}, {"", "f16"}},
  };
  std::set<std::string> seen;
  for (const Fields& request : requests) {
    const Key key = make_key(request, compiler);
    CHECK(key.compiler_hex == make_key({}, compiler).compiler_hex);
    seen.insert(key.request_hex);
  }
  CHECK(seen.size() == requests.size());
}

TEST_CASE("no compiler is an empty half, and a request is never a compiler") {
  CHECK(make_key({{"a", "b"}}, {}).compiler_hex.empty());
  const Key key = make_key({{"a", "b"}}, {{"a", "b"}});
  CHECK(key.request_hex != key.compiler_hex);
  CHECK(key.request_hex.size() == 64);
}

TEST_CASE(
    "a text is never a request nor a compiler, each change of it gives another key, and an alias is none of them") {
  const Fields fields = {{"a", "b"}};
  const Key text = tj::cache::make_text_key(fields, fields), request = make_key(fields, fields);
  CHECK(std::set<std::string>{text.request_hex, text.compiler_hex, request.request_hex}.size() == 3);
  CHECK(text.compiler_hex == request.compiler_hex);
  CHECK(tj::cache::make_text_key({{"a", "c"}}, fields).request_hex != text.request_hex);
  CHECK(tj::cache::make_text_key(fields, {}).compiler_hex.empty());
  const Key alias = tj::cache::alias_key(request.request_hex);
  CHECK(tj::cache::is_alias(alias));
  CHECK_FALSE(tj::cache::is_alias(text));
  CHECK(tj::cache::is_well_formed(alias));
  CHECK(tj::cache::file_name(alias) == request.request_hex + "-alias.tjk");
}

TEST_CASE("keys of this format version stay what they are: raise kFormatVersion when this changes") {
  const Key key = make_key({{"op", "fmha"}, {"head_dim", "128"}}, {{"kind", "nvrtc"}});
  CHECK(tj::cache::kFormatVersion == 1);
  CHECK(key.request_hex == "6b86ced7fd56fd6af0556e3dc8e022a1ada29cfea7b310c843f043780bdae758");
  CHECK(key.compiler_hex == "7160eaa0c584a599b3132dbf41bcf15ef0e9dc612c05c81ba4f177e4049b7fd7");
}

TEST_CASE("file names go there and back, and nothing else passes for one") {
  for (const Key& key : {tj::testing::key_of("x"), tj::testing::key_of("x", ""), Key{"12ab", "ff"}}) {
    Key back;
    REQUIRE(tj::cache::parse_file_name(tj::cache::file_name(key), &back));
    CHECK(back.request_hex == key.request_hex);
    CHECK(back.compiler_hex == key.compiler_hex);
    CHECK(tj::cache::file_name(key).size() <= 143);
  }
  Key key;
  for (const char* bad :
       {"", ".tjk", "-.tjk", "a.tjk", "a-b", "a-b.tjk2", "../a-b.tjk", "a-/b.tjk", "a-b-c.tjk", ".lock"}) {
    CAPTURE(bad);
    CHECK_FALSE(tj::cache::parse_file_name(bad, &key));
  }
}
