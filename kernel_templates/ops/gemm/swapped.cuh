// The end of a swapped tile, whose rows of sums are columns of d. staging.cuh has the way through shared memory.
//
// Decides how accumulator fragments become elements of d, straight to memory. A thread has two rows of sums of each
// block: two columns of d. Fragments of 16 bits are turned in registers, so that a thread has 8 columns of one row.
// Invariant: nothing outside d is written, nothing outside c and bias is read.
#pragma once

#include "ops/gemm/store.cuh"

namespace tj::ops::gemm {

/// A column of d that a thread has, and its bias.
template <class C>
struct Column {
  int at;
  bool inside;
  float bias = 0.0f;

  TJ_DEVICE Column(const Consumer<C>& consumer, const Tile& tile, int block, int half)
      : at(tile.column + consumer.row(block) + consumer.lane / 4 + 8 * half), inside(at < consumer.params.n) {
    if constexpr (C::kBias) {
      if (inside)
        bias = read_element(typename C::Output{}, consumer.params.bias,
                            tile.batch * consumer.params.bias_stride_batch + at);
    }
  }
};
/// The row of d of values[i] of a part.
template <class C>
TJ_DEVICE int swapped_row(const Consumer<C>& consumer, const Tile& tile, int part, int i) {
  return tile.row + Parts<C>::column(part, consumer.lane) + 4 * (i - i % 2) + i % 2;
}

/// Are fragments turned?
template <class C>
inline constexpr bool kTurned = dev::kElementBytes<typename C::Output> == 2;
/// The place of the 8 elements that a thread has of 16 rows and 16 columns, once their fragments are turned.
struct TurnedPlace {
  int row, column;
  bool inside;  ///< is the row one of the tile's and of d's?
};
template <class C>
TJ_DEVICE TurnedPlace turned_place(const Consumer<C>& consumer, const Tile& tile, int block, int part, int pair) {
  const int unit = 32 * part + 16 * pair + consumer.lane % 4 / 2 * 8 + consumer.lane / 4, row = tile.row + unit;
  return {row, tile.column + consumer.row(block) + consumer.lane % 2 * 8, unit < C::kBlockM && row < consumer.params.m};
}
/// Fragments words[2 group + half], as a thread has them of 8 rows and 8 columns each, to 8 columns of one row.
TJ_DEVICE void turn(u32 (&words)[4]) {
  dev::reconverge();  // lanes at the edge of d have stored the words before by themselves
#pragma unroll
  for (u32& word : words) word = dev::transpose_matrix(word);
  dev::transpose_quad(words);
}
TJ_DEVICE void turn_back(u32 (&words)[4]) {
  dev::transpose_quad(words);
#pragma unroll
  for (u32& word : words) word = dev::transpose_matrix(word);
}

/// This thread's elements of c in kParts parts of its columns, loaded together: one after the other, each would cost
/// the tile's end a wait.
template <class C>
struct SwappedAddends {
  static constexpr bool kWords = C::kAddC && kTurned<C> && dev::kElementBytes<Addend<C>> == 2;
  // Tiles of many rows lack the registers, and a text takes some, too.
  static constexpr int kParts = kWords ? (Parts<C>::kCount > (kOwnEnd<C> ? 4 : 6) ? 2 : 4) : 1;
  u32 words[kParts][2][4];

  TJ_DEVICE void load(const Consumer<C>& consumer, const Tile& tile, int block, int part) {
    if constexpr (kWords) {
      const Params& params = consumer.params;
      if (part % kParts == 0) {
#pragma unroll
        for (int at = 0; at < 2 * kParts; ++at) {
          if (part + at / 2 >= Parts<C>::kCount || !Parts<C>::has(part + at / 2, 4 * (at % 2))) continue;
          const TurnedPlace place = turned_place(consumer, tile, block, part + at / 2, at % 2);
          const long long begin = tile.batch * params.c_stride_batch + place.row * params.c_stride_row;
          read_words(
              {row_begin(typename C::Output{}, params.c, begin), place.inside ? params.n : 0, params.wide_c != 0},
              place.column, words[at / 2][at % 2]);
        }
      }
#pragma unroll
      for (int pair = 0; pair < 2; ++pair)
        if (Parts<C>::has(part, 4 * pair)) turn_back(words[part % kParts][pair]);
    }
  }
  /// values = the elements of c of one part of a column.
  TJ_DEVICE void read(const Consumer<C>& consumer, const Tile& tile, const Column<C>& column, int part, int half,
                      float (&values)[8]) const {
    if constexpr (kWords) {
#pragma unroll
      for (int b = 0; b < 4; ++b)
        if (Parts<C>::has(part, 2 * b))
          dev::unpack(typename C::Output{}, words[part % kParts][b / 2][2 * (b % 2) + half], values[2 * b],
                      values[2 * b + 1]);
    } else {
      const Params& params = consumer.params;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int row = swapped_row(consumer, tile, part, i);
        if (Parts<C>::has(part, i) && column.inside && row < params.m)
          values[i] = read_element(Addend<C>{}, params.c,
                                   tile.batch * params.c_stride_batch + row * params.c_stride_row + column.at);
      }
    }
  }
};

/// The finished values of one part of a column (own_end.cuh).
template <class C>
TJ_DEVICE void finish_swapped(const Consumer<C>& consumer, const Tile& tile, const Column<C>& column, int block,
                              int part, int half, const SwappedAddends<C>& addends, float (&values)[8]) {
  const float factor = product_factor(consumer);
  float added[8] = {};
  if constexpr (C::kAddC) addends.read(consumer, tile, column, part, half, added);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const EndPlace place{swapped_row(consumer, tile, part, i), column.at, tile.batch};
    values[i] =
        ended<C>(consumer.params, factor * sum_of(consumer, block, part, i, half), added[i], column.bias, place);
  }
}

/// Two columns of a part of d, of 32 bits. Eight threads have neighbouring columns of a row.
template <class C>
TJ_DEVICE void write_columns(const Consumer<C>& consumer, const Tile& tile, const Column<C> (&columns)[2], int part,
                             const float (&values)[2][8]) {
  const Params& params = consumer.params;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = swapped_row(consumer, tile, part, i);
      if (Parts<C>::has(part, i) && columns[half].inside && row < params.m)
        dev::store_global(static_cast<float*>(params.d_data) + tile.matrix * params.d_stride_batch +
                              row * params.d_stride_row + columns[half].at,
                          values[half][i]);
    }
  }
}
/// A part of d of 16 bits. Two threads have 16 neighbouring columns of a row.
template <class C>
TJ_DEVICE void write_turned(const Consumer<C>& consumer, const Tile& tile, int block, int part,
                            const float (&values)[2][8]) {
  const Params& params = consumer.params;
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    if (!Parts<C>::has(part, 4 * pair)) break;
    u32 words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w)
      words[w] =
          dev::pack(typename C::Output{}, values[w % 2][4 * pair + w / 2 * 2], values[w % 2][4 * pair + w / 2 * 2 + 1]);
    turn(words);
    const TurnedPlace place = turned_place(consumer, tile, block, part, pair);
    dev::store_halves(static_cast<unsigned short*>(params.d_data) + tile.matrix * params.d_stride_batch +
                          place.row * params.d_stride_row + place.column,
                      words, place.inside ? params.n - place.column : 0, params.wide_d != 0);
  }
}

/// d, straight to memory.
template <class C>
TJ_DEVICE void store_swapped(Consumer<C>& consumer, const Tile& tile) {
#pragma unroll
  for (int block = 0; block < Consumer<C>::kRowBlocks; ++block) {
    const Column<C> columns[2] = {{consumer, tile, block, 0}, {consumer, tile, block, 1}};
    SwappedAddends<C> addends;
#pragma unroll
    for (int part = 0; part < Parts<C>::kCount; ++part) {
      addends.load(consumer, tile, block, part);
      float values[2][8];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        finish_swapped(consumer, tile, columns[half], block, part, half, addends, values[half]);
      if constexpr (kTurned<C>)
        write_turned(consumer, tile, block, part, values);
      else
        write_columns(consumer, tile, columns, part, values);
    }
  }
}

}  // namespace tj::ops::gemm
