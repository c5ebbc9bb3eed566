// D = rmsnorm(X) W^T + R: what the bodies of all archs share.
//
// Decides which tile a block makes, and what becomes of a sum at a tile's end. Iteration i adds columns kBlockK i and
// up of X and W. The norm divides a row of X by its root mean square: sum(x w) / rms(x), so that products and squares
// are summed in one pass over X, and the division waits for the tile's end.
#pragma once

#include "rmsnorm_gemm_params.cuh"

namespace sample::rmsnorm_gemm {

namespace dev = tj::dev;
using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;

struct Tile {
  int index;
  bool valid;
  int row, column;
  int trip_count;
};

/// Blocks that run at the same time share columns of W.
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  return {index, index < params.tiles, index % params.row_blocks * C::kBlockM, index / params.row_blocks * C::kBlockN,
          (params.k + C::kBlockK - 1) / C::kBlockK};
}

/// The squares of two neighbours, added to a row's sum.
TJ_DEVICE void add_squares(float& sum, u32 pair) {
  float low, high;
  dev::unpack(dev::F16{}, pair, low, high);
  sum = dev::multiply_add(high, high, dev::multiply_add(low, low, sum));
}

/// 1 / sqrt(mean + epsilon), of a row's sum of squares.
TJ_DEVICE float inverse_rms(const Params& params, float squares) {
  return dev::exp2_approx(-0.5f * dev::log2_approx(dev::multiply_add(squares, params.one_over_k, params.epsilon)));
}

/// Two neighbours of D, from their sums and the two of the residual.
TJ_DEVICE u32 finished(float first, float second, float scale, u32 residual) {
  float low, high;
  dev::unpack(dev::F16{}, residual, low, high);
  return dev::pack(dev::F16{}, dev::multiply_add(first, scale, low), dev::multiply_add(second, scale, high));
}

/// The place of an element in a matrix of rows of params.n, in elements of 16 bits.
TJ_DEVICE long long place_in(const Params& params, int row, int column) {
  return static_cast<long long>(row) * params.n + column;
}

}  // namespace sample::rmsnorm_gemm
