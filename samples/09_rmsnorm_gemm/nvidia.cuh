// The bodies that NVIDIA's archs share: sums of squares beside the products, and the end of a tile. A consumer has 64
// rows, and a warp sixteen of them, whoever multiplies: by a warpgroup's instructions or by a warp's. Two consumers of
// a tile of 64 rows have half of its columns each.
#pragma once

#include "rmsnorm_gemm_tiles.cuh"
#include "tiles.cuh"

namespace sample::rmsnorm_gemm {

constexpr int kRows = 64;

/// A thread holds rows row0 and row0 + 8 of the tile, columns 8j + 2(lane % 4) + {0, 1} from
/// `column` on.
template <class C_>
struct Consumer {
  using C = C_;
  static constexpr int kColumns = C::kBlockM == kRows ? C::kBlockN / 2 : C::kBlockN;
  const Params& params;
  const int column, row0;
  float sums[kColumns / 2], squares[2];
  TJ_DEVICE Consumer(const Params& p, int copy)
      : params(p),
        column(copy * kColumns % C::kBlockN),
        row0(copy * kRows % C::kBlockM + static_cast<int>(dev::warp_index() % 4u * 16u + dev::lane_index() / 4u)) {}
};

template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile&) {
#pragma unroll
  for (float& sum : consumer.sums) sum = 0.0f;
  consumer.squares[0] = consumer.squares[1] = 0.0f;
}

/// Four threads share a row of X: each has every fourth piece of 16 bytes. Neighbouring rows begin with different
/// pieces, so that their loads do not meet in one bank.
template <class C>
TJ_DEVICE void squares(Consumer<C>& consumer, const Tile&, int, u32 x) {
  static_assert(C::kBlockK == 64, "a row of the slot is eight pieces of 16 bytes");
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    const u32 half = i / 2, row = static_cast<u32>(consumer.row0) + 8 * half;
    float words[4];
    dev::load_shared(dev::piece_address(x, row, (dev::lane_index() & 3u) + 4u * ((i ^ row) & 1u)), words);
#pragma unroll
    for (float word : words) add_squares(consumer.squares[half], dev::bits_of(word));
  }
}

/// Sixteen columns at a time. Lanes of a pair trade words, so that each has four neighbours: a quad reads and writes
/// all of a sector. The same trade brings the residual to the sums' places. What is read of kAhead such columns comes
/// first, as no compiler moves it before the stores.
template <class C>
TJ_DEVICE void finish(Consumer<C>& consumer, const Tile& tile) {
  constexpr int kPieces = Consumer<C>::kColumns / 16, kAhead = kPieces < 8 ? kPieces : 8;
  const Params& params = consumer.params;
  const int quarter = static_cast<int>(dev::lane_index() & 3u);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float squares = consumer.squares[half] + dev::shuffle_xor(consumer.squares[half], 1);
    squares += dev::shuffle_xor(squares, 2);
    const float scale = inverse_rms(params, squares);
    const int row = tile.row + consumer.row0 + 8 * half;
#pragma unroll
    for (int from = 0; from < kPieces; from += kAhead) {
      const int first = tile.column + consumer.column + 16 * from + quarter % 2 * 8 + quarter / 2 * 4;
      const long long at = place_in(params, row, first);
      const int left = row < params.m ? params.n - first : 0;  // columns
      u32 words[kAhead][2] = {};
#pragma unroll
      for (int j = 0; j < kAhead; ++j)
        if (16 * j < left) dev::load_global(static_cast<const short*>(params.residual) + at + 16 * j, words[j]);
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const float* sums = &consumer.sums[8 * (from + j) + 2 * half];
        dev::trade<1>(words[j][0], words[j][1]);
        words[j][0] = finished(sums[0], sums[1], scale, words[j][0]);
        words[j][1] = finished(sums[4], sums[5], scale, words[j][1]);
        dev::trade<1>(words[j][0], words[j][1]);
        if (16 * j < left) dev::store_global(static_cast<short*>(params.d) + at + 16 * j, words[j][0], words[j][1]);
      }
    }
  }
}

}  // namespace sample::rmsnorm_gemm
