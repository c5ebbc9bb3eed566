// D = GELU(A B^T + bias): the bodies of the nodes of gemm_gelu.json, over the library's primitives.
//
// Decides what one node computes for one tile and iteration; order, waits, slots and roles come from the schedule.
// A block makes kBlockM x kBlockN of D, 64 rows for each consumer; iteration i adds columns kBlockK i and up of A and
// B.
#pragma once

#include "gemm_gelu_params.cuh"

namespace sample::gemm_gelu {

namespace dev = tj::dev;
using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;
using dev::u64;

constexpr int kRowsPerConsumer = 64;
constexpr u32 kRowBytes = 128,
              kAtomBytes = 1024;  // a row of kBlockK elements, 8 rows: what the 128-byte swizzle repeats

struct Tile {
  int index;
  bool valid;
  int row, column;
  int trip_count;
};

/// Blocks that run at the same time share columns of B.
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  Tile tile;
  tile.index = index;
  tile.valid = index < params.tiles;
  tile.row = index % params.row_blocks * C::kBlockM;
  tile.column = index / params.row_blocks * C::kBlockN;
  tile.trip_count = (params.k + C::kBlockK - 1) / C::kBlockK;
  return tile;
}

template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {
    dev::prefetch_map(&p.a);
    dev::prefetch_map(&p.b);
  }
};

/// 64 rows of the tile. A thread holds rows row0 and row0 + 8, columns 8j + column0 + {0, 1}.
template <class C_>
struct Consumer {
  using C = C_;
  const Params& params;
  const int copy, row0, column0;
  float sums[C::kBlockN / 2];
  TJ_DEVICE Consumer(const Params& p, int which)
      : params(p),
        copy(which),
        row0(static_cast<int>((dev::warp_index() & 3u) * 16u + dev::lane_index() / 4u)),
        column0(static_cast<int>(dev::lane_index() & 3u) * 2) {}
};

// ---- copies: what lies outside A and B arrives as zeros -----------------------------------------
template <class C>
TJ_DEVICE void load_a(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  dev::copy_box_4d(slot, &loader.params.a, full, i * C::kBlockK, tile.row, 0, 0);
}
template <class C>
TJ_DEVICE void load_b(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  dev::copy_box_4d(slot, &loader.params.b, full, i * C::kBlockK, tile.column, 0, 0);
}

// ---- products -----------------------------------------------------------------------------------
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile&) {
#pragma unroll
  for (float& sum : consumer.sums) sum = 0.0f;
}

template <class C>
TJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int, u32 a, u32 b) {
  dev::hold(consumer.sums);
  const u64 left = dev::matrix_operand(a + consumer.copy * kRowsPerConsumer * kRowBytes, 16, kAtomBytes);
  const u64 right = dev::matrix_operand(b, 16, kAtomBytes);
  dev::matrix_multiply<dev::MatrixSteps<C::kBlockK / 16, 32, 32, 0>>(dev::F16{}, consumer.sums, left, right, true);
}
template <class C>
TJ_DEVICE void mma_done(Consumer<C>& consumer) {
  dev::hold(consumer.sums);
}

// ---- the end of a tile --------------------------------------------------------------------------
/// x / (1 + exp(-2 sqrt(2/pi) (x + 0.044715 x^3))): the tanh form of GELU.
TJ_DEVICE float gelu(float x) {
  constexpr float kScale = -2.302208198f;  // -2 sqrt(2/pi) log2(e)
  const float exponent = kScale * dev::multiply_add(0.044715f * x * x, x, x);
  return x * dev::exp2_approx(-dev::log2_approx(1.0f + dev::exp2_approx(exponent)));
}

template <class C>
TJ_DEVICE void bias_gelu(Consumer<C>& consumer, const Tile& tile) {
  const Params& params = consumer.params;
  const bool pairs = params.n % 2 == 0;  // then two neighbours are one aligned word
#pragma unroll
  for (int j = 0; j < C::kBlockN / 8; ++j) {
    const int column = tile.column + 8 * j + consumer.column0;
    const bool first = column < params.n, second = column + 1 < params.n;
    const float bias0 = first ? params.bias[column] : 0.0f, bias1 = second ? params.bias[column + 1] : 0.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + consumer.copy * kRowsPerConsumer + consumer.row0 + 8 * half;
      if (row >= params.m) continue;
      const float* sums = &consumer.sums[4 * j + 2 * half];
      const u32 packed = dev::pack(dev::F16{}, gelu(sums[0] + bias0), gelu(sums[1] + bias1));
      unsigned short* out = static_cast<unsigned short*>(params.d) + static_cast<long long>(row) * params.n + column;
      if (pairs && first) {
        dev::store_global(out, packed);
      } else {
        if (first) dev::store_global_u16(out, packed & 0xffffu);
        if (second) dev::store_global_u16(out + 1, packed >> 16);
      }
    }
  }
}

}  // namespace sample::gemm_gelu
