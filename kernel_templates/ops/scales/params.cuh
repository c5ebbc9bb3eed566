// The places of the scales of blocks that a kernel writes. The host writes them down, and the device reads them.
#pragma once

namespace tj::ops {

inline constexpr int kScaleBlock = 128;  ///< elements of a row that a scale serves
inline constexpr int kScalesPacked = 4;  ///< blocks whose exponents make a word

struct BlockScales {
  void* data;                   ///< f32; with `packed` words of kScalesPacked exponents
  long long batch, row, block;  ///< strides, in scales or words
  int blocks;                   ///< of a row
  int powers_of_two;            ///< scales are rounded up to such
  int packed;                   ///< scales are exponents of 8 bits
};

}  // namespace tj::ops
