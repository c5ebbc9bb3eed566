// The bodies for sm_90a: boxes by the copy engine, products of a warpgroup out of shared memory.
#pragma once

#include "nvidia.cuh"

namespace sample::rmsnorm_gemm {

constexpr u32 kRowBytes = 128, kAtomBytes = 1024;  // a row of kBlockK elements, 8 rows: what the swizzle repeats

template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {
    dev::prefetch_map(&p.x_map);
    dev::prefetch_map(&p.w_map);
  }
};

/// Elements outside of X and W arrive as zeros.
template <class C>
TJ_DEVICE void load_x(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  dev::copy_box_4d(slot, &loader.params.x_map, full, i * C::kBlockK, tile.row, 0, 0);
}
template <class C>
TJ_DEVICE void load_w(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  dev::copy_box_4d(slot, &loader.params.w_map, full, i * C::kBlockK, tile.column, 0, 0);
}

template <class C>
TJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int, u32 x, u32 w) {
  dev::hold(consumer.sums);
  const dev::u64 left = dev::matrix_operand(x + static_cast<u32>(consumer.row0 & kRows) * kRowBytes, 16, kAtomBytes);
  const dev::u64 right = dev::matrix_operand(w + static_cast<u32>(consumer.column) * kRowBytes, 16, kAtomBytes);
  dev::matrix_multiply<dev::MatrixSteps<C::kBlockK / 16, 32, 32, 0>>(dev::F16{}, consumer.sums, left, right, true);
}
template <class C>
TJ_DEVICE void mma_done(Consumer<C>& consumer) {
  dev::hold(consumer.sums);
}

}  // namespace sample::rmsnorm_gemm
