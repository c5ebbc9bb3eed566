// Operands of a matrix product whose rows begin anywhere, brought to shared memory by the threads of roles: the bodies
// read_a and read_b.
//
// Decides which warp brings which rows, and puts them where the copy engine would. Included after the family's node
// bodies, by units whose graph has these nodes. Rows whose numbers differ by 8 begin equally far behind a multiple of
// 16 bytes. So the halves of a warp read two such rows by vectors of 16 bytes, and one shift serves all lanes.
// Invariant: no byte outside the rows of a and b is read; elements outside are zero.
#pragma once

namespace tj::ops::gemm {

inline constexpr int kEight = 8;                     ///< elements of a vector of 16 bytes
inline constexpr int kAlikeRows = 8;                 ///< rows so far apart begin at the same place of a vector
inline constexpr int kRowPair = 2 * kAlikeRows;      ///< rows from one pair of a warp to its next
inline constexpr int kLeftTurn = 4, kRightTurn = 8;  ///< warps that read an iteration's rows of a, of b
inline constexpr int kMostKinds = kAlikeRows / kLeftTurn;

/// Rows of an operand's block that begin at the same place of a vector: one of each 8.
struct AlikeRows {
  const unsigned short* first;  ///< the first row of them
  long long step;               ///< elements from one to the next
  int inside;                   ///< so many are in the operand
  int across;                   ///< elements of a row
  int shift;                    ///< elements from a vector's begin to the row's, 0 to 7
};

/// Keeps where the rows of its tile are: an iteration computes little more than what it adds to them.
template <class C_>
struct RowReader {
  using C = C_;
  const Operands& operands;
  const int warp, lane;
  AlikeRows rows[kMostKinds];
  TJ_DEVICE RowReader(const Params& params, int)
      : operands(params.operands),
        warp(static_cast<int>(dev::warp_index())),
        lane(static_cast<int>(dev::lane_index())) {}
};

/// `row`: the first of them.
TJ_DEVICE AlikeRows alike_rows(const Operand& operand, int batch, int row) {
  AlikeRows rows;
  rows.first =
      static_cast<const unsigned short*>(operand.data) + batch * operand.stride_batch + row * operand.stride_down;
  rows.step = kAlikeRows * operand.stride_down;
  rows.inside = (operand.down - row + kAlikeRows - 1) / kAlikeRows;
  rows.across = operand.across;
  rows.shift = dev::uniform(static_cast<int>(reinterpret_cast<u64>(rows.first) / 2 % kEight));
  return rows;
}

/// Elements of a row that share a vector with elements of another row: at its begin, and at its end. They are read one
/// by one, and only blocks at a row's begin or end have some.
template <int Depth, int Rows>
struct LooseElements {
  static constexpr int kAtOnce = 32 / kEight;  // rows that a warp's lanes have at once
  static constexpr int kCount = (Rows + kAtOnce - 1) / kAtOnce;
  u32 values[2][kCount];
  u32 places;  ///< whether there is an element: a bit for each of the values

  /// The element of the block that this lane reads of a side; negative where there is none.
  TJ_DEVICE static int place(const AlikeRows& rows, int k, int side, int lane) {
    const int head = min(-rows.shift & (kEight - 1), rows.across);
    const int tail = max(rows.across - ((rows.across + rows.shift) & (kEight - 1)), head);
    const int element = (side == 0 ? 0 : tail) + lane % kEight;
    const int at = element - k;
    return element < (side == 0 ? head : rows.across) && at < Depth ? at : -1;
  }
  TJ_DEVICE void load(const AlikeRows& rows, int k, int lane) {
    places = 0;
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int at = place(rows, k, side, lane);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int row = i * kAtOnce + lane / kEight;
        if (at < 0 || row >= min(Rows, rows.inside)) continue;
        values[side][i] = dev::load_global_u16(rows.first + row * rows.step + k + at);
        places |= 1u << (side * kCount + i);
      }
    }
  }
  /// Behind the vectors of all lanes.
  TJ_DEVICE void store(const AlikeRows& rows, int k, int lane, u32 slot, int first_row, u32 pitch) const {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int at = place(rows, k, side, lane);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if ((places >> (side * kCount + i) & 1u) == 0) continue;
        const int row = first_row + (i * kAtOnce + lane / kEight) * kAlikeRows;
        dev::store_shared_u16(slot + static_cast<u32>(at / kSwizzleColumns) * pitch +
                                  static_cast<u32>(row * kSwizzleRowBytes +
                                                   (at % kSwizzleColumns / kEight ^ first_row) * 16 + at % kEight * 2),
                              values[side][i]);
      }
    }
  }
};

/// A lane's part of a pair of rows: two vectors that follow each other. They hold the eight elements that it stores.
struct TwoVectors {
  u32 low[4], high[4];
};
TJ_DEVICE void load_or_zero(const unsigned short* from, bool whole, u32 (&words)[4]) {
#pragma unroll
  for (u32& word : words) word = 0;
  if (whole) dev::load_global(from, words);
}
/// The vectors of the elements from k on, of which those that lie in their row are read. Others are zero: what they
/// have of the row is loose. Whole: all rows are inside, and so are all vectors.
template <bool Whole, int Pairs>
TJ_DEVICE void load_pairs(const AlikeRows& rows, int k, int lane, TwoVectors (&loaded)[Pairs]) {
  const int at = lane % 16 * kEight - rows.shift + k;
  const unsigned short* from = rows.first + lane / 16 * rows.step + at;
  if constexpr (Whole) {
#pragma unroll
    for (int pair = 0; pair < Pairs; ++pair, from += 2 * rows.step) {
      dev::load_global(from, loaded[pair].low);
      dev::load_global(from + kEight, loaded[pair].high);
    }
  } else {
    const bool low = at >= 0 && at + kEight <= rows.across,
               high = at + kEight >= 0 && at + 2 * kEight <= rows.across && rows.shift > 0;
#pragma unroll
    for (int pair = 0; pair < Pairs; ++pair, from += 2 * rows.step) {
      const bool inside = 2 * pair + lane / 16 < rows.inside;
      load_or_zero(from, low && inside, loaded[pair].low);
      load_or_zero(from + kEight, high && inside, loaded[pair].high);
    }
  }
}
/// Eight elements that begin Words words and `bits` bits behind the first vector's begin.
template <int Words>
TJ_DEVICE void join(const TwoVectors& two, u32 bits, u32 (&eight)[4]) {
  const auto word = [&](int i) { return i < 4 ? two.low[i] : two.high[i - 4]; };
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u64 both = static_cast<u64>(word(Words + i + 1)) << 32 | word(Words + i);
    eight[i] = static_cast<u32>(both >> bits);
  }
}
/// A warp puts its rows into their places in a slot: parts of 128 bytes that are `pitch` apart. `slot`: the slot's
/// `first_row`, which is below 8. `count`: how many of the rows the slot has.
template <int Words, int Pairs>
TJ_DEVICE void store_pairs(const TwoVectors (&loaded)[Pairs], int shift, int lane, u32 slot, int first_row, int count,
                           u32 pitch) {
  const u32 bits = static_cast<u32>(shift % 2) * 16u;
  const u32 place =
      slot + (lane % 16 >= 8 ? pitch : 0u) +
      static_cast<u32>((first_row + lane / 16 * kAlikeRows) * kSwizzleRowBytes + (lane % 8 ^ first_row) * 16);
#pragma unroll
  for (int pair = 0; pair < Pairs; ++pair) {
    u32 eight[4];
    join<Words>(loaded[pair], bits, eight);
    if (2 * pair + 1 < count || lane < 16)
      dev::store_shared(place + static_cast<u32>(pair * kRowPair * kSwizzleRowBytes), eight);
  }
}

template <int Pairs>
TJ_DEVICE void store_shifted(const TwoVectors (&loaded)[Pairs], int shift, int lane, u32 slot, int first_row, int count,
                             u32 pitch) {
  if (shift < 2)
    store_pairs<0>(loaded, shift, lane, slot, first_row, count, pitch);
  else if (shift < 4)
    store_pairs<1>(loaded, shift, lane, slot, first_row, count, pitch);
  else if (shift < 6)
    store_pairs<2>(loaded, shift, lane, slot, first_row, count, pitch);
  else
    store_pairs<3>(loaded, shift, lane, slot, first_row, count, pitch);
}

/// This warp's rows of an iteration's block, which are those of some kinds: all loads before the first is used. Rows
/// outside are zero.
template <int Rows, int SlotRows, int Turn, int Depth>
TJ_DEVICE void read_rows(const AlikeRows (&rows)[kMostKinds], int k, u32 slot, int warp, int lane) {
  static_assert(Depth == 16 * kEight, "a half of a warp has a row");
  constexpr int kKinds = kAlikeRows / Turn, kCount = Rows / kAlikeRows, kPairs = (kCount + 1) / 2;
  constexpr u32 kPitch = SlotRows * kSwizzleRowBytes;
  TwoVectors loaded[kKinds][kPairs];
  LooseElements<Depth, kCount> loose[kKinds];
  const bool edge = k == 0 || rows[0].across - k < Depth + kEight;
#pragma unroll
  for (int kind = 0; kind < kKinds; ++kind) {
    if (!edge && rows[kind].inside >= 2 * kPairs) {
      load_pairs<true>(rows[kind], k, lane, loaded[kind]);
    } else {
      load_pairs<false>(rows[kind], k, lane, loaded[kind]);
      if (edge) loose[kind].load(rows[kind], k, lane);
    }
  }
#pragma unroll
  for (int kind = 0; kind < kKinds; ++kind)
    store_shifted(loaded[kind], rows[kind].shift, lane, slot, warp + kind * Turn, kCount, kPitch);
  if (!edge) return;
  dev::warp_sync();
#pragma unroll
  for (int kind = 0; kind < kKinds; ++kind) loose[kind].store(rows[kind], k, lane, slot, warp + kind * Turn, kPitch);
}
/// An operand's rows in a slot, and who reads them: `Turn` of a role's warps read iteration i, and others the next one.
/// It is under way meanwhile.
template <int Rows_, int SlotRows_, int Warps_, int Turn_>
struct Reading {
  static constexpr int kRows = Rows_, kSlotRows = SlotRows_, kWarps = Warps_, kTurn = Turn_;
  static constexpr int kTurns = kWarps / kTurn;
  static_assert(kTurns * kTurn == kWarps && kRows % kAlikeRows == 0 && kAlikeRows % kTurn == 0);
};
template <class R, class C>
TJ_DEVICE void take_turns(RowReader<C>& reader, const Operand& operand, const Tile& tile, int row, int i, u32 slot) {
  const int warp = reader.warp % R::kWarps % R::kTurn;
  if (reader.warp % R::kWarps / R::kTurn != i % R::kTurns) return;
  if (i < R::kTurns) {
#pragma unroll
    for (int kind = 0; kind < kAlikeRows / R::kTurn; ++kind)
      reader.rows[kind] = alike_rows(operand, tile.batch, row + warp + kind * R::kTurn);
  }
  read_rows<R::kRows, R::kSlotRows, R::kTurn, C::kBlockK>(reader.rows, (tile.first + i) * C::kBlockK, slot, warp,
                                                          reader.lane);
}
template <class C>
TJ_DEVICE void read_a(RowReader<C>& reader, const Tile& tile, int i, u32 slot) {
  take_turns<Reading<C::kBlockM, C::kSlotRows, C::kLeftWarps, kLeftTurn>>(reader, reader.operands.a, tile, tile.row, i,
                                                                          slot);
}
template <class C>
TJ_DEVICE void read_b(RowReader<C>& reader, const Tile& tile, int i, u32 slot) {
  take_turns<Reading<C::kBlockN, C::kSlotColumns, C::kRightWarps, kRightTurn>>(reader, reader.operands.b, tile,
                                                                               tile.column, i, slot);
}

}  // namespace tj::ops::gemm
