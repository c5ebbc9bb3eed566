// The bodies that NVIDIA's archs share: sums of squares beside the products, and the end of a tile. A consumer has 64
// rows, and a warp sixteen of them, whoever multiplies: by a warpgroup's instructions or by a warp's.
#pragma once

#include "rmsnorm_gemm_tiles.cuh"
#include "tiles.cuh"

namespace sample::rmsnorm_gemm {

constexpr int kRowsPerConsumer = 64;

/// A thread holds rows row0 and row0 + 8 of its consumer's, columns 8j + column0 + {0, 1}.
template <class C_>
struct Consumer {
  using C = C_;
  const Params& params;
  const int copy, row0, column0;
  float sums[C::kBlockN / 2], squares[2];
  TJ_DEVICE Consumer(const Params& p, int which)
      : params(p),
        copy(which),
        row0(static_cast<int>((dev::warp_index() & 3u) * 16u + dev::lane_index() / 4u)),
        column0(static_cast<int>(dev::lane_index() & 3u) * 2) {}
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
  for (int half = 0; half < 2; ++half) {
    const u32 row = static_cast<u32>(consumer.copy * kRowsPerConsumer + consumer.row0 + 8 * half);
#pragma unroll
    for (u32 p = 0; p < 2; ++p) {
      float words[4];
      dev::load_shared(dev::piece_address(x, row, (dev::lane_index() & 3u) + 4u * (p ^ (row & 1u))), words);
#pragma unroll
      for (float word : words) add_squares(consumer.squares[half], dev::bits_of(word));
    }
  }
}

template <class C>
TJ_DEVICE void finish(Consumer<C>& consumer, const Tile& tile) {
  const Params& params = consumer.params;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float squares = consumer.squares[half];
    squares += dev::shuffle_xor(squares, 1);
    squares += dev::shuffle_xor(squares, 2);
    const float scale = inverse_rms(params, squares);
    const int row = tile.row + consumer.copy * kRowsPerConsumer + consumer.row0 + 8 * half;
    if (row >= params.m) continue;
#pragma unroll
    for (int j = 0; j < C::kBlockN / 8; ++j) {
      const int column = tile.column + 8 * j + consumer.column0;
      if (column >= params.n) continue;
      const long long at = place_in(params, row, column);
      const u32 residual = dev::load_global_u32(static_cast<const unsigned short*>(params.residual) + at);
      const float* sums = &consumer.sums[4 * j + 2 * half];
      dev::store_global(static_cast<unsigned short*>(params.d) + at, finished(sums[0], sums[1], scale, residual));
    }
  }
}

}  // namespace sample::rmsnorm_gemm
