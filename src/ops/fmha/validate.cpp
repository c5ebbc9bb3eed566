// The checks behind ops::validate(FmhaArgs).
//
// Decides the order of the checks (pointers, ranks, types, devices, shapes, strides, overflow, overlap). Each one's
// words are those of tensor_checks.hpp. Invariant: passing allocates nothing.
#include "ops/fmha/validate.hpp"

#include <cmath>

#include "ops/common/tensor_checks.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kOp = "fmha";
constexpr const char* kQueryAxes[] = {"B", "H", "Sq", "D"};
constexpr const char* kKeyAxes[] = {"B", "Hkv", "Sk", "D"};
constexpr const char* kValueAxes[] = {"B", "Hkv", "Sk", "Dv"};
constexpr const char* kOutputAxes[] = {"B", "H", "Sq", "Dv"};
constexpr const char* kForm = "[B, H, S, D]; express [B, S, H, D] memory through strides";

void check_head_dim(const char* name, Size head_dim) {
  if (head_dim < 8 || head_dim > 256 || head_dim % 8 != 0)
    refuse(kOp, Code::unsupported,
           cat(name, " is ", head_dim, "; allowed: multiples of 8 up to 256 (pad the head dimension with zeros)"));
}
void check_type(const char* name, DType dtype) {
  if (dtype != DType::f16 && dtype != DType::bf16)
    refuse(kOp, Code::unsupported, cat(name, " is ", to_string(dtype), "; allowed: f16, bf16"));
}

void check_shapes(const Named& q, const Named& k, const Named& v, const Named& o) {
  check_same(k, 0, q.at(0), "q.shape[0]");
  check_same(k, 3, q.at(3), "q.shape[3]");
  for (int i = 0; i < 3; ++i) check_same(v, i, k.at(i), "k's shape");
  for (int i = 0; i < 3; ++i) check_same(o, i, q.at(i), "q's shape");
  check_same(o, 3, v.at(3), "v.shape[3]");
  if (q.at(1) % k.at(1) != 0)
    refuse(kOp, Code::invalid_argument,
           cat("q.shape[1] (H) is ", q.at(1), " and k.shape[1] (Hkv) is ", k.at(1), "; allowed: H a multiple of Hkv"));
  // Blocks of a launch are counted in 32 bits; no kernel takes fewer than 64 rows a block.
  const Size heads = q.at(0) * q.at(1),
             row_blocks = (q.at(2) + 63) / 64;  // both factors at most 2^30: the product fits
  if (heads > kMaxSize / row_blocks)
    refuse(kOp, Code::invalid_argument,
           cat("q.shape is ", shape_text(q.tensor), "; allowed: B * H * ceil(Sq / 64) of at most ", kMaxSize));
}

void check_window(const char* name, Size keys) {
  if (keys < FmhaWindow::kAll)
    refuse(kOp, Code::invalid_argument, cat(name, " is ", keys, "; allowed: a number of keys, or -1 for all"));
}

constexpr const char* kHeadAxes[] = {"B", "H"};

/// A tensor of f32 with a number for each head. rank: of those of the batch's elements too, 2.
void check_heads(const char* name, const Tensor& tensor, int rank, const char* form, const FmhaArgs& args,
                 const Named& o, const Range& o_range) {
  const Named heads{kOp, name, tensor, kHeadAxes + 2 - rank, rank, form};
  check_form(heads);
  check_dtype(heads, DType::f32, "");
  check_device(heads, args.q.device, "q");
  if (rank == 2) check_same(heads, 0, args.q.shape[0], "q.shape[0]");
  check_same(heads, rank - 1, args.q.shape[1], "q.shape[1]");
  check_strides(heads, size_of(DType::f32), -1);
  check_alignment(heads, size_of(DType::f32));
  const Range range = range_of(heads);
  check_apart(o, o_range, heads, range);
  if (!args.lse) return;
  const Named lse{kOp, "lse", *args.lse, kQueryAxes, 3, "[B, H, Sq]"};
  check_apart(lse, range_of(lse), heads, range);
}

void check_numbers(const FmhaArgs& args) {
  check_window("window.left", args.window.left);
  check_window("window.right", args.window.right);
  if (!(args.softcap >= 0 && std::isfinite(args.softcap)))
    refuse(kOp, Code::invalid_argument,
           cat("softcap is ", args.softcap, "; allowed: 0 (off) and any finite number above"));
}

/// Behind the check of lse.
void check_features(const FmhaArgs& args, const Named& o, const Range& o_range) {
  if (args.alibi_slopes)
    check_heads("alibi_slopes", *args.alibi_slopes, args.alibi_slopes->rank == 1 ? 1 : 2, "[H] or [B, H]", args, o,
                o_range);
  if (args.sinks) check_heads("sinks", *args.sinks, 1, "[H]", args, o, o_range);
}

}  // namespace

void validate(const FmhaConfig& config) {
  check_type("dtype", config.dtype);
  check_head_dim("head_dim", config.head_dim);
  if (config.value_dim != 0) check_head_dim("value_dim", config.value_dim);
}

void validate(const FmhaArgs& args, bool on_model) {
  const Named q{kOp, "q", args.q, kQueryAxes, 4, kForm}, k{kOp, "k", args.k, kKeyAxes, 4, kForm},
      v{kOp, "v", args.v, kValueAxes, 4, kForm}, o{kOp, "o", args.o, kOutputAxes, 4, kForm};
  for (const Named* t : {&q, &k, &v, &o}) check_form(*t);
  check_type("q.dtype", args.q.dtype);
  check_head_dim("q.shape[3] (D)", q.at(3));
  check_head_dim("v.shape[3] (Dv)", v.at(3));
  for (const Named* t : {&k, &v, &o}) check_dtype(*t, args.q.dtype, ", as q.dtype");
  check_place(q, on_model);
  for (const Named* t : {&k, &v, &o}) check_device(*t, args.q.device, "q");
  check_shapes(q, k, v, o);
  for (const Named* t : {&q, &k, &v}) {
    check_strides(*t, kCopyAlignmentBytes, 3);
    check_alignment(*t, kCopyAlignmentBytes);
  }
  const int element_bytes = size_of(args.o.dtype);
  check_strides(o, element_bytes, 3);
  check_alignment(o, element_bytes);
  const Range q_range = range_of(q), k_range = range_of(k), v_range = range_of(v), o_range = range_of(o);
  check_no_self_overlap(o);
  check_apart(o, o_range, q, q_range);
  check_apart(o, o_range, k, k_range);
  check_apart(o, o_range, v, v_range);
  if (args.scale && !std::isfinite(*args.scale))
    refuse(kOp, Code::invalid_argument, cat("scale is ", *args.scale, "; allowed: any finite value"));
  check_max_sms(kOp, args.max_sms);
  check_numbers(args);
  if (!args.lse) return check_features(args, o, o_range);

  const Named lse{kOp, "lse", *args.lse, kQueryAxes, 3, "[B, H, Sq]"};
  check_form(lse);
  check_dtype(lse, DType::f32, "");
  check_device(lse, args.q.device, "q");
  for (int i = 0; i < 3; ++i) check_same(lse, i, q.at(i), "q's shape");
  check_strides(lse, size_of(DType::f32), -1);
  check_alignment(lse, size_of(DType::f32));
  const Range lse_range = range_of(lse);
  check_no_self_overlap(lse);
  check_apart(lse, lse_range, o, o_range);
  check_apart(lse, lse_range, q, q_range);
  check_apart(lse, lse_range, k, k_range);
  check_apart(lse, lse_range, v, v_range);
  check_features(args, o, o_range);
}

}  // namespace tj::ops
