// Operands of a matrix product brought to shared memory by a role's own threads, without the copy engine: the bodies
// read_a and read_b.
//
// Decides which thread brings what, and puts it where the copy engine would. Included after the family's node bodies,
// by units whose graph has these nodes. Invariant: nothing outside a and b is read; elements outside are zero.
#pragma once

namespace tj::ops::gemm {

/// No state of its own.
template <class C_>
struct Reader {
  using C = C_;
  const Operands& operands;
  template <class P>
  TJ_DEVICE Reader(const P& params, int) : operands(params.operands) {}
};

/// The 8 elements of a row that begin at `across`, as words.
TJ_DEVICE void read_eight(const Operand& operand, int batch, int down, int across, u32 (&words)[4]) {
#pragma unroll
  for (u32& word : words) word = 0;
  if (down >= operand.down || across >= operand.across) return;
  const unsigned short* eight = static_cast<const unsigned short*>(operand.data) + batch * operand.stride_batch +
                                down * operand.stride_down + across;
  if (operand.wide && across + 8 <= operand.across) return dev::load_global(eight, words);
#pragma unroll 1  // rare, and long when written out
  for (int e = min(8, operand.across - across) - 1; e >= 0; --e) {
    words[3] = words[3] << 16 | words[2] >> 16;
    words[2] = words[2] << 16 | words[1] >> 16;
    words[1] = words[1] << 16 | words[0] >> 16;
    words[0] = words[0] << 16 | dev::load_global_u16(eight + e);
  }
}

/// Reads a block of `Across` elements of each of `Down` rows. Parts 64 elements wide follow each other. Each 16 bytes
/// of a row lie at the place that the row's number gives them, as the matrix unit expects.
template <int Across, int Down>
TJ_DEVICE void read_block(const Operand& operand, int batch, int down, int across, u32 slot) {
  constexpr int kEights = kSwizzleColumns / 8, kAll = Across / 8 * Down;
  constexpr int kBatch = kAll / kReaders < kReadsAhead ? kAll / kReaders : kReadsAhead;
  static_assert(kAll % (kReaders * kBatch) == 0);
  const int thread = static_cast<int>((dev::warp_index() & 3u) * 32u + dev::lane_index());
#pragma unroll 1
  for (int first = thread; first < kAll; first += kReaders * kBatch) {
    u32 words[kBatch][4];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = first + i * kReaders, row = at / kEights % Down, part = at / (kEights * Down);
      read_eight(operand, batch, down + row, across + part * kSwizzleColumns + at % kEights * 8, words[i]);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = first + i * kReaders, row = at / kEights % Down, part = at / (kEights * Down);
      const int place = (at % kEights ^ row % kEights) * 16;
      dev::store_shared(slot + static_cast<u32>((part * Down + row) * kSwizzleRowBytes + place), words[i]);
    }
  }
}

template <bool MnMajor, int Rows, int BlockK>
TJ_DEVICE void read_operand(const Operand& operand, int batch, int row, int k, u32 slot) {
  if constexpr (MnMajor)
    read_block<Rows, BlockK>(operand, batch, k, row, slot);
  else
    read_block<BlockK, Rows>(operand, batch, row, k, slot);
}
template <class C>
TJ_DEVICE void read_a(Reader<C>& reader, const Tile& tile, int i, u32 slot) {
  read_operand<C::kLeftMn, C::kBlockM, C::kBlockK>(reader.operands.a, tile.batch, tile.row, i * C::kBlockK, slot);
}
template <class C>
TJ_DEVICE void read_b(Reader<C>& reader, const Tile& tile, int i, u32 slot) {
  read_operand<C::kRightMn, C::kBlockN, C::kBlockK>(reader.operands.b, tile.batch, tile.column, i * C::kBlockK, slot);
}

}  // namespace tj::ops::gemm
