// A unit's part of a state: which of its elements each of 32 lanes holds, and how they come from memory and go there.
//
// Decides places alone. Invariant: all 16 bytes that a lane loads at a time are neighbours in memory, and the lanes
// that share rows are neighbours.
#pragma once

#include "ops/gated_delta_rule/params.cuh"

namespace tj::ops::gated_delta_rule {

using dev::u32;

template <class Tag>
inline constexpr bool kScaled = dev::kElementBytes<Tag> == 1;  ///< elements count times a scale of their row of V

/// A unit has kTileRows rows of V and all of K. A lane has kRows rows, and of each kDepth elements in runs of kRun;
/// kLanes lanes, kMask apart and more, share the rows.
template <class C>
struct Layout {
  static constexpr int kK = C::kHeadDim;
  static constexpr int kEach =
      16 / dev::kElementBytes<typename C::StateElement>;  ///< neighbours in memory, of one load
  static constexpr int kTileRows = kUnitElements / kK;
  static constexpr int kLanes = C::kTransposed ? 32 * kEach / kTileRows : kK / kEach < 8 ? kK / kEach : 8;
  static constexpr int kMask = C::kTransposed ? 32 / kLanes : 1;
  static constexpr int kRows = C::kTransposed ? kEach : kTileRows * kLanes / 32;
  static constexpr int kDepth = kK / kLanes;
  static constexpr int kRun = C::kTransposed ? kDepth : kEach;
  static constexpr int kRuns = kDepth / kRun;
  static constexpr int kLoads = 64 / kEach;
  static constexpr int kUnitsOfHead = kK / kTileRows;
  static_assert(kRows * kDepth == 64);
  /// The row of element e of load l.
  TJ_DEVICE static constexpr int row_of(int l, int e) { return C::kTransposed ? e : l / (kLoads / kRows); }
};

/// The places of a lane's elements.
template <class C>
struct Place {
  using L = Layout<C>;
  int head, row, share;  ///< the first row, in the head; the lane's place among those that share its rows
  bool valid;            ///< the same in all lanes of a warp: a head has units for all of them

  TJ_DEVICE Place(const Params& params, int part, int unit_of_block) {
    const int lane = static_cast<int>(dev::lane_index()), unit = part * kUnits + unit_of_block;
    head = unit / L::kUnitsOfHead;
    valid = head < params.heads;
    share = lane % 32 / L::kMask % L::kLanes;
    const int group = C::kTransposed ? lane % L::kMask : lane % 32 / L::kLanes;
    row = unit % L::kUnitsOfHead * L::kTileRows + group * L::kRows;
  }
  /// The first element of K of a run.
  TJ_DEVICE int run(int r) const { return C::kTransposed ? share * L::kDepth : (r * L::kLanes + share) * L::kEach; }
  /// Bytes from a head's begin to the lane's first elements; row_bytes: from one stored row to the next.
  TJ_DEVICE long long first(long long row_bytes) const {
    constexpr int kBytes = dev::kElementBytes<typename C::StateElement>;
    if constexpr (C::kTransposed) return share * L::kDepth * row_bytes + row * kBytes;
    return row * row_bytes + run(0) * kBytes;
  }
  /// From the elements of load l to those of load l + 1.
  TJ_DEVICE static long long step(int l, long long row_bytes) {
    if constexpr (C::kTransposed) return row_bytes;
    constexpr int kOfRow = L::kLoads / L::kRows;
    return l % kOfRow + 1 < kOfRow ? 16 * L::kLanes : row_bytes - 16 * L::kLanes * (kOfRow - 1);
  }
};

/// A lane's elements in f32.
template <class C>
struct State {
  using L = Layout<C>;
  float s[L::kRows][L::kDepth];

  /// Element e of load l.
  TJ_DEVICE float& at(int l, int e) {
    if constexpr (C::kTransposed) return s[e][l];
    constexpr int kOfRow = L::kLoads / L::kRows;
    return s[l / kOfRow][l % kOfRow * L::kEach + e];
  }
};

/// Elements as they lie in memory, until somebody needs them: so that all loads are under way together.
template <class C>
struct Stored {
  u32 words[Layout<C>::kLoads][4];
  float scales[kScaled<typename C::StateElement> ? Layout<C>::kRows : 1];  ///< of rows, with elements of e4m3
};

/// Memory is a head's, whose stored rows are so many bytes apart.
template <class C>
TJ_DEVICE void load_state(const Place<C>& place, const unsigned char* head, long long row_bytes, Stored<C>& stored) {
  head += place.first(row_bytes);
#pragma unroll
  for (int l = 0; l < Layout<C>::kLoads; head += place.step(l, row_bytes), ++l) dev::load_global(head, stored.words[l]);
}
/// Zeros, in each type.
template <class C>
TJ_DEVICE void clear_state(Stored<C>& stored) {
#pragma unroll
  for (int l = 0; l < Layout<C>::kLoads; ++l)
#pragma unroll
    for (int w = 0; w < 4; ++w) stored.words[l][w] = 0;
  if constexpr (kScaled<typename C::StateElement>)
#pragma unroll
    for (int r = 0; r < Layout<C>::kRows; ++r) stored.scales[r] = 0;
}

TJ_DEVICE void values_of(dev::F32, const u32 (&words)[4], float (&values)[4]) {
#pragma unroll
  for (int w = 0; w < 4; ++w) values[w] = dev::number_of(words[w]);
}
template <class Tag>
TJ_DEVICE void values_of(Tag tag, const u32 (&words)[4], float (&values)[8]) {
#pragma unroll
  for (int w = 0; w < 4; ++w) dev::unpack(tag, words[w], values[2 * w], values[2 * w + 1]);
}
template <class C>
TJ_DEVICE void unpack_state(const Stored<C>& stored, State<C>& state) {
#pragma unroll
  for (int l = 0; l < Layout<C>::kLoads; ++l) {
    float values[Layout<C>::kEach];
    values_of(typename C::StateElement{}, stored.words[l], values);
#pragma unroll
    for (int e = 0; e < Layout<C>::kEach; ++e) state.at(l, e) = values[e];
  }
}

TJ_DEVICE void store_values(dev::F32, unsigned char* to, const float (&values)[4]) {
  dev::store_global(reinterpret_cast<float*>(to), values);
}
template <class Tag>
TJ_DEVICE void store_values(Tag tag, unsigned char* to, const float (&values)[8]) {
  dev::store_global(to, dev::pack(tag, values[0], values[1]), dev::pack(tag, values[2], values[3]),
                    dev::pack(tag, values[4], values[5]), dev::pack(tag, values[6], values[7]));
}
template <class C>
TJ_DEVICE void store_state(const Place<C>& place, unsigned char* head, long long row_bytes, State<C>& state) {
  head += place.first(row_bytes);
#pragma unroll
  for (int l = 0; l < Layout<C>::kLoads; head += place.step(l, row_bytes), ++l) {
    float values[Layout<C>::kEach];
#pragma unroll
    for (int e = 0; e < Layout<C>::kEach; ++e) values[e] = state.at(l, e);
    store_values(typename C::StateElement{}, head, values);
  }
}

/// The sum over the lanes that share rows.
template <class C>
TJ_DEVICE float sum_shared(float value) {
  using L = Layout<C>;
#pragma unroll
  for (int lanes = 1; lanes < L::kLanes; lanes *= 2) value += dev::shuffle_xor(value, lanes * L::kMask);
  return value;
}

}  // namespace tj::ops::gated_delta_rule
