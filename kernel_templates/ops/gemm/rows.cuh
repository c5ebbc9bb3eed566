// Operands of a matrix product whose rows begin anywhere, brought to shared memory by the threads of roles: the bodies
// read_a and read_b.
//
// Decides which warp brings which row, and puts it where the copy engine would. Included after the family's node
// bodies, by units whose graph has these nodes. A warp reads words of 4 bytes; where a row begins between two, each
// lane joins halves of its own and its neighbour's. Invariant: nothing outside a and b is read; elements outside are
// zero.
#pragma once

namespace tj::ops::gemm {

/// No state of its own.
template <class C_>
struct RowReader {
  using C = C_;
  const Operands& operands;
  const int warp, lane;
  TJ_DEVICE RowReader(const Params& params, int)
      : operands(params.operands),
        warp(static_cast<int>(dev::warp_index())),
        lane(static_cast<int>(dev::lane_index())) {}
};

/// A lane has words lane and lane + 32 of a row, and the first lane the word behind all of them.
struct RowWords {
  u32 words[3];
  bool between;  ///< the row begins between two words: its first element is the first word's second half
};

/// Elements `at` and at + 1 of a row as a word; 0 for those before `first` and from `end` on.
TJ_DEVICE u32 word_at(const unsigned short* row, int at, int first, int end) {
  const bool low = at >= first && at < end, high = at + 1 < end;
  if (low && high) return dev::load_global_u32(row + at);
  if (low) return dev::load_global_u16(row + at);
  return high ? dev::load_global_u16(row + at + 1) << 16 : 0u;
}
/// A lane's words of a row's elements k to k + Depth - 1, of which `end` are there. `row` begins at element k.
template <int Depth>
TJ_DEVICE void load_edge(const unsigned short* row, int k, int end, int lane, RowWords& loaded) {
  const int first = loaded.between ? -1 : 0, least = k > 0 ? -1 : 0;
  loaded.words[0] = word_at(row, first + 2 * lane, least, end);
  loaded.words[1] = word_at(row, first + Depth / 2 + 2 * lane, least, end);
  loaded.words[2] = loaded.between && lane == 0 ? word_at(row, first + Depth, least, end) : 0u;
}
/// The same words, where all of them lie in the row, and one element more on both sides. `own` is the lane's first
/// word, were the row's begin a word's.
template <int Depth>
TJ_DEVICE void load_row(const unsigned short* own, int lane, RowWords& loaded) {
  const unsigned short* from = own - (loaded.between ? 1 : 0);
  loaded.words[0] = dev::load_global_u32(from);
  loaded.words[1] = dev::load_global_u32(from + Depth / 2);
  if (loaded.between && lane == 0) loaded.words[2] = dev::load_global_u32(from + Depth);
}
/// A warp puts a row into its place in a slot: parts of 128 bytes that are `pitch` apart.
TJ_DEVICE void store_row(const RowWords& loaded, int lane, u32 place, u32 pitch) {
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    u32 word = loaded.words[part];
    if (loaded.between) {
      const u32 next = dev::shuffle_from(lane == 0 ? loaded.words[part + 1] : word, (lane + 1) % 32);
      word = word >> 16 | next << 16;
    }
    dev::store_shared(place + static_cast<u32>(part) * pitch, word);
  }
}

/// This warp's rows of a block: all loads before the first is used. Rows outside are zero.
template <int Rows, int SlotRows, int Warps, int Depth>
TJ_DEVICE void read_rows(const Operand& operand, int batch, int row, int k, u32 slot, int warp, int lane) {
  static_assert(Depth == 128, "a lane has two words");
  static_assert(Rows % Warps == 0);
  constexpr int kMine = Rows / Warps;
  RowWords loaded[kMine] = {};
  const long long step = Warps * operand.stride_down;
  const auto* from = static_cast<const unsigned short*>(operand.data) + batch * operand.stride_batch +
                     (row + warp) * operand.stride_down + k;
  const int inside = operand.down - row - warp, end = operand.across - k;
  if (k > 0 && end >= Depth + 2) {
    const unsigned short* own = from + 2 * lane;
#pragma unroll
    for (int r = 0; r < kMine; ++r, own += step) {
      loaded[r].between = (reinterpret_cast<u64>(own) & 2u) != 0;
      if (r * Warps < inside) load_row<Depth>(own, lane, loaded[r]);
    }
  } else {
#pragma unroll
    for (int r = 0; r < kMine; ++r, from += step) {
      loaded[r].between = (reinterpret_cast<u64>(from) & 2u) != 0;
      if (r * Warps < inside) load_edge<Depth>(from, k, end, lane, loaded[r]);
    }
  }
  const int place = warp * kSwizzleRowBytes + (lane / 4 ^ warp % 8) * 16 + lane % 4 * 4;
#pragma unroll
  for (int r = 0; r < kMine; ++r)
    store_row(loaded[r], lane, slot + static_cast<u32>(r * Warps * kSwizzleRowBytes + (place ^ r * Warps % 8 * 16)),
              SlotRows * kSwizzleRowBytes);
}
/// An operand's rows in a slot, and who reads them: `Turn` of a role's warps read iteration i, and others the next one.
/// It is under way meanwhile.
template <int Rows_, int SlotRows_, int Warps_, int Turn_>
struct Reading {
  static constexpr int kRows = Rows_, kSlotRows = SlotRows_, kWarps = Warps_, kTurn = Turn_;
  static_assert(kWarps % kTurn == 0);
};
template <class R, class C>
TJ_DEVICE void take_turns(const RowReader<C>& reader, const Operand& operand, const Tile& tile, int row, int i,
                          u32 slot) {
  const int warp = reader.warp % R::kWarps, iteration = tile.first + i;
  if (warp / R::kTurn != i % (R::kWarps / R::kTurn)) return;
  read_rows<R::kRows, R::kSlotRows, R::kTurn, C::kBlockK>(operand, tile.batch, row, iteration * C::kBlockK, slot,
                                                          warp % R::kTurn, reader.lane);
}
template <class C>
TJ_DEVICE void read_a(RowReader<C>& reader, const Tile& tile, int i, u32 slot) {
  take_turns<Reading<C::kBlockM, C::kSlotRows, C::kLeftWarps, 4>>(reader, reader.operands.a, tile, tile.row, i, slot);
}
template <class C>
TJ_DEVICE void read_b(RowReader<C>& reader, const Tile& tile, int i, u32 slot) {
  take_turns<Reading<C::kBlockN, C::kSlotColumns, C::kRightWarps, 8>>(reader, reader.operands.b, tile, tile.column, i,
                                                                      slot);
}

}  // namespace tj::ops::gemm
