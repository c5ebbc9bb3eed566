// The head dims of a kernel of attention, and what they are rounded to: multiples of 8 become whole steps of matrix
// instructions, and whole blocks of columns in shared memory.
//
// Decides the roundings, for device code of every family and for the host. Invariant: columns beyond a head dim are
// zeros wherever a product reads them, and nobody stores them.
#pragma once

#include "ops/fmha/features.cuh"

namespace tj::ops::fmha {

inline constexpr int kSwizzleColumns =
    64;  ///< 128 bytes of 16-bit elements: the width of a column block in shared memory

constexpr int rounded_up(int columns, int by) { return (columns + by - 1) / by * by; }
/// Columns that products take: of queries and keys as the depth of the first, of values as the width of the second.
/// Instructions of a warpgroup with weights in registers come in such widths (arch/sm90_wgmma.cuh).
constexpr int multiplied_depth(int head_dim) { return rounded_up(head_dim, 16); }
constexpr int multiplied_width(int head_dim) { return rounded_up(head_dim, 32); }
/// Columns that a row has in shared memory, in blocks.
constexpr int stored_columns(int head_dim) { return rounded_up(head_dim, kSwizzleColumns); }

/// Elements of a row of values and of the output. Config names them where they are not those of queries and keys.
template <class C, class = void>
struct ValueDim {
  static constexpr int kElements = C::kHeadDim;
};
template <class C>
struct ValueDim<C, typename Named<decltype(C::kValueDim)>::Type> {
  static constexpr int kElements = C::kValueDim;
};
template <class C>
inline constexpr int kValueDim = ValueDim<C>::kElements;

template <class C>
inline constexpr int kDepth = multiplied_depth(C::kHeadDim);
template <class C>
inline constexpr int kOutputs = multiplied_width(kValueDim<C>);

}  // namespace tj::ops::fmha
