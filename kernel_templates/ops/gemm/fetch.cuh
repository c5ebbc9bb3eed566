// Operands of a matrix product, brought to shared memory by copies that a role's threads do not wait for. The body is
// fetch_ab, for archs without a copy engine.
//
// Decides which thread brings what, and puts it where the copy engine would. Included after tile.cuh. Invariant:
// nothing outside a and b is read; elements outside are zero. Rows begin at multiples of 16 bytes.
#pragma once

#include "ops/gemm/tile.cuh"
#include "tiles.cuh"

namespace tj::ops::gemm {

/// Issues the copies; no state of its own.
template <class C_>
struct Fetcher {
  using C = C_;
  const Operands& operands;
  const u32 thread;
  TJ_DEVICE Fetcher(const Params& params, int)
      : operands(params.operands), thread(dev::warp_index() % C::kFetchingWarps * 32 + dev::lane_index()) {}
};

/// A block of `Across` elements of each of `Down` rows: parts of RowBytes one after the other.
template <int ElementBytes, int RowBytes, int Across, int Down>
struct Block {
  static constexpr int kElementBytes = ElementBytes, kRowBytes = RowBytes, kAcross = Across, kDown = Down;
};
/// A thread brings 16 bytes of a row, then the same of rows further down; neighbours bring a row together. end: behind
/// the last row that counts.
template <class B, int Threads>
TJ_DEVICE void fetch_block(const Operand& operand, int batch, int down, int end, int across, u32 slot, u32 thread) {
  constexpr int kBytes = B::kElementBytes, kRow = B::kRowBytes, kAcross = B::kAcross, kDown = B::kDown;
  constexpr int kPieces = kRow / 16, kColumns = kRow / kBytes, kPiece = 16 / kBytes, kAtOnce = Threads / kPieces,
                kRounds = (kDown + kAtOnce - 1) / kAtOnce;
  static_assert(kAcross % kColumns == 0 && Threads % kPieces == 0 && kAtOnce % 8 == 0,
                "a thread keeps its place in the swizzle");
  const int row = static_cast<int>(thread) / kPieces, piece = static_cast<int>(thread) % kPieces;
  const u32 place = dev::piece_address<kRow>(slot, static_cast<u32>(row), static_cast<u32>(piece));
  const int left = end - down - row;  // rows from this thread's first on
  const long long step = kAtOnce * operand.stride_down * kBytes;
#pragma unroll
  for (int part = 0; part < kAcross / kColumns; ++part) {
    const int column = across + part * kColumns + piece * kPiece;
    const u32 present = static_cast<u32>(max(0, min(kPiece, operand.across - column)) * kBytes);
    // An address where nothing is present is outside the operand, and is not read.
    const auto* from = static_cast<const unsigned char*>(operand.data) +
                       (batch * operand.stride_batch + (down + row) * operand.stride_down + column) * kBytes;
#pragma unroll 8  // more would take the registers of those who multiply
    for (int round = 0; round < kRounds; ++round) {
      const int further = round * kAtOnce;
      if (kDown % kAtOnce != 0 && row + further >= kDown) break;
      dev::copy_async<16>(place + static_cast<u32>((part * kDown + further) * kRow), from,
                          further < left ? present : 0);
      from += step;
    }
  }
}

template <class C, bool MnMajor, int Rows>
TJ_DEVICE void fetch_operand(const Fetcher<C>& fetcher, const Operand& operand, int batch, int row, Depth k, u32 slot) {
  constexpr int kBytes = dev::kElementBytes<typename C::Element>;
  if constexpr (MnMajor)
    fetch_block<Block<kBytes, kRowBytes<C, true>, Rows, C::kBlockK>, 32 * C::kFetchingWarps>(
        operand, batch, k.begin, depth_end<C>(operand.down, k), row, slot, fetcher.thread);
  else
    fetch_block<Block<kBytes, kRowBytes<C, false>, C::kBlockK, Rows>, 32 * C::kFetchingWarps>(
        operand, batch, row, operand.down, k.begin, slot, fetcher.thread);
}
/// Both, one behind the other in the slot.
template <class C>
TJ_DEVICE void fetch_ab(Fetcher<C>& fetcher, const Tile& tile, int i, u32 slot) {
  const Depth k = depth_of<C>(tile, i);
  fetch_operand<C, C::kLeftMn, C::kBlockM>(fetcher, fetcher.operands.a, tile.batch, tile.row, k, slot);
  fetch_operand<C, C::kRightMn, C::kBlockN>(fetcher, fetcher.operands.b, tile.batch, tile.column, k,
                                            slot + kLeftBytes<C>);
}

}  // namespace tj::ops::gemm
