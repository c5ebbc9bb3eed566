// The bodies for AMD's archs: what is copied passes through registers, and one role does all. Products are transposed,
// W X^T: a lane has one row of X in its operands and in its sums, so squares and sums meet in one register file.
#pragma once

#include "rmsnorm_gemm_tiles.cuh"

namespace sample::rmsnorm_gemm {

constexpr int kMatrix = 16, kPiece = 8, kWaves = 4;
constexpr u32 kThreads = kWaves * dev::kWave;

template <class C>
constexpr u32 kStride = C::kBlockK * 2 + C::kRowPadding;  ///< bytes from row to row of a slot

/// The pieces of a thread on their way. The rows of a slot are those of X, then those of W.
template <class C_>
struct Loader {
  using C = C_;
  static constexpr u32 kPieces = C::kBlockK / kPiece;  ///< of a row
  static constexpr int kLoads = static_cast<int>((C::kBlockM + C::kBlockN) * kPieces / kThreads);
  const Params& params;
  u32 words[kLoads][4];
  TJ_DEVICE Loader(const Params& p, int) : params(p) {}
};
template <class C_>
struct Consumer {
  using C = C_;
  const Params& params;
  const int row;  ///< the lane's row of X in the tile
  float sums[C::kBlockN / kMatrix][dev::kSums], squares;
  TJ_DEVICE Consumer(const Params& p, int)
      : params(p), row(static_cast<int>(dev::warp_index() % kWaves) * kMatrix + static_cast<int>(dev::operand_row())) {}
};

/// Zeros outside of the matrices.
template <class C>
TJ_DEVICE void load(Loader<C>& loader, const Tile& tile, int i) {
  const Params& params = loader.params;
#pragma unroll
  for (int n = 0; n < Loader<C>::kLoads; ++n) {
    const u32 at = dev::thread_index() + static_cast<u32>(n) * kThreads;
    const int place = static_cast<int>(at / Loader<C>::kPieces);
    const bool of_x = place < C::kBlockM;
    const int row = of_x ? tile.row + place : tile.column + place - C::kBlockM;
    const int column = i * C::kBlockK + static_cast<int>(at % Loader<C>::kPieces) * kPiece;
    const bool there = row < (of_x ? params.m : params.n) && column < params.k;
    const unsigned short* from = static_cast<const unsigned short*>(of_x ? params.x : params.w);
    dev::load_global(there ? from + static_cast<long long>(row) * params.k + column : from, loader.words[n]);
#pragma unroll
    for (u32& word : loader.words[n]) word = there ? word : 0u;
  }
}
template <class C>
TJ_DEVICE void put(Loader<C>& loader, const Tile&, int, u32 slot) {
#pragma unroll
  for (int n = 0; n < Loader<C>::kLoads; ++n) {
    const u32 at = dev::thread_index() + static_cast<u32>(n) * kThreads;
    dev::store_shared(slot + at / Loader<C>::kPieces * kStride<C> + at % Loader<C>::kPieces * 16u, loader.words[n]);
  }
}

template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile&) {
#pragma unroll
  for (auto& block : consumer.sums) {
#pragma unroll
    for (float& sum : block) sum = 0.0f;
  }
  consumer.squares = 0.0f;
}
/// The lane's operand of sixteen elements of K, from a row of a slot.
template <class C>
TJ_DEVICE void load_operand(u32 slot, int row, int step, u32 (&words)[dev::kOperandWords]) {
  dev::load_shared(slot + static_cast<u32>(row) * kStride<C> + static_cast<u32>(step) * 32u + dev::operand_k() * 2u,
                   words);
}
template <class C>
TJ_DEVICE void squares(Consumer<C>& consumer, const Tile&, int, u32 slot) {
#pragma unroll
  for (int step = 0; step < C::kBlockK / kMatrix; ++step) {
    u32 x[dev::kOperandWords];
    load_operand<C>(slot, consumer.row, step, x);
#pragma unroll
    for (u32 pair : x) add_squares(consumer.squares, pair);
  }
}
template <class C>
TJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int, u32 slot) {
  const u32 weights = slot + C::kBlockM * kStride<C>;
#pragma unroll
  for (int step = 0; step < C::kBlockK / kMatrix; ++step) {
    u32 x[dev::kOperandWords], w[dev::kOperandWords];
    load_operand<C>(slot, consumer.row, step, x);
#pragma unroll
    for (int j = 0; j < C::kBlockN / kMatrix; ++j) {
      load_operand<C>(weights, j * kMatrix + static_cast<int>(dev::operand_row()), step, w);
      dev::mma_m16n16k16(dev::F16{}, consumer.sums[j], w, x);
    }
  }
}

template <class C>
TJ_DEVICE void finish(Consumer<C>& consumer, const Tile& tile) {
  const Params& params = consumer.params;
  float squares = consumer.squares;  // of the whole row where operands are held twice, else of the lane's part
  if constexpr (dev::kCopies == 1) squares += dev::shuffle_xor<16>(squares);
  if constexpr (dev::kCopies == 1 && dev::kWave == 64) squares += dev::shuffle_xor<32>(squares);
  const float scale = inverse_rms(params, squares);
  const int row = tile.row + consumer.row;
#pragma unroll
  for (int j = 0; j < C::kBlockN / kMatrix; ++j) {
    float values[dev::kSums];
    dev::sums_in_order(consumer.sums[j], values);  // of columns from own_k() on; all lanes take part
    const int column = tile.column + j * kMatrix + static_cast<int>(dev::own_k());
    if (row >= params.m || column >= params.n) continue;
    const long long at = place_in(params, row, column);
#pragma unroll
    for (int e = 0; e < dev::kSums; e += 2) {
      const u32 residual = dev::load_global_u32(static_cast<const unsigned short*>(params.residual) + at + e);
      dev::store_global(static_cast<unsigned short*>(params.d) + at + e,
                        finished(values[e], values[e + 1], scale, residual));
    }
  }
}

}  // namespace sample::rmsnorm_gemm
