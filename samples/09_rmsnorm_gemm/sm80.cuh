// The bodies for archs whose products are a warp's: pieces of 16 bytes by a role of threads, operands loaded from
// shared memory.
#pragma once

#include "nvidia.cuh"

namespace sample::rmsnorm_gemm {

constexpr u32 kLoaderThreads = 128;

template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {}
};

/// Rows of kBlockK elements; zeros outside of the matrix.
template <int Rows>
TJ_DEVICE void load_rows(const void* matrix, int rows, int k, int first_row, int first_k, u32 slot) {
  const u32 thread = dev::warp_index() % (kLoaderThreads / 32u) * 32u + dev::lane_index();
#pragma unroll
  for (u32 at = thread; at < Rows * 8u; at += kLoaderThreads) {
    const int row = first_row + static_cast<int>(at / 8u), column = first_k + static_cast<int>(at % 8u) * 8;
    const bool there = row < rows && column < k;
    const auto* from =
        static_cast<const unsigned short*>(matrix) + (there ? static_cast<long long>(row) * k + column : 0);
    dev::copy_async<16>(dev::piece_address(slot, at / 8u, at % 8u), from, there ? 16u : 0u);
  }
}
template <class C>
TJ_DEVICE void load_x(Loader<C>& loader, const Tile& tile, int i, u32 slot) {
  load_rows<C::kBlockM>(loader.params.x, loader.params.m, loader.params.k, tile.row, i * C::kBlockK, slot);
}
template <class C>
TJ_DEVICE void load_w(Loader<C>& loader, const Tile& tile, int i, u32 slot) {
  load_rows<C::kBlockN>(loader.params.w, loader.params.n, loader.params.k, tile.column, i * C::kBlockK, slot);
}

template <class C>
TJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int, u32 x, u32 w) {
  const u32 row = static_cast<u32>(consumer.row0) & ~15u;
#pragma unroll
  for (u32 k = 0; k < C::kBlockK / 16; ++k) {
    u32 left[4], right[4];
    dev::load_matrices(dev::piece_address(x, row + dev::down_row(), 2 * k + dev::down_piece()), left);
#pragma unroll
    for (u32 j = 0; j < C::kBlockN / 16; ++j) {
      dev::load_matrices(dev::piece_address(w, 16 * j + dev::across_row(), 2 * k + dev::across_piece()), right);
      dev::multiply_16(dev::F16{}, &consumer.sums[8 * j], left, right);
    }
  }
}

}  // namespace sample::rmsnorm_gemm
