// See tensor_checks.hpp.
#include "ops/common/tensor_checks.hpp"

#include <cstddef>

#include "ops/common/empty.hpp"
#include "support/fail.hpp"
#include "support/text_stream.hpp"

namespace tj::ops {
namespace {

using support::cat;

std::string address_text(const void* address) {
  support::TextStream out;
  out << address;
  return out.str();
}

[[noreturn, gnu::noinline, gnu::cold]] void refuse_overflow(const Named& t) {
  refuse(t.op, Code::invalid_argument,
         cat(t.name, " with shape ", shape_text(t.tensor), " at ", address_text(t.tensor.data),
             " ends beyond the address space; allowed: byte offsets that fit 64 bits (check shape and strides)"));
}

}  // namespace

[[gnu::noinline, gnu::cold]] void refuse(const char* op, Code code, const std::string& message) {
  support::fail(Stage::argument, code, cat(op, ": ", message));
}

std::string shape_text(const Tensor& t) {
  std::string text = "[";
  for (int i = 0; i < t.rank; ++i) text += (i ? ", " : "") + std::to_string(t.shape[static_cast<std::size_t>(i)]);
  return text + "]";
}

void check_max_sms(const char* op, int max_sms) {
  if (max_sms < 0)
    refuse(op, Code::invalid_argument,
           cat("max_sms is ", max_sms, "; allowed: 0, for all multiprocessors, or 1 and more"));
}

void check_no_limit(const char* op, Size max_sms, const char* rung) {
  if (max_sms != 0)
    refuse(op, Code::unsupported,
           cat("max_sms is ", max_sms, " and rung is ", rung, "; allowed with a rung: 0, for all multiprocessors"));
}

void check_form(const Named& t, unsigned may_be_empty) {
  if (t.tensor.data == nullptr && !(may_be_empty != 0 && is_empty(t.tensor)))
    refuse(t.op, Code::invalid_argument, cat(t.name, ".data is null; allowed: the address of its first element"));
  if (t.tensor.rank != t.rank)
    refuse(t.op, Code::invalid_argument,
           cat(t.name, ".rank is ", t.tensor.rank, "; allowed: ", t.rank, " (", t.form, ")"));
  for (int i = 0; i < t.rank; ++i) {
    const Size least = (may_be_empty >> i & 1) != 0 ? 0 : 1;
    if (t.at(i) < least || t.at(i) > kMaxSize)
      refuse(t.op, Code::invalid_argument,
             cat(t.name, ".shape[", i, "] (", t.axes[i], ") is ", t.at(i), "; allowed: ", least, " to ", kMaxSize));
  }
}

void check_dtype(const Named& t, DType wanted, const char* why) {
  if (t.tensor.dtype != wanted)
    refuse(t.op, Code::invalid_argument,
           cat(t.name, ".dtype is ", to_string(t.tensor.dtype), "; allowed: ", to_string(wanted), why));
}

void check_device(const Named& t, const Device& wanted, const char* like) {
  if (t.tensor.device != wanted)
    refuse(t.op, Code::invalid_argument,
           cat(t.name, ".device is ", to_string(t.tensor.device), " but ", like, ".device is ", to_string(wanted),
               "; allowed: one device for all tensors (copy ", t.name, " there first)"));
}

void check_place(const Named& t, bool on_model) {
  const Device& device = t.tensor.device;
  if (on_model && (device.kind != DeviceKind::cpu || device.index != 0))
    refuse(t.op, Code::invalid_argument,
           cat(t.name, ".device is ", to_string(device), "; allowed with a model target: cpu (host memory)"));
  if (!on_model && device.kind == DeviceKind::cpu)
    refuse(t.op, Code::invalid_argument,
           cat(t.name,
               ".device is cpu; allowed with a GPU target: memory of its GPU, cuda for NVIDIA's targets and hip for "
               "AMD's (for host memory choose a target \"model:<arch>\")"));
}

void check_same(const Named& t, int axis, Size wanted, const char* like) {
  if (t.at(axis) != wanted)
    refuse(t.op, Code::invalid_argument,
           cat(t.name, ".shape[", axis, "] (", t.axes[axis], ") is ", t.at(axis), " in ", shape_text(t.tensor),
               "; allowed: ", wanted, ", as ", like));
}

void check_strides(const Named& t, int alignment_bytes, int contiguous_axis) {
  const int element_bytes = size_of(t.tensor.dtype);
  for (int i = 0; i < t.rank; ++i) {
    if (t.at(i) == 1) continue;
    const Size stride = t.stride(i);
    const bool contiguous = i == contiguous_axis;
    const bool legal = stride > 0 && stride < kMaxStrideBytes / element_bytes &&
                       (contiguous ? stride == 1 : stride * element_bytes % alignment_bytes == 0);
    if (legal) [[likely]]
      continue;
    if (is_empty(t.tensor)) return;
    if (contiguous && stride != 1)
      refuse(t.op, Code::unsupported,
             cat(t.name, ".strides[", i, "] (", t.axes[i], ") is ", stride, "; allowed: 1 (a contiguous ",
                 i == t.rank - 1 ? "last " : "", "dimension)"));
    if (stride <= 0)
      refuse(t.op, Code::unsupported,
             cat(t.name, ".strides[", i, "] (", t.axes[i], ") is ", stride,
                 "; allowed: at least 1 where the size is above 1 (no broadcast, no reversed dimension; make a copy)"));
    if (stride >= kMaxStrideBytes / element_bytes)
      refuse(t.op, Code::unsupported,
             cat(t.name, ".strides[", i, "] (", t.axes[i], ") is ", stride, " elements of ", element_bytes,
                 " bytes; allowed: below 2^40 bytes"));
    refuse(t.op, Code::unsupported,
           cat(t.name, ".strides[", i, "] (", t.axes[i], ") is ", stride, " elements, ", stride * element_bytes,
               " bytes; allowed: multiples of ", alignment_bytes, " bytes (pad the rows or make a contiguous copy)"));
  }
}

bool copy_aligned(const Tensor& tensor, int contiguous) {
  bool aligned = reinterpret_cast<std::uintptr_t>(tensor.data) % kCopyAlignmentBytes == 0;
  for (int i = 0; i < tensor.rank; ++i) {
    const auto axis = static_cast<std::size_t>(i);
    aligned = aligned && (i == contiguous || tensor.shape[axis] == 1 ||
                          tensor.strides[axis] * size_of(tensor.dtype) % kCopyAlignmentBytes == 0);
  }
  return aligned;
}

void check_alignment(const Named& t, int alignment_bytes) {
  if (reinterpret_cast<std::uintptr_t>(t.tensor.data) % static_cast<std::uintptr_t>(alignment_bytes) != 0 &&
      !is_empty(t.tensor))
    refuse(t.op, Code::unsupported,
           cat(t.name, ".data is ", address_text(t.tensor.data), "; allowed: addresses that are multiples of ",
               alignment_bytes, " bytes"));
}

Range range_of(const Named& t) {
  Size last = 0;
  for (int i = 0; i < t.rank; ++i) {
    Size offset = 0;
    if (t.at(i) == 0) return {};
    if (t.at(i) == 1) continue;
    if (__builtin_mul_overflow(t.at(i) - 1, t.stride(i), &offset) || __builtin_add_overflow(last, offset, &last)) {
      if (is_empty(t.tensor)) return {};
      refuse_overflow(t);
    }
  }
  Size bytes = 0;
  Range range{reinterpret_cast<std::uintptr_t>(t.tensor.data), 0};
  if (__builtin_add_overflow(last, Size{1}, &last) ||
      __builtin_mul_overflow(last, Size{size_of(t.tensor.dtype)}, &bytes) ||
      __builtin_add_overflow(range.begin, static_cast<std::uintptr_t>(bytes), &range.end))
    refuse_overflow(t);
  return range;
}

void check_no_self_overlap(const Named& t) {
  int order[kMaxRank];
  int count = 0;
  for (int i = 0; i < t.rank; ++i) {
    if (t.at(i) == 0) return;
    if (t.at(i) == 1) continue;
    int place = count++;
    for (; place > 0 && t.stride(order[place - 1]) > t.stride(i); --place) order[place] = order[place - 1];
    order[place] = i;
  }
  Size extent = 1;  // elements from the first to the last of the dimensions below; fits, range_of() passed
  for (int k = 0; k < count; ++k) {
    const int i = order[k];
    if (t.stride(i) < extent)
      refuse(t.op, Code::unsupported,
             cat(t.name, ".strides[", i, "] (", t.axes[i], ") is ", t.stride(i), "; allowed: at least ", extent,
                 ", so that no two elements of this output share memory"));
    extent += (t.at(i) - 1) * t.stride(i);
  }
}

void check_apart(const Named& a, const Range& a_range, const Named& b, const Range& b_range) {
  if (a_range.overlaps(b_range))
    refuse(a.op, Code::unsupported,
           cat(a.name, " at ", address_text(a.tensor.data), " (", a_range.end - a_range.begin, " bytes) overlaps ",
               b.name, " at ", address_text(b.tensor.data), " (", b_range.end - b_range.begin,
               " bytes); allowed: outputs whose address range meets no other tensor's"));
}

}  // namespace tj::ops
