// Protects the readers of entries and packs against any bytes: seeded damage to whole ones, always the same.
#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cache/pack_format.hpp"
#include "cache/remote_format.hpp"
#include "support/full.hpp"
#include "support/fuzz.hpp"
#include "tests/cache/cache_fixture.hpp"

namespace {

using namespace tj::testing;

using Target = int (*)(const std::uint8_t*, std::size_t);

void feed(Target target, const std::string& bytes) {
  target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

/// Bytes changed, cut, doubled and taken from elsewhere.
void damage(Target target, const std::vector<std::string>& texts) {
  std::mt19937 random(20261128);
  const auto below = [&](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  const int rounds = full_run() ? 200000 : 20000;
  for (int i = 0; i < rounds; ++i) {
    std::string text = texts[below(texts.size())];
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(text.size()), count = below(std::min<std::size_t>(40, text.size() - at));
      switch (below(4)) {
        case 0:
          if (!text.empty()) text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, count);
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), count));
          break;
        default:
          text.insert(at, std::string(1 + below(8), below(2) == 0 ? '\0' : '\xff'));
      }
    }
    feed(target, text);
  }
}

TEST_CASE("entries: nothing that was damaged is read beyond its end, and what is read is written the same again") {
  std::vector<std::string> texts;
  for (const char* name : {"one", "two"}) {
    texts.push_back(tj::cache::encode(key_of(name), entry_of(std::string("payload of ") + name)));
    texts.push_back(texts.back().substr(tj::cache::kHeaderBytes, texts.back().size() - tj::cache::kHeaderBytes - 32));
    feed(fuzz_entry, texts.back());
  }
  damage(fuzz_entry, texts);
}

TEST_CASE("packs: an index that was damaged is refused, or is the one that it says") {
  std::vector<tj::cache::PackRecord> records(2);
  records[0] = {{std::string(64, 'a'), std::string(64, 'b')}, 8, 100, {}};
  records[1] = {{std::string(64, 'c'), ""}, 108, 20, {}};
  const std::string index = tj::cache::encode_index(records);
  const std::string pack =
      std::string("TJPACKED") + std::string(120, 'x') + index + tj::cache::encode_end(2, index, 128, nullptr);
  std::string problem;
  const auto end = tj::cache::read_end(pack.substr(pack.size() - tj::cache::kPackEndBytes), pack.size(), &problem);
  REQUIRE_MESSAGE(end, problem);
  CHECK(tj::cache::read_index(index, *end, &problem)->size() == 2);
  damage(fuzz_pack, {pack, std::string("\x02\x78\x00", 3) + index});
}

TEST_CASE("values of a remote store: what was damaged is refused, or is written the same again") {
  const std::string entry = tj::cache::encode(key_of("one"), entry_of("payload"));
  const std::string value = tj::cache::encode_remote("name", entry, nullptr);
  feed(fuzz_remote, value);
  damage(fuzz_remote, {value, value.substr(0, tj::cache::kRemoteHeaderBytes)});
}

}  // namespace
