// Numbers of f32 as two of 16 bits. Included by node bodies.
//
// Decides how a number is split: the second term is what rounding the first one loses.
#pragma once

namespace tj::ops::delta_chunks {

using dev::u32;

template <class Tag>
TJ_DEVICE void split_pair(Tag tag, float first, float second, u32& high, u32& low) {
  float high_first, high_second;
  high = dev::pack(tag, first, second);
  dev::unpack(tag, high, high_first, high_second);
  low = dev::pack(tag, first - high_first, second - high_second);
}

}  // namespace tj::ops::delta_chunks
