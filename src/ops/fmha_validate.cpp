// The checks behind ops::validate(FmhaArgs).
//
// Decides the order of the checks (pointers, ranks, types, devices, shapes, strides, overflow, overlap) and their words.
// Invariant: texts are built only on the way out, in functions that never return; every product that could exceed
// 64 bits goes through the checked helpers.
#include "ops/fmha_validate.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;
using Size = std::int64_t;

// Kernels count rows, keys and tiles in 32 bits and add to them: a row and a key, a tile and the blocks of a launch.
constexpr Size kMaxSize = Size{1} << 30;
constexpr Size kMaxStrideBytes = Size{1} << 40;  // the bulk copy engine's limit, exclusive
constexpr int kCopyAlignmentBytes = 16;
constexpr const char* kQueryAxes[] = {"B", "H", "Sq", "D"};
constexpr const char* kKeyAxes[] = {"B", "Hkv", "Sk", "D"};

[[noreturn, gnu::noinline, gnu::cold]] void refuse(Code code, const std::string& message) {
  support::fail(Stage::argument, code, "fmha: " + message);
}

std::string shape_text(const Tensor& t) {
  std::string text = "[";
  for (int i = 0; i < t.rank; ++i) text += (i ? ", " : "") + std::to_string(t.shape[static_cast<std::size_t>(i)]);
  return text + "]";
}

std::string address_text(const void* address) {
  std::ostringstream out;
  out << address;
  return out.str();
}

struct Named {
  const char* name;
  const Tensor& tensor;
  const char* const* axes;
  int rank;
  Size at(int i) const { return tensor.shape[static_cast<std::size_t>(i)]; }
  Size stride(int i) const { return tensor.strides[static_cast<std::size_t>(i)]; }
};

/// Half-open byte range of a tensor, as addresses.
struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

void check_form(const Named& t) {
  if (t.tensor.data == nullptr)
    refuse(Code::invalid_argument, cat(t.name, ".data is null; allowed: the address of its first element"));
  if (t.tensor.rank != t.rank)
    refuse(Code::invalid_argument, cat(t.name, ".rank is ", t.tensor.rank, "; allowed: ", t.rank,
                                       t.rank == 4 ? " ([B, H, S, D]; express [B, S, H, D] memory through strides)" : " ([B, H, Sq])"));
  for (int i = 0; i < t.rank; ++i)
    if (t.at(i) < 1 || t.at(i) > kMaxSize)
      refuse(Code::invalid_argument, cat(t.name, ".shape[", i, "] (", t.axes[i], ") is ", t.at(i), "; allowed: 1 to ", kMaxSize));
}

void check_dtype(const Named& t, DType wanted, const char* why) {
  if (t.tensor.dtype != wanted)
    refuse(Code::invalid_argument, cat(t.name, ".dtype is ", to_string(t.tensor.dtype), "; allowed: ", to_string(wanted), why));
}

void check_config(DType dtype, Size head_dim, const char* dtype_name, const char* head_dim_name) {
  if (dtype != DType::f16 && dtype != DType::bf16)
    refuse(Code::unsupported, cat(dtype_name, " is ", to_string(dtype), "; allowed: f16, bf16"));
  if (head_dim != 64 && head_dim != 128)
    refuse(Code::unsupported, cat(head_dim_name, " is ", head_dim, "; allowed: 64, 128 (pad the head dimension with zeros)"));
}

void check_device(const Named& t, const Device& wanted) {
  if (t.tensor.device != wanted)
    refuse(Code::invalid_argument, cat(t.name, ".device is ", to_string(t.tensor.device), " but q.device is ", to_string(wanted),
                                       "; allowed: one device for all tensors (copy ", t.name, " there first)"));
}

void check_place(const Device& device, bool on_model) {
  if (on_model && device.kind != DeviceKind::cpu)
    refuse(Code::invalid_argument, cat("q.device is ", to_string(device), "; allowed with a model target: cpu (host memory)"));
  if (!on_model && device.kind == DeviceKind::cpu)
    refuse(Code::invalid_argument, "q.device is cpu; allowed with a GPU target: cuda or hip memory (for host memory choose a target "
                                   "\"model:<arch>\")");
}

void check_same(const Named& t, int axis, Size wanted, const char* like) {
  if (t.at(axis) != wanted)
    refuse(Code::invalid_argument, cat(t.name, ".shape[", axis, "] (", t.axes[axis], ") is ", t.at(axis), " in ", shape_text(t.tensor),
                                       "; allowed: ", wanted, ", as ", like));
}

void check_shapes(const Named& q, const Named& k, const Named& v, const Named& o) {
  check_same(k, 0, q.at(0), "q.shape[0]");
  check_same(k, 3, q.at(3), "q.shape[3]");
  for (int i = 0; i < 4; ++i) check_same(v, i, k.at(i), "k's shape");
  for (int i = 0; i < 4; ++i) check_same(o, i, q.at(i), "q's shape");
  if (q.at(1) % k.at(1) != 0)
    refuse(Code::invalid_argument, cat("q.shape[1] (H) is ", q.at(1), " and k.shape[1] (Hkv) is ", k.at(1),
                                       "; allowed: H a multiple of Hkv"));
  // Blocks of a launch are counted in 32 bits; no kernel takes fewer than 64 rows a block.
  const Size heads = q.at(0) * q.at(1), row_blocks = (q.at(2) + 63) / 64;  // both factors at most 2^30: the product fits
  if (heads > kMaxSize / row_blocks)
    refuse(Code::invalid_argument, cat("q.shape is ", shape_text(q.tensor), "; allowed: B * H * ceil(Sq / 64) of at most ", kMaxSize));
}

/// Strides that the kernel can address: positive, bounded, aligned.
void check_strides(const Named& t, int alignment_bytes, bool last_contiguous) {
  const int element_bytes = size_of(t.tensor.dtype);
  for (int i = 0; i < t.rank; ++i) {
    if (t.at(i) == 1) continue;
    const Size stride = t.stride(i);
    const bool contiguous = last_contiguous && i == t.rank - 1;
    if (contiguous && stride != 1)
      refuse(Code::unsupported, cat(t.name, ".strides[", i, "] (", t.axes[i], ") is ", stride, "; allowed: 1 (a contiguous last dimension)"));
    if (stride <= 0)
      refuse(Code::unsupported, cat(t.name, ".strides[", i, "] (", t.axes[i], ") is ", stride,
                                    "; allowed: at least 1 where the size is above 1 (no broadcast, no reversed dimension; make a copy)"));
    if (stride >= kMaxStrideBytes / element_bytes)
      refuse(Code::unsupported, cat(t.name, ".strides[", i, "] (", t.axes[i], ") is ", stride, " elements of ", element_bytes,
                                    " bytes; allowed: below 2^40 bytes"));
    if (!contiguous && (stride * element_bytes) % alignment_bytes != 0)
      refuse(Code::unsupported, cat(t.name, ".strides[", i, "] (", t.axes[i], ") is ", stride, " elements, ", stride * element_bytes,
                                    " bytes; allowed: multiples of ", alignment_bytes, " bytes (pad the rows or make a contiguous copy)"));
  }
}

void check_alignment(const Named& t, int alignment_bytes) {
  if (reinterpret_cast<std::uintptr_t>(t.tensor.data) % static_cast<std::uintptr_t>(alignment_bytes) != 0)
    refuse(Code::unsupported, cat(t.name, ".data is ", address_text(t.tensor.data), "; allowed: addresses that are multiples of ",
                                  alignment_bytes, " bytes"));
}

[[noreturn, gnu::noinline, gnu::cold]] void refuse_overflow(const Named& t) {
  refuse(Code::invalid_argument, cat(t.name, " with shape ", shape_text(t.tensor), " at ", address_text(t.tensor.data),
                                     " ends beyond the address space; allowed: byte offsets that fit 64 bits (check shape and strides)"));
}

/// The bytes from the first to the last element. Strides are positive here.
Range range_of(const Named& t) {
  Size last = 0;
  for (int i = 0; i < t.rank; ++i) {
    Size offset = 0;
    if (t.at(i) == 1) continue;
    if (__builtin_mul_overflow(t.at(i) - 1, t.stride(i), &offset) || __builtin_add_overflow(last, offset, &last)) refuse_overflow(t);
  }
  Size bytes = 0;
  Range range{reinterpret_cast<std::uintptr_t>(t.tensor.data), 0};
  if (__builtin_add_overflow(last, Size{1}, &last) || __builtin_mul_overflow(last, Size{size_of(t.tensor.dtype)}, &bytes) ||
      __builtin_add_overflow(range.begin, static_cast<std::uintptr_t>(bytes), &range.end))
    refuse_overflow(t);
  return range;
}

/// An output must give every element a place of its own: each stride steps over everything below it.
void check_no_self_overlap(const Named& t) {
  int order[kMaxRank];
  int count = 0;
  for (int i = 0; i < t.rank; ++i) {
    if (t.at(i) == 1) continue;
    int place = count++;
    for (; place > 0 && t.stride(order[place - 1]) > t.stride(i); --place) order[place] = order[place - 1];
    order[place] = i;
  }
  Size extent = 1;  // elements from the first to the last of the dimensions below; fits, range_of() passed
  for (int k = 0; k < count; ++k) {
    const int i = order[k];
    if (t.stride(i) < extent)
      refuse(Code::unsupported, cat(t.name, ".strides[", i, "] (", t.axes[i], ") is ", t.stride(i), "; allowed: at least ", extent,
                                    ", so that no two elements of this output share memory"));
    extent += (t.at(i) - 1) * t.stride(i);
  }
}

void check_apart(const Named& a, const Range& a_range, const Named& b, const Range& b_range) {
  if (a_range.overlaps(b_range))
    refuse(Code::unsupported, cat(a.name, " at ", address_text(a.tensor.data), " (", a_range.end - a_range.begin, " bytes) overlaps ", b.name,
                                  " at ", address_text(b.tensor.data), " (", b_range.end - b_range.begin,
                                  " bytes); allowed: outputs whose address range meets no other tensor's"));
}

}  // namespace

void validate(const FmhaConfig& config) { check_config(config.dtype, config.head_dim, "dtype", "head_dim"); }

void validate(const FmhaArgs& args, bool on_model) {
  const Named q{"q", args.q, kQueryAxes, 4}, k{"k", args.k, kKeyAxes, 4}, v{"v", args.v, kKeyAxes, 4}, o{"o", args.o, kQueryAxes, 4};
  for (const Named* t : {&q, &k, &v, &o}) check_form(*t);
  check_config(args.q.dtype, q.at(3), "q.dtype", "q.shape[3] (D)");
  for (const Named* t : {&k, &v, &o}) check_dtype(*t, args.q.dtype, ", as q.dtype");
  check_place(args.q.device, on_model);
  for (const Named* t : {&k, &v, &o}) check_device(*t, args.q.device);
  check_shapes(q, k, v, o);
  for (const Named* t : {&q, &k, &v}) {
    check_strides(*t, kCopyAlignmentBytes, true);
    check_alignment(*t, kCopyAlignmentBytes);
  }
  const int element_bytes = size_of(args.o.dtype);
  check_strides(o, element_bytes, true);
  check_alignment(o, element_bytes);
  const Range q_range = range_of(q), k_range = range_of(k), v_range = range_of(v), o_range = range_of(o);
  check_no_self_overlap(o);
  check_apart(o, o_range, q, q_range);
  check_apart(o, o_range, k, k_range);
  check_apart(o, o_range, v, v_range);
  if (args.scale && !std::isfinite(*args.scale))
    refuse(Code::invalid_argument, cat("scale is ", *args.scale, "; allowed: any finite value"));
  if (!args.lse) return;

  const Named lse{"lse", *args.lse, kQueryAxes, 3};
  check_form(lse);
  check_dtype(lse, DType::f32, "");
  check_device(lse, args.q.device);
  for (int i = 0; i < 3; ++i) check_same(lse, i, q.at(i), "q's shape");
  check_strides(lse, size_of(DType::f32), false);
  check_alignment(lse, size_of(DType::f32));
  const Range lse_range = range_of(lse);
  check_no_self_overlap(lse);
  check_apart(lse, lse_range, o, o_range);
  check_apart(lse, lse_range, q, q_range);
  check_apart(lse, lse_range, k, k_range);
  check_apart(lse, lse_range, v, v_range);
}

}  // namespace tj::ops
