// A thread's columns of a row, which lie next to each other: read and written as f32, whatever type memory has.
//
// Decides how a row's end is reached. Invariant: nothing behind the row is touched.
#pragma once

#include "types.cuh"

namespace tj::ops {

using dev::u32;

inline constexpr int kColumns = 4;  ///< of a thread

/// left: columns from the first to the row's end. wide: rows may be accessed kColumns elements at a time.
TJ_DEVICE void read_columns(dev::F32, const void* base, long long at, int left, bool wide, float (&values)[kColumns]) {
  const float* from = static_cast<const float*>(base) + at;
  if (wide && left >= kColumns) return dev::load_global(from, values);
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    if (c < left) values[c] = dev::load_global(from + c);
}
template <class Tag>
TJ_DEVICE void read_columns(Tag tag, const void* base, long long at, int left, bool wide, float (&values)[kColumns]) {
  const unsigned short* from = static_cast<const unsigned short*>(base) + at;
  u32 words[2] = {};
  if (wide && left >= kColumns) {
    dev::load_global(from, words);
  } else {
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (c < left) words[c / 2] |= dev::load_global_u16(from + c) << c % 2 * 16;
  }
  dev::unpack(tag, words[0], values[0], values[1]);
  dev::unpack(tag, words[1], values[2], values[3]);
}
TJ_DEVICE void write_columns(dev::F32, void* base, long long at, int left, bool wide, const float (&values)[kColumns]) {
  float* to = static_cast<float*>(base) + at;
  if (wide && left >= kColumns) return dev::store_global(to, values);
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    if (c < left) dev::store_global(to + c, values[c]);
}
template <class Tag>
TJ_DEVICE void write_columns(Tag tag, void* base, long long at, int left, bool wide, const float (&values)[kColumns]) {
  unsigned short* to = static_cast<unsigned short*>(base) + at;
  const u32 words[2] = {dev::pack(tag, values[0], values[1]), dev::pack(tag, values[2], values[3])};
  if (wide && left >= kColumns) return dev::store_global(to, words[0], words[1]);
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    if (c < left) dev::store_global_u16(to + c, words[c / 2] >> c % 2 * 16 & 0xffffu);
}

}  // namespace tj::ops
