// The end of a swapped tile, whose rows of sums are columns of d. Included by store.cuh; staging.cuh has the way
// through shared memory.
//
// Decides how accumulator fragments become elements of d, straight to memory. A thread has two rows
// of sums: two columns of d. Invariant: nothing outside d is written, nothing outside c and bias is read.
#pragma once

namespace tj::ops::gemm {

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
/// An element of d, rounded.
template <class Tag>
TJ_DEVICE void write_element(Tag tag, void* base, long long at, float value) {
  dev::store_global_u16(static_cast<unsigned short*>(base) + at, dev::pack(tag, value, 0.0f));
}
TJ_DEVICE void write_element(dev::F32, void* base, long long at, float value) {
  dev::store_global(static_cast<float*>(base) + at, value);
}

/// A column of d that a thread has, and its bias.
template <class C>
struct Column {
  int at;
  bool inside;
  float bias = 0.0f;

  TJ_DEVICE Column(const Consumer<C>& consumer, const Tile& tile, int half)
      : at(tile.column + consumer.row(0) + consumer.lane / 4 + 8 * half), inside(at < consumer.params.n) {
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

/// values = activation(alpha * sums + beta * c + bias) of one part of a column.
template <class C>
TJ_DEVICE void finish_swapped(const Consumer<C>& consumer, const Tile& tile, const Column<C>& column, int part,
                              int half, float (&values)[8]) {
  const Params& params = consumer.params;
  const float factor = product_factor(consumer);
  float addends[C::kAddC ? 8 : 1] = {};  // all loads before the first use: one after the other took 600 cycles each
  if constexpr (C::kAddC) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = swapped_row(consumer, tile, part, i);
      if (Parts<C>::has(part, i) && column.inside && row < params.m)
        addends[i] = read_element(typename C::Output{}, params.c,
                                  tile.batch * params.c_stride_batch + row * params.c_stride_row + column.at);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float value = factor * sum_of(consumer, 0, part, i, half);
    if constexpr (C::kAddC) value = dev::multiply_add(params.beta, addends[i], value);
    values[i] = activate<C::kActivation>(value + column.bias);
  }
}

/// d, straight to memory. Eight threads have neighbouring columns of a row.
template <class C>
TJ_DEVICE void store_swapped(Consumer<C>& consumer, const Tile& tile) {
  const Params& params = consumer.params;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Column<C> column(consumer, tile, half);
#pragma unroll
    for (int part = 0; part < Parts<C>::kCount; ++part) {
      float values[8];
      finish_swapped(consumer, tile, column, part, half, values);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int row = swapped_row(consumer, tile, part, i);
        if (Parts<C>::has(part, i) && column.inside && row < params.m)
          write_element(typename C::Output{}, params.d_data,
                        tile.matrix * params.d_stride_batch + row * params.d_stride_row + column.at, values[i]);
      }
    }
  }
}

}  // namespace tj::ops::gemm
