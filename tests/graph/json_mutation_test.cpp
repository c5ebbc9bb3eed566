// Protects the reader of user graphs against any bytes: seeded damage to the example files, always the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "support/full.hpp"
#include "support/fuzz.hpp"

namespace {

constexpr int kRounds = 20000;

void feed(const std::string& text) {
  tj::testing::fuzz_json(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

std::vector<std::string> corpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(TJ_REPO_DIR "/tests/graph/data"))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

class Damage {
 public:
  /// One edit: a byte, a piece of another text, or a token that JSON and the format make special.
  void apply(std::string& text, const std::vector<std::string>& texts) {
    static const std::vector<std::string> tokens = {"null",
                                                    "true",
                                                    "-1",
                                                    "0",
                                                    "1e999",
                                                    "-0.0",
                                                    "NaN",
                                                    "99999999999999999999",
                                                    "4194304",
                                                    "[]",
                                                    "{}",
                                                    "\"\"",
                                                    "\"TC\"",
                                                    "\"O\"",
                                                    "[[[[",
                                                    "{\"a\":",
                                                    "\"\\ud800\"",
                                                    "\xff",
                                                    "\"rrt\":{\"TC\":[1,0,1]},",
                                                    "\"fu\":null,",
                                                    "\"machine\"",
                                                    "}",
                                                    "]",
                                                    ",",
                                                    ":",
                                                    "\"delta\":1,",
                                                    "1024",
                                                    "\"scope\":\"tile_end\",",
                                                    "\"async\":\"matrix\",",
                                                    "\"value\":\"tile\",",
                                                    "\"same_role\":true,",
                                                    "\"values\":[],",
                                                    "\"sm_real\"",
                                                    "\"mma.0\"",
                                                    "\"cluster\":2,",
                                                    "\"blocks_per_sm\":2,",
                                                    "\"max_cluster\":8,",
                                                    "\"shared_barriers\":false,",
                                                    "\"overlapped_launch\":false,",
                                                    "\"within_warp\":true,",
                                                    "\"lies_in\":\"tile\",",
                                                    "\"space\":\"tensor\",",
                                                    "\"updates\":true,",
                                                    "\"async\":\"unit\",",
                                                    "\"shared_by\":2,",
                                                    "\"shared_stride\":2,"};
    const std::size_t where = below(text.size() + 1), length = std::min(below(12), text.size() - where);
    switch (below(5)) {
      case 0:
        text.insert(where, 1, static_cast<char>(below(256)));
        break;
      case 1:
        text.erase(where, length);
        break;
      case 2:
        text.replace(where, length, tokens[below(tokens.size())]);
        break;
      case 3:
        number(text, where);
        break;
      default: {
        const std::string& other = texts[below(texts.size())];
        text.insert(where, other, below(other.size()), below(60));
      }
    }
  }
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

 private:
  /// The next number becomes another one: most texts stay well-formed.
  void number(std::string& text, std::size_t where) {
    const std::size_t at = text.find_first_of("0123456789", where);
    if (at == std::string::npos) return;
    const std::size_t end = text.find_first_not_of("0123456789", at);
    static const std::vector<std::string> numbers = {"0",
                                                     "1",
                                                     "2",
                                                     "-3",
                                                     "7",
                                                     "1024",
                                                     "1025",
                                                     "2097152",
                                                     "4194305",
                                                     "2147483648",
                                                     "-9223372036854775808",
                                                     "18446744073709551615",
                                                     "0.5"};
    text.replace(at, (end == std::string::npos ? text.size() : end) - at, numbers[below(numbers.size())]);
  }

  std::mt19937_64 random_{20240917};
};

}  // namespace

TEST_CASE("damaged texts are read or refused") {
  const std::vector<std::string> texts = corpus();
  REQUIRE(texts.size() >= 4);
  Damage damage;
  for (int round = 0; round < tj::testing::drawn(kRounds); ++round) {
    std::string text = texts[damage.below(texts.size())];
    for (std::size_t edit = 1 + damage.below(4); edit > 0; --edit) damage.apply(text, texts);
    feed(text);
  }
  CHECK(true);  // a wrong outcome aborts
}

TEST_CASE("every beginning of a text is read or refused") {
  for (const std::string& text : corpus())
    for (std::size_t size = 0; size <= text.size(); ++size) feed(text.substr(0, size));
  CHECK(true);
}

TEST_CASE("large and deep texts are refused in good time") {
  feed(std::string(std::size_t{1} << 20, '['));
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  feed(objects);
  std::string keys = "{";
  for (int i = 0; i < 100000; ++i) keys += "\"k" + std::to_string(i) + "\":0,";
  feed(keys + "\"z\":0}");
  std::string entries = "{\"machine\":\"hopper\",\"instructions\":[";
  for (int i = 0; i < 100000; ++i) entries += "0,";
  feed(entries + "0]}");
  feed(std::string((std::size_t{16} << 20) + 1, ' '));
  feed("{\"machine\":\"" + std::string(1 << 20, 'h') + "\",\"instructions\":[]}");
  CHECK(true);
}
