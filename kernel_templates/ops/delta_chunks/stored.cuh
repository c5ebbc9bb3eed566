// States as they are stored: where a thread's elements lie, and how they come and go. Included by node bodies.
//
// Decides places. Two neighbours along K are one access where states are [V, K]. Elements of e4m3 are as they lie here,
// without their scales.
#pragma once

#include "ops/gated_delta_rule/scaled.cuh"
#include "ops/gated_delta_rule/slots.cuh"

namespace tj::ops::delta_chunks {

using dev::u32;

/// The place of a thread's two elements in a stored state: column block j, row half.
template <class C>
struct StatePlace {
  unsigned char* head;
  long long row_bytes;
  int row0, column0;
  static constexpr int kBytes = dev::kElementBytes<typename C::StateElement>;
  /// row: the thread's first, of V.
  TJ_DEVICE StatePlace(const gated_delta_rule::States& states, int slot, int head_index, int row)
      : head(gated_delta_rule::head_of(states, slot, head_index)),
        row_bytes(states.row),
        row0(row),
        column0(2 * static_cast<int>(dev::lane_index() % 4u)) {}
  TJ_DEVICE StatePlace(unsigned char* of_head, long long bytes, int row)
      : head(of_head), row_bytes(bytes), row0(row), column0(2 * static_cast<int>(dev::lane_index() % 4u)) {}
  TJ_DEVICE unsigned char* at(int j, int half, int e) const {
    const int v = row0 + 8 * half, k = 8 * j + column0 + e;
    return head + (C::kTransposed ? k * row_bytes + v * kBytes : v * row_bytes + k * kBytes);
  }
};
TJ_DEVICE void load_pair(dev::F32, const unsigned char* from, float& low, float& high) {
  dev::load_global(reinterpret_cast<const float*>(from), low, high);
}
TJ_DEVICE void load_pair(dev::E4m3, const unsigned char* from, float& low, float& high) {
  dev::unpack_e4m3(dev::load_global_u16(from), low, high);
}
template <class Tag>
TJ_DEVICE void load_pair(Tag tag, const unsigned char* from, float& low, float& high) {
  dev::unpack(tag, dev::load_global_u32(from), low, high);
}
TJ_DEVICE float load_one(dev::F32, const unsigned char* from) {
  return dev::load_global(reinterpret_cast<const float*>(from));
}
TJ_DEVICE float load_one(dev::E4m3, const unsigned char* from) {
  float low, high;
  dev::unpack_e4m3(dev::load_global_u8(from), low, high);
  return low;
}
template <class Tag>
TJ_DEVICE float load_one(Tag tag, const unsigned char* from) {
  float low, high;
  dev::unpack(tag, dev::load_global_u16(from), low, high);
  return low;
}
TJ_DEVICE void store_pair(dev::F32, unsigned char* to, float low, float high) {
  dev::store_global(reinterpret_cast<float*>(to), low, high);
}
TJ_DEVICE void store_pair(dev::E4m3, unsigned char* to, float low, float high) {
  dev::store_global_u16(to, dev::pack_e4m3(low, high));
}
template <class Tag>
TJ_DEVICE void store_pair(Tag tag, unsigned char* to, float low, float high) {
  dev::store_global(to, dev::pack(tag, low, high));
}
TJ_DEVICE void store_one(dev::F32, unsigned char* to, float value) {
  dev::store_global(reinterpret_cast<float*>(to), value);
}
TJ_DEVICE void store_one(dev::E4m3, unsigned char* to, float value) {
  dev::store_global_u8(to, dev::pack_e4m3(value, value));
}
template <class Tag>
TJ_DEVICE void store_one(Tag tag, unsigned char* to, float value) {
  dev::store_global_u16(to, dev::pack(tag, value, value));
}

}  // namespace tj::ops::delta_chunks
