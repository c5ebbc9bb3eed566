// Protects the rule of which keys a query sees, which device code of every family and the host share: ranges, blocks of
// keys and the bound of masked iterations agree with the definition, key by key.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>

#include "ops/fmha/mask.hpp"

using namespace tj;
namespace fmha = tj::ops::fmha;

namespace {

/// A mask as a call asks for it.
struct Asked {
  bool causal = false, top_left = false;
  FmhaWindow window;
  int queries = 1, keys = 1;

  fmha::Mask mask() const {
    FmhaArgs args;
    args.q.shape[2] = queries, args.k.shape[2] = keys;
    args.causal = causal, args.top_left = top_left, args.window = window;
    return ops::mask_of(args);
  }
  /// From the definition: query r stands at key r + Sk - Sq, or at key r.
  bool sees(int row, int key) const {
    const std::int64_t place = top_left ? row : row + keys - queries;
    return (!causal || key <= place) && (window.left < 0 || key >= place - window.left) &&
           (window.right < 0 || key <= place + window.right);
  }
};

class Drawn {
 public:
  explicit Drawn(unsigned seed) : random_(seed) {}
  int up_to(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most)) + 1; }
  bool coin() { return random_() % 2 == 0; }
  Asked asked() {
    Asked of{coin(), coin(), {}, up_to(300), up_to(300)};
    if (coin()) of.window.left = up_to(320) - 1;
    if (coin()) of.window.right = up_to(320) - 1;
    return of;
  }

 private:
  std::mt19937 random_;
};

}  // namespace

TEST_CASE("a row's range has the keys that it sees, and no other") {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  for (const bool causal : {false, true})
    for (const bool top_left : {false, true})
      for (const FmhaWindow& window : {FmhaWindow{}, {2, -1}, {-1, 1}, {0, 0}, {1, 3}, {kMost, kMost}})
        for (const auto& [queries, keys] : {std::pair{3, 5}, {5, 5}, {7, 4}, {1, 9}, {9, 1}}) {
          const Asked asked{causal, top_left, window, queries, keys};
          const fmha::Mask mask = asked.mask();
          double all = 0;
          for (int row = 0; row < queries; ++row) {
            const fmha::Keys range = mask.keys_of(row);
            for (int key = 0; key < keys; ++key) {
              CHECK((range.first <= key && key < range.end) == asked.sees(row, key));
              all += asked.sees(row, key);
            }
            CHECK(range.first >= 0);
            CHECK(range.end <= keys);
          }
          CHECK(ops::visible_keys(mask) == all);
        }
}

TEST_CASE("a tile walks the blocks of keys that some row sees, and masks no more of them than is promised") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  Drawn drawn(seed);
  for (int n = 0; n < 500; ++n) {
    const Asked asked = drawn.asked();
    const fmha::Mask mask = asked.mask();
    const int rows = drawn.up_to(4) * 16, block_n = drawn.up_to(4) * 16;
    CAPTURE(asked.causal);
    CAPTURE(asked.top_left);
    CAPTURE(asked.window.left);
    CAPTURE(asked.window.right);
    CAPTURE(mask.queries);
    CAPTURE(mask.keys);
    for (int row = 0; row < mask.queries; row += rows) {
      const fmha::Keys blocks = mask.blocks_of(row, rows, block_n);
      int masked = 0;  // blocks that some row sees, but not every row whole
      int first = blocks.end, end = blocks.first;
      for (int key = 0; key < mask.keys; key += block_n) {
        int pairs = 0;
        for (int r = row; r < row + rows && r < mask.queries; ++r)
          for (int k = key; k < key + block_n && k < mask.keys; ++k) pairs += asked.sees(r, k);
        if (pairs > 0) first = std::min(first, key / block_n), end = std::max(end, key / block_n + 1);
        masked += pairs > 0 && pairs < rows * block_n;
        const bool whole = row + rows <= mask.queries && key + block_n <= mask.keys;
        if (whole) CHECK(mask.hides(row, row + rows - 1, key, key + block_n) == (pairs < rows * block_n));
      }
      // Every block that a row sees is walked, and no block at either end that none sees.
      CHECK(blocks.first >= 0);
      CHECK(blocks.first <= blocks.end);
      if (first < end) {
        CHECK(blocks.first == first);
        CHECK(blocks.end == end);
      }
      if (mask.from_first_key() && row + rows <= mask.queries)
        CHECK(masked <= mask.most_masked(rows, block_n, 1 << 30));
    }
  }
}

TEST_CASE("what a mask asks of a kernel, and a call of that kernel, are each other's") {
  for (const bool causal : {false, true})
    for (const bool windowed : {false, true}) {
      FmhaConfig config;
      config.causal = causal, config.windowed = windowed;
      FmhaArgs args;
      args.q.shape[2] = 300, args.k.shape[2] = 500;
      ops::set_mask(args, config);
      FmhaConfig again;
      ops::set_mask(again, args);
      CHECK(again.causal == causal);
      CHECK(again.windowed == windowed);
      CHECK(ops::mask_of(config).tiles_differ() == (causal || windowed));
      CHECK(ops::mask_of(config, 3, 5).keys == 5);
      // What is predicted and counted of a kernel is what its calls have.
      CHECK(ops::visible_keys(ops::mask_of(config, 300, 500)) == ops::visible_keys(ops::mask_of(args)));
    }
}

TEST_CASE("a window that says no more than a causal or a full mask takes the kernel of these") {
  const auto kernel = [](bool causal, FmhaWindow window) {
    FmhaArgs args;
    args.causal = causal, args.window = window;
    FmhaConfig config;
    ops::set_mask(config, args);
    return std::pair{config.causal, config.windowed};
  };
  CHECK(kernel(false, {}) == std::pair{false, false});
  CHECK(kernel(false, {-1, 0}) == std::pair{true, false});
  CHECK(kernel(true, {-1, 9}) == std::pair{true, false});
  CHECK(kernel(false, {9, 0}) == std::pair{true, true});
  CHECK(kernel(true, {9, 9}) == std::pair{true, true});
  CHECK(kernel(false, {-1, 9}) == std::pair{false, true});
  CHECK(kernel(false, {9, -1}) == std::pair{false, true});
}
