// Checks that every op makes of its tensors: form, type, place, strides, alignment, overlap.
//
// Decides the checks and their words, one for all ops. Does not decide which of them an op makes, nor in which order.
// Invariant: texts are built only on the way out, in functions that never return; every product that could exceed 64
// bits goes through the checked helpers. Passing allocates nothing: the checks are on the hot path.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include <tilejit/error.hpp>
#include <tilejit/tensor.hpp>

namespace tj::ops {

using Size = std::int64_t;

// Kernels count rows, columns and tiles in 32 bits and add to them: a row and a column, a tile and the blocks of a
// launch.
inline constexpr Size kMaxSize = Size{1} << 30;
inline constexpr Size kMaxStrideBytes = Size{1} << 40;  // the bulk copy engine's limit, exclusive
inline constexpr int kCopyAlignmentBytes = 16;

/// A tensor as the errors call it. Refers to what it is made of.
struct Named {
  const char* op;
  const char* name;
  const Tensor& tensor;
  const char* const* axes;  ///< names of its dimensions, outermost first
  int rank;
  const char* form;  ///< "[B, H, S, D]": what the rank should have been
  Size at(int i) const { return tensor.shape[static_cast<std::size_t>(i)]; }
  Size stride(int i) const { return tensor.strides[static_cast<std::size_t>(i)]; }
};

/// Half-open byte range of a tensor, as addresses; 0 to 0 of one without elements, which overlaps none.
struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

[[noreturn]] void refuse(const char* op, Code code, const std::string& message);
std::string shape_text(const Tensor& t);

/// A limit of multiprocessors, of any op.
void check_max_sms(const char* op, int max_sms);
/// Kernels of a ladder's rungs stay as they are.
void check_no_limit(const char* op, Size max_sms, const char* rung);

/// Dimensions by number, as bits.
constexpr unsigned axis_bits(std::initializer_list<int> axes) {
  unsigned bits = 0;
  for (const int axis : axes) bits |= 1u << axis;
  return bits;
}
inline constexpr unsigned kAllAxes = ~0u;
/// An address, the right rank, sizes of 1 to kMaxSize, or from 0 on in dimensions of may_be_empty. A tensor that has no
/// element needs no address, and no check below says anything of its strides and its place.
void check_form(const Named& t, unsigned may_be_empty = 0);
/// `why` follows the wanted type: ", as q.dtype".
void check_dtype(const Named& t, DType wanted, const char* why);
/// `like` is the tensor whose device is `wanted`.
void check_device(const Named& t, const Device& wanted, const char* like);
void check_place(const Named& t, bool on_model);
/// `like` says what asks for it: "q.shape[0]".
void check_same(const Named& t, int axis, Size wanted, const char* like);
/// Strides that a kernel can address: positive, bounded, aligned, and 1 for axis `contiguous` (-1: none).
void check_strides(const Named& t, int alignment_bytes, int contiguous);
void check_alignment(const Named& t, int alignment_bytes);
/// Does the copy engine take it as it is: base and all strides but that of axis `contiguous` multiples of 16 bytes?
bool copy_aligned(const Tensor& tensor, int contiguous);
/// The bytes from the first to the last element. Strides are positive here.
Range range_of(const Named& t);
/// An output must give every element a place of its own: each stride steps over everything below it.
void check_no_self_overlap(const Named& t);
void check_apart(const Named& a, const Range& a_range, const Named& b, const Range& b_range);

}  // namespace tj::ops
