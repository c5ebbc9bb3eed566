// Operands of a matrix product, brought to shared memory by the copy engine. The bodies are load_a and load_b, and
// load_ab for both in one slot, for every family that has the engine.
//
// Decides which boxes make a slot. An operand lies there as blocks that are 128 bytes wide along its contiguous
// dimension. Boxes outside the operand are left out where kSkips says so. The engine would fill them with zeros,
// several times slower than it copies. Included after tile.cuh. Invariant: a body issues the copies of its own
// slot, nothing else.
#pragma once

#include "ops/gemm/tile.cuh"

namespace tj::ops::gemm {

/// Do threads read b (rows.cuh)? Then it has no map.
template <class C, class = void>
inline constexpr bool kReadsRight = false;
template <class C>
inline constexpr bool kReadsRight<C, decltype(void(C::kRightWarps))> = true;

/// Issues the copies; no state of its own.
template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {
    dev::prefetch_map(&p.a);
    if constexpr (!kReadsRight<C>) dev::prefetch_map(&p.b);
  }
};

/// An operand's block in a slot: rows of a or b, those that the slot has room for, elements of K.
template <bool MnMajor, int Rows, int SlotRows, int Depth>
struct Block {
  static constexpr int kRows = Rows, kAcross = MnMajor ? Rows : Depth, kDown = MnMajor ? Depth : Rows;
  static constexpr int kPitch = (MnMajor ? Depth : SlotRows) * kSwizzleRowBytes;  // of 128 bytes across
  static constexpr bool kMnMajor = MnMajor;
  static constexpr int kDepth = Depth;
};
/// The copy of a box that the products of a pair of blocks read; specialised where there are pairs.
template <bool>
struct PairCopy;

/// A box of `count` rows of K that ends with its group (types.cuh): zeros lie behind it.
template <class B>
TJ_DEVICE void load_depth(u32 place, const TensorMap* map, u32 full, int across, int down, int count) {
  static_assert(B::kMnMajor, "K goes down");
  dev::copy_box_5d(place, map, full, across, kEndRows - count, down + count, kEndRows, 0);
}
/// Issues the boxes beside each other that begin `first` rows below the slot's first. half: of a map of two.
template <class C, class B, class Share>
TJ_DEVICE void load_boxes(const TensorMap* map, int row, Depth depth, int batch, u32 slot, u32 full, Share share,
                          int first, int rows, int half) {
  const int across = B::kMnMajor ? row : depth.begin, down = (B::kMnMajor ? depth.begin : row) + first;
#pragma unroll  // rolled, a short iteration waits for the thread that issues its copies: 433 cycles instead of 345 for
                // tiles of 16 x 32
  for (int at = 0; at < B::kAcross; at += kBlockColumns<C>) {
    if (B::kMnMajor && at >= rows) break;
    const u32 place = slot + at / kBlockColumns<C> * B::kPitch + first * kRowBytes<C, B::kMnMajor>;
    if constexpr (Share::kParts > 1)
      dev::copy_box_4d_multicast(place, map, full, share.mask, across + at, down, batch, half);
    else if constexpr (kEndsDepths<C>)
      load_depth<B>(place, map, full, across + at, down, min(B::kDown, depth.end - down));
    else if constexpr (C::kPairs)
      PairCopy<C::kPairs>::box(place, map, full, across + at, down, batch);
    else
      dev::copy_box_4d(place, map, full, across + at, down, batch, half);
  }
}
/// What no block brings of an operand's slot: the rows behind `rows`.
template <class C, class B>
TJ_DEVICE void leave_rows(u32 slot, u32 full, int rows) {
  constexpr int kDepthBytes = B::kDepth * dev::kElementBytes<typename C::Element>;
  static_assert(kRowBytes<C, B::kMnMajor> == kSwizzleRowBytes, "rows of a block are whole patterns");
  if constexpr (B::kMnMajor) {
    dev::copy_nothing(slot + rows / kBlockColumns<C> * B::kPitch, (B::kRows - rows) * kDepthBytes, full);
  } else {
    dev::copy_nothing<B::kAcross / kBlockColumns<C>>(slot + rows * kSwizzleRowBytes,
                                                     (B::kRows - rows) * kSwizzleRowBytes, full, B::kPitch);
  }
}
/// This block's share of an operand's slot: all that is across, part of what goes down. Kernels that skip bring `rows`
/// rows, in whole boxes of `box`.
template <class C, class B, class Share>
TJ_DEVICE void load_operand(const TensorMap* map, int row, Depth depth, int batch, u32 slot, u32 full, Share share,
                            int rows, int box, int half = 0) {
  constexpr int kDown = B::kDown / Share::kParts;
  static_assert(kDown * Share::kParts == B::kDown && kDown * kSwizzleRowBytes % kSwizzleAtomBytes == 0,
                "parts are whole swizzle patterns");
  const int first = static_cast<int>(share.part) * kDown;
  if constexpr (kSkips<C> && !B::kMnMajor) {
    const int mine = min(rows - first, kDown);
    if (mine <= box) {  // the usual case, by itself: a loop's end would hold up the thread that issues the copies
      // A block by itself has rows of the matrix.
      if (kBlocks<C> == 1 || mine > 0) load_boxes<C, B>(map, row, depth, batch, slot, full, share, first, rows, half);
    } else {
#pragma unroll 1
      for (int down = 0; down < mine; down += box)
        load_boxes<C, B>(map, row, depth, batch, slot, full, share, first + down, rows, half);
    }
  } else {
    load_boxes<C, B>(map, row, depth, batch, slot, full, share, first, rows, half);
  }
  if constexpr (kSkips<C>) {
    if (rows < B::kRows) leave_rows<C, B>(slot, full, rows);
  }
}
template <class C, class Share = dev::Share<1>>
TJ_DEVICE void load_a(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full, Share share = {}) {
  const Params& params = loader.params;
  load_operand<C, Block<C::kLeftMn, kLeftRows<C>, C::kSlotRows, C::kBlockK>>(
      &params.a, tile.row, depth_of<C>(tile, i), tile.left_batch, slot, full, share, tile.left_rows, tile.left_box);
}
template <class C, class Share = dev::Share<1>>
TJ_DEVICE void load_b(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full, Share share = {}) {
  const Params& params = loader.params;
  // Each block of a pair has half of the columns.
  const int column = tile.column + (C::kPairs ? static_cast<int>(dev::cluster_rank() % 2u) * C::kSlotColumns : 0);
  // With a gate the slot has its rows first, then those of what it multiplies.
  constexpr int kRows = C::kSlotColumns / kHalves<C>;
  static_assert(kHalves<C> == 1 || (!C::kRightMn && kRows * kSwizzleRowBytes % kSwizzleAtomBytes == 0),
                "halves are whole swizzle patterns");
#pragma unroll
  for (int half = 0; half < kHalves<C>; ++half)
    load_operand<C, Block<C::kRightMn, kRows, C::kSlotColumns, C::kBlockK>>(
        &params.b, column, depth_of<C>(tile, i), tile.right_batch, slot + half * kRows * kSwizzleRowBytes, full, share,
        tile.right_rows, tile.right_box, half);
}
template <class C>
TJ_DEVICE void load_ab(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  load_a(loader, tile, i, slot, full);
  load_b(loader, tile, i, slot + kLeftBytes<C>, full);
}

}  // namespace tj::ops::gemm
