// Operands of a matrix product, brought to shared memory by the copy engine. The bodies are load_a and load_b, and
// load_ab for both in one slot, for every family that has the engine.
//
// Decides which boxes make a slot. An operand lies there as blocks that are 128 bytes wide along its contiguous
// dimension. Included after tile.cuh. Invariant: a body issues the copies of its own slot, nothing else.
#pragma once

#include "ops/gemm/tile.cuh"

namespace tj::ops::gemm {

/// Issues the copies; no state of its own.
template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {
    dev::prefetch_map(&p.a);
    dev::prefetch_map(&p.b);
  }
};

/// An operand's block in a slot: rows of a or b, those that the slot has room for, elements of K.
template <bool MnMajor, int Rows, int SlotRows, int Depth>
struct Block {
  static constexpr int kAcross = MnMajor ? Rows : Depth, kDown = MnMajor ? Depth : Rows;
  static constexpr int kPitch = (MnMajor ? Depth : SlotRows) * kSwizzleRowBytes;  // of 128 bytes across
  static constexpr bool kMnMajor = MnMajor;
  static constexpr int kDepth = Depth;
};
/// The copy of a box that the products of a pair of blocks read; specialised where there are pairs.
template <bool>
struct PairCopy;

/// This block's share of it: all that is across, part of what goes down.
template <class C, class B, class Share>
TJ_DEVICE void load_operand(const TensorMap* map, int row, int i, int batch, u32 slot, u32 full, Share share) {
  constexpr int kDown = B::kDown / Share::kParts;
  static_assert(kDown * Share::kParts == B::kDown && kDown * kSwizzleRowBytes % kSwizzleAtomBytes == 0,
                "parts are whole swizzle patterns");
  const int skipped = static_cast<int>(share.part) * kDown;
  const int across = B::kMnMajor ? row : i * B::kDepth, down = (B::kMnMajor ? i * B::kDepth : row) + skipped;
#pragma unroll  // rolled, a short iteration waits for the thread that issues its copies: 433 cycles instead of 345 for
                // tiles of 16 x 32
  for (int at = 0; at < B::kAcross; at += kBlockColumns<C>) {
    const u32 place = slot + at / kBlockColumns<C> * B::kPitch + skipped * kRowBytes<C, B::kMnMajor>;
    if constexpr (Share::kParts > 1)
      dev::copy_box_4d_multicast(place, map, full, share.mask, across + at, down, batch, 0);
    else if constexpr (C::kPairs)
      PairCopy<C::kPairs>::box(place, map, full, across + at, down, batch);
    else
      dev::copy_box_4d(place, map, full, across + at, down, batch, 0);
  }
}
template <class C, class Share = dev::Share<1>>
TJ_DEVICE void load_a(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full, Share share = {}) {
  const Params& params = loader.params;
  load_operand<C, Block<C::kLeftMn, C::kBlockM, C::kSlotRows, C::kBlockK>>(
      &params.a, tile.row, tile.first + i, tile.batch * params.a_batched, slot, full, share);
}
template <class C, class Share = dev::Share<1>>
TJ_DEVICE void load_b(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full, Share share = {}) {
  const Params& params = loader.params;
  // Each block of a pair has half of the columns.
  const int column = tile.column + (C::kPairs ? static_cast<int>(dev::cluster_rank() % 2u) * C::kSlotColumns : 0);
  load_operand<C, Block<C::kRightMn, C::kSlotColumns, C::kSlotColumns, C::kBlockK>>(
      &params.b, column, tile.first + i, tile.batch * params.b_batched, slot, full, share);
}
template <class C>
TJ_DEVICE void load_ab(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  load_a(loader, tile, i, slot, full);
  load_b(loader, tile, i, slot + kLeftBytes<C>, full);
}

}  // namespace tj::ops::gemm
