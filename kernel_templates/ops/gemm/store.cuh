// The end of a matrix product's tile: scale, add, activate, round, store. Included by the family's node bodies.
//
// Decides how accumulator fragments become elements of d, straight to memory. This file is included after the family's
// consumer. For each of its warps the consumer has kRowBlocks times sixteen rows of kColumns columns. sum(block, i)
// gives sums in the order of a warpgroup's products; row(block) and column() say where those begin in the tile; lane is
// the thread's. finished() lets the sums be read, bring(part) is called before the sums of a part are read, and
// afresh() before each row. kKeepsRows says that there are registers for the places of all its rows. Invariant: nothing
// outside d is written, nothing outside c and bias is read.
#pragma once

#include "fragments.cuh"
#include "ops/own_end.cuh"

namespace tj::ops::gemm {

/// A row is finished in parts of 32 columns of the warp's, of which a thread has two in each group of 8: values[2b + e]
/// belongs to group b. The last part may have fewer groups. With a gate these are d's columns.
template <class C>
struct Parts {
  static constexpr int kColumns = Consumer<C>::kColumns / kHalves<C>, kCount = (kColumns + 31) / 32;
  static constexpr bool kWhole = kColumns % 32 == 0;
  /// Does values[i] of a part belong to a column?
  static TJ_DEVICE constexpr bool has(int part, int i) { return 4 * part + i / 2 < kColumns / 8; }
  static TJ_DEVICE constexpr int sum(int part, int i, int half) { return 4 * (4 * part + i / 2) + 2 * half + i % 2; }
  /// Groups of a part.
  static TJ_DEVICE constexpr int groups(int part) { return min(4, kColumns / 8 - 4 * part); }
  /// The column of values[0].
  static TJ_DEVICE int column(int part, int lane) { return 32 * part + lane % 4 * 2; }
};

/// A row of c, d or bias: where it begins, how many elements it has, whether it may be accessed 16 bytes (f32: 8) at a
/// time.
struct Row {
  const void* begin;
  int columns;
  bool wide;
};

/// An element of c or bias.
template <class Tag>
TJ_DEVICE float read_element(Tag tag, const void* base, long long at) {
  float value, none;
  dev::unpack(tag, dev::load_global_u16(static_cast<const unsigned short*>(base) + at), value, none);
  return value;
}
TJ_DEVICE float read_element(dev::F32, const void* base, long long at) {
  return dev::load_global(static_cast<const float*>(base) + at);
}

/// Eight 16-bit elements of a row as words.
TJ_DEVICE void read_words(const Row& row, int column, u32 (&words)[4]) {
  const unsigned short* eight = static_cast<const unsigned short*>(row.begin) + column;
  words[0] = words[1] = words[2] = words[3] = 0;
  if (row.wide && column + 8 <= row.columns) return dev::load_global(eight, words);
#pragma unroll 1  // rare, and long when written out
  for (int e = min(8, row.columns - column) - 1; e >= 0; --e) {
    words[3] = words[3] << 16 | words[2] >> 16;
    words[2] = words[2] << 16 | words[1] >> 16;
    words[1] = words[1] << 16 | words[0] >> 16;
    words[0] = words[0] << 16 | dev::load_global_u16(eight + e);
  }
}
/// What a thread loads of a part of a row: of 16 bits the 8 columns of one group.
template <class Tag>
struct Eight {
  u32 words[4];
};
template <>
struct Eight<dev::F32> {
  float values[8];
};
/// Can a thread access two f32 elements at a time in all groups of a part? `columns`: of the row, from its first on.
TJ_DEVICE bool in_pairs(bool wide, int columns, int groups) { return wide && columns >= 8 * groups - 6; }
/// The column of values[i], from that of values[0] on.
TJ_DEVICE constexpr int column_of(int i) { return 4 * (i - i % 2) + i % 2; }
/// values[2b + e] = the row's elements at this thread's columns of group b; 0 outside.
TJ_DEVICE void load_part(dev::F32, const Row& row, int column, int, int groups, Eight<dev::F32>& eight) {
  const float* begin = static_cast<const float*>(row.begin) + column;
  const int columns = row.columns - column;
#pragma unroll
  for (int i = 0; i < 8; ++i) eight.values[i] = 0.0f;
  if (in_pairs(row.wide, columns, groups)) {
#pragma unroll
    for (int b = 0; b < groups; ++b) dev::load_global(begin + 8 * b, eight.values[2 * b], eight.values[2 * b + 1]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 2 * groups; ++i)
    if (column_of(i) < columns) eight.values[i] = dev::load_global(begin + column_of(i));
}
TJ_DEVICE void part_of(dev::F32, const Eight<dev::F32>& eight, float (&values)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) values[i] = eight.values[i];
}
/// Lane q of a quad loads the 8 columns of group q; a transpose brings each pair to its lane.
template <class Tag>
TJ_DEVICE void load_part(Tag, const Row& row, int column, int lane, int, Eight<Tag>& eight) {
  read_words(row, column + 6 * (lane % 4), eight.words);
}
template <class Tag>
TJ_DEVICE void part_of(Tag tag, const Eight<Tag>& eight, float (&values)[8]) {
  u32 words[4] = {eight.words[0], eight.words[1], eight.words[2], eight.words[3]};
  dev::transpose_quad(words);
#pragma unroll
  for (int b = 0; b < 4; ++b) dev::unpack(tag, words[b], values[2 * b], values[2 * b + 1]);
}
template <class Tag>
TJ_DEVICE void read_part(Tag tag, const Row& row, int column, int lane, int groups, float (&values)[8]) {
  Eight<Tag> eight;
  load_part(tag, row, column, lane, groups, eight);
  part_of(tag, eight, values);
}
/// A row of d: how many of its elements lie in d.
struct Target {
  void* begin;
  int columns;
  bool wide;
};
TJ_DEVICE void write_part(dev::F32, const Target& row, int column, int, int groups, const float (&values)[8]) {
  float* begin = static_cast<float*>(row.begin) + column;
  const int columns = row.columns - column;
  if (in_pairs(row.wide, columns, groups)) {
#pragma unroll
    for (int b = 0; b < groups; ++b) dev::store_global(begin + 8 * b, values[2 * b], values[2 * b + 1]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 2 * groups; ++i)
    if (column_of(i) < columns) dev::store_global(begin + column_of(i), values[i]);
}
/// A transpose gives lane q of a quad the 8 of group q: 16 bytes.
template <class Tag>
TJ_DEVICE void write_part(Tag tag, const Target& row, int column, int lane, int, const float (&values)[8]) {
  u32 words[4];
#pragma unroll
  for (int b = 0; b < 4; ++b) words[b] = dev::pack(tag, values[2 * b], values[2 * b + 1]);
  dev::transpose_quad(words);
  const int first = column + 6 * (lane % 4);
  unsigned short* eight = static_cast<unsigned short*>(row.begin) + first;
  dev::store_halves(eight, words, row.columns - first, row.wide);
}

/// Element `at` of a strided matrix's row.
template <class Tag>
TJ_DEVICE const void* row_begin(Tag, const void* base, long long at) {
  return static_cast<const unsigned short*>(base) + at;
}
TJ_DEVICE const void* row_begin(dev::F32, const void* base, long long at) {
  return static_cast<const float*>(base) + at;
}

/// The place of a row of a thread's fragments.
struct Place {
  int row, column;  ///< of d: the row, and where the warp's columns begin
  bool inside;      ///< is the row one of d's?
};
template <class C>
TJ_DEVICE Place place_of(const Consumer<C>& consumer, const Tile& tile, int block, int half) {
  const int unit = consumer.row(block) + consumer.lane / 4 + 8 * half;
  const int row = tile.row + unit;
  return {row, tile.column + consumer.column(), unit < C::kBlockM && row < rows_end<C>(consumer.params, tile)};
}

}  // namespace tj::ops::gemm

#include "ops/gemm/store_pieces.cuh"

namespace tj::ops::gemm {

/// This thread's elements of c in kParts parts of its rows, loaded together. Loaded one by one, each would cost the
/// tile's end a wait for memory. Consumers of more rows have no registers for it.
template <class C>
struct Addends {
  using Element = Addend<C>;
  static constexpr bool kAhead = C::kAddC && Consumer<C>::kRowBlocks == 1, kKeeps = kAhead && Consumer<C>::kKeepsRows;
  static constexpr int kParts = dev::kElementBytes<Element> == 2 ? 2 : 1;
  Eight<Element> eight[kParts][2];
  Row kept[2];  ///< both rows, where there are registers for them

  TJ_DEVICE Addends(const Consumer<C>& consumer, const Tile& tile) {
    if constexpr (kKeeps) {
#pragma unroll
      for (int half = 0; half < 2; ++half) kept[half] = row(consumer, tile, place_of(consumer, tile, 0, half));
    }
  }
  TJ_DEVICE static Row row(const Consumer<C>& consumer, const Tile& tile, const Place& place) {
    const Params& params = consumer.params;
    const long long begin = tile.batch * params.c_stride_batch + place.row * params.c_stride_row;
    return {row_begin(Element{}, params.c, begin), place.inside ? params.n : 0, params.wide_c != 0};
  }
  /// Before the part is finished: those of it and of the parts behind it.
  TJ_DEVICE void load(const Consumer<C>& consumer, const Tile& tile, int part) {
    if constexpr (kAhead) {
      if (part % kParts != 0) return;
#pragma unroll
      for (int at = 0; at < 2 * kParts; ++at) {
        if (part + at / 2 >= Parts<C>::kCount) break;
        const Row from = kKeeps ? kept[at % 2] : row(consumer, tile, place_of(consumer, tile, 0, at % 2));
        load_part(Element{}, from, tile.column + consumer.column() + Parts<C>::column(part + at / 2, consumer.lane),
                  consumer.lane, Parts<C>::groups(part + at / 2), eight[at / 2][at % 2]);
      }
    }
  }
  TJ_DEVICE void read(const Consumer<C>& consumer, const Tile& tile, const Place& place, int part, int half,
                      float (&values)[8]) const {
    if constexpr (kAhead)
      part_of(Element{}, eight[part % kParts][half], values);
    else
      read_part(Element{}, row(consumer, tile, place), place.column + Parts<C>::column(part, consumer.lane),
                consumer.lane, Parts<C>::groups(part), values);
  }
};

/// A thread's elements of bias in a part of its columns, and with a gate those of what it multiplies.
template <class C>
struct Biases {
  float values[kHalves<C>][8] = {};
};

/// The place in d of values[i] of a part of a row.
template <class C>
TJ_DEVICE EndPlace end_place(const Consumer<C>& consumer, const Tile& tile, const Place& place, int part, int i) {
  return {place.row, place.column + Parts<C>::column(part, consumer.lane) + 4 * (i - i % 2) + i % 2, tile.batch};
}

/// values = gate(alpha * sums + bias) * (alpha * other sums + bias) of one part of a row. A text comes behind.
template <class C>
TJ_DEVICE void finish_gated(const Consumer<C>& consumer, const Tile& tile, const Place& place, int block, int part,
                            int half, const Biases<C>& bias, float (&values)[8]) {
  static_assert(!C::kAddC && !kSplits<C> && C::kActivation == 0 && Consumer<C>::kColumns == C::kBlockN,
                "a gate has sums of whole rows of a tile");
  constexpr int kOther = C::kBlockN / 4;  // sums from a column's to those of the column that it multiplies
  const float factor = product_factor(consumer);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (!Parts<C>::has(part, i)) {
      values[i] = 0.0f;
      continue;
    }
    const int at = Parts<C>::sum(part, i, half);
    const float gate = factor * consumer.sum(block, at) + bias.values[0][i],
                other = factor * consumer.sum(block, at + kOther) + bias.values[1][i];
    values[i] = activate<kGate<C>>(gate) * other;
    if constexpr (kOwnEnd<C>)
      values[i] = own_end<C>(consumer.params, values[i], end_place(consumer, tile, place, part, i));
  }
}

/// The finished values of one part of a row (own_end.cuh).
template <class C>
TJ_DEVICE void finish_part(const Consumer<C>& consumer, const Tile& tile, const Place& place, int block, int part,
                           int half, const Biases<C>& bias, const Addends<C>& addends, float (&values)[8]) {
  if constexpr (kGate<C> != 0) return finish_gated(consumer, tile, place, block, part, half, bias, values);
  const float factor = product_factor(consumer);
  float earlier[8] = {}, added[8] = {};
  constexpr bool kReads = kSplits<C> && !kMerges<C>;
  if constexpr (kReads) dev::read_sums<kLanes>(tile.piece, sums_place(consumer, block, part, half), earlier);
  if constexpr (C::kAddC) addends.read(consumer, tile, place, part, half, added);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float sum = sum_of(consumer, block, part, i, half);
    values[i] = ended<C>(consumer.params, factor * (kReads ? earlier[i] + sum : sum), added[i], bias.values[0][i],
                         end_place(consumer, tile, place, part, i));
  }
}
/// Elements one by one: halves may take turns.
template <class C>
TJ_DEVICE void read_gated_bias(const Consumer<C>& consumer, const Tile& tile, int part, Biases<C>& bias) {
  const Params& params = consumer.params;
  const int first = tile.column + Parts<C>::column(part, consumer.lane);
  const long long begin = tile.batch * params.bias_stride_batch + static_cast<long long>(first) * params.bias_step;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int more = 4 * (i - i % 2) + i % 2;
    if (!Parts<C>::has(part, i) || first + more >= params.n) continue;
    const long long at = begin + more * params.bias_step;
    bias.values[0][i] = read_element(Added<C>{}, params.bias, at);
    bias.values[1][i] = read_element(Added<C>{}, params.bias, at + params.bias_other);
  }
}
template <class C>
TJ_DEVICE void read_bias(const Consumer<C>& consumer, const Tile& tile, int part, Biases<C>& bias) {
  if constexpr (C::kBias && kGate<C> != 0) return read_gated_bias(consumer, tile, part, bias);
  const Added<C> tag{};
  const Params& params = consumer.params;
  const int column = tile.column + consumer.column() + Parts<C>::column(part, consumer.lane);
  if constexpr (C::kBias)
    read_part(tag,
              {row_begin(tag, params.bias, tile.batch * params.bias_stride_batch), params.n, params.wide_bias != 0},
              column, consumer.lane, Parts<C>::groups(part), bias.values[0]);
}

/// A row of a thread's fragments in d.
struct RowOfD {
  Place place;
  Target target;
};
template <class C>
TJ_DEVICE RowOfD row_of_d(const Consumer<C>& consumer, const Tile& tile, int block, int half) {
  const Params& params = consumer.params;
  const Place place = place_of(consumer, tile, block, half);
  const long long begin = tile.matrix * params.d_stride_batch + place.row * params.d_stride_row;
  const int columns = Parts<C>::kWhole ? params.n : min(params.n, place.column + Parts<C>::kColumns);
  return {place,
          {const_cast<void*>(row_begin(typename C::Output{}, params.d_data, begin)), place.inside ? columns : 0,
           params.wide_d != 0}};
}

/// d, straight to memory. What follows from a row alone is made once where there are registers for it. The compiler
/// would find that out itself, from a copy for each part, and take a tenth of its time for it.
template <class C>
TJ_DEVICE void store(Consumer<C>& consumer, const Tile& tile) {
  const typename C::Output tag{};
  consumer.finished();
  if (!finishes<C>(tile)) return leave_piece(consumer, tile);
  merge_pieces(consumer, tile);
  if constexpr (kSwapped<C>) return store_swapped(consumer, tile);
  constexpr int kRows = 2 * Consumer<C>::kRowBlocks;
  constexpr bool kKeeps = Consumer<C>::kKeepsRows;
  RowOfD rows_of_d[kRows];
  if constexpr (kKeeps) {
#pragma unroll
    for (int rows = 0; rows < kRows; ++rows) rows_of_d[rows] = row_of_d(consumer, tile, rows / 2, rows % 2);
  }
  Addends<C> addends(consumer, tile);
#pragma unroll
  for (int part = 0; part < Parts<C>::kCount; ++part) {
    addends.load(consumer, tile, part);
    consumer.bring(part);
    consumer.afresh();
    Biases<C> bias;
    read_bias(consumer, tile, part, bias);
#pragma unroll
    for (int rows = 0; rows < kRows; ++rows) {
      consumer.afresh();
      const int block = rows / 2, half = rows % 2;
      const RowOfD row = kKeeps ? rows_of_d[rows] : row_of_d(consumer, tile, block, half);
      float values[8];
      finish_part(consumer, tile, row.place, block, part, half, bias, addends, values);
      write_part(tag, row.target, row.place.column + Parts<C>::column(part, consumer.lane), consumer.lane,
                 Parts<C>::groups(part), values);
    }
  }
}

}  // namespace tj::ops::gemm
