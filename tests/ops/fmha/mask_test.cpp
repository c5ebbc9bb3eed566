// Protects the rule of which keys a query sees, which device code of every family and the host share: ranges, blocks of
// keys and the bound of masked iterations agree with the definition, key by key.
#include <doctest/doctest.h>

#include <random>
#include <utility>

#include "ops/fmha/mask.hpp"

using namespace tj;
namespace fmha = tj::ops::fmha;

namespace {

/// From the definition: query r sees keys j <= r + Sk - Sq.
bool sees(bool causal, int queries, int keys, int row, int key) { return !causal || key <= row + keys - queries; }

int seen_by(bool causal, int queries, int keys, int row) {
  int count = 0;
  for (int key = 0; key < keys; ++key) count += sees(causal, queries, keys, row, key);
  return count;
}

}  // namespace

TEST_CASE("a row's range has the keys that it sees, and no other") {
  for (const bool causal : {false, true})
    for (const auto& [queries, keys] : {std::pair{3, 5}, {5, 5}, {7, 4}, {1, 9}, {9, 1}}) {
      const fmha::Mask mask{causal, queries, keys};
      double all = 0;
      for (int row = 0; row < queries; ++row) {
        const fmha::Keys range = mask.keys_of(row);
        for (int key = 0; key < keys; ++key)
          CHECK((range.first <= key && key < range.end) == sees(causal, queries, keys, row, key));
        CHECK(mask.end_of(row) == seen_by(causal, queries, keys, row));
        all += mask.end_of(row);
      }
      CHECK(ops::visible_keys(mask) == all);
    }
}

TEST_CASE("a tile walks the blocks of keys that some row sees, and masks no more of them than is promised") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)) + 1; };
  for (int n = 0; n < 300; ++n) {
    const fmha::Mask mask{random() % 2 == 0, up_to(300), up_to(300)};
    const int rows = up_to(4) * 16, block_n = up_to(4) * 16;
    CAPTURE(mask.causal);
    CAPTURE(mask.queries);
    CAPTURE(mask.keys);
    for (int row = 0; row < mask.queries; row += rows) {
      int seen = 0, masked = 0;  // blocks that some row sees, and those of them that not every row sees whole
      for (int key = 0; key < mask.keys; key += block_n) {
        int pairs = 0;
        for (int r = row; r < row + rows && r < mask.queries; ++r)
          for (int k = key; k < key + block_n && k < mask.keys; ++k)
            pairs += sees(mask.causal, mask.queries, mask.keys, r, k);
        seen += pairs > 0;
        masked += pairs > 0 && pairs < rows * block_n;
      }
      const fmha::Keys blocks = mask.blocks_of(row, rows, block_n);
      CHECK(blocks.first == 0);
      CHECK(blocks.end == seen);
      if (row + rows <= mask.queries) CHECK(masked <= mask.most_masked(rows, block_n, 1 << 30));
    }
  }
}

TEST_CASE("what a mask asks of a kernel, and a call of that kernel, are each other's") {
  for (const bool causal : {false, true}) {
    FmhaArgs args;
    args.causal = causal;
    FmhaConfig config;
    ops::set_mask(config, args);
    CHECK(config.causal == causal);
    FmhaArgs again;
    ops::set_mask(again, config);
    CHECK(again.causal == causal);
    CHECK(ops::mask_of(config).tiles_differ() == causal);
    CHECK(ops::mask_of(config, 3, 5).keys == 5);
  }
}
