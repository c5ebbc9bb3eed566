// The checks behind ops::validate(FmhaArgs).
//
// Decides the order of the checks (pointers, ranks, types, devices, shapes, strides, overflow, overlap). Each one's
// words are those of tensor_checks.hpp. Invariant: passing allocates nothing.
#include "ops/fmha/validate.hpp"

#include <cmath>

#include "ops/common/tensor_checks.hpp"
#include "ops/fmha/mods.hpp"
#include "ops/fmha/sequences.hpp"
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
  check_fmha_groups("q.shape[1]", q.at(1), "k.shape[1]", k.at(1));
  // Blocks of a launch are counted in 32 bits; no kernel takes fewer than 64 rows a block.
  const Size heads = q.at(0) * q.at(1),
             row_blocks = (q.at(2) + 63) / 64;  // both factors at most 2^30: the product fits
  if (row_blocks != 0 && heads > kMaxSize / row_blocks)
    refuse(kOp, Code::invalid_argument,
           cat("q.shape is ", shape_text(q.tensor), "; allowed: B * H * ceil(Sq / 64) of at most ", kMaxSize));
}

void check_window(const char* name, Size keys) {
  if (keys < FmhaWindow::kAll)
    refuse(kOp, Code::invalid_argument, cat(name, " is ", keys, "; allowed: a number of keys, or -1 for all"));
}

constexpr const char* kHeadAxes[] = {"B", "H"};

constexpr unsigned kFromZero = axis_bits({0, 2});  // B, Sq and Sk

/// A tensor of f32 with a number for each head. rank: of those of the batch's elements too, 2.
void check_heads(const char* name, const Tensor& tensor, int rank, const char* form, const FmhaBeside& of, Size batch,
                 Size head_count) {
  const Named heads{kOp, name, tensor, kHeadAxes + 2 - rank, rank, form};
  check_form(heads, rank == 2 ? axis_bits({0}) : 0);
  check_dtype(heads, DType::f32, "");
  check_device(heads, of.q.tensor.device, "q");
  if (rank == 2) check_same(heads, 0, batch, of.batch_like);
  check_same(heads, rank - 1, head_count, "q.shape[1]");
  check_strides(heads, size_of(DType::f32), -1);
  check_alignment(heads, size_of(DType::f32));
  const Range range = range_of(heads);
  check_apart(of.o, of.outputs.o, heads, range);
  if (of.lse != nullptr) check_apart(*of.lse, range_of(*of.lse), heads, range);
}

}  // namespace

void check_fmha_groups(const char* of_queries, Size heads, const char* of_keys, Size key_heads) {
  if (heads % key_heads != 0)
    refuse(kOp, Code::invalid_argument,
           cat(of_queries, " (H) is ", heads, " and ", of_keys, " (Hkv) is ", key_heads,
               "; allowed: H a multiple of Hkv"));
}

void check_fmha_types(const Named& q, const Named& k, const Named& v, const Named& o, bool on_model) {
  check_type("q.dtype", q.tensor.dtype);
  check_head_dim(q.rank == 4 ? "q.shape[3] (D)" : "q.shape[2] (D)", q.at(q.rank - 1));
  check_head_dim(v.rank == 4 ? "v.shape[3] (Dv)" : "v.shape[2] (Dv)", v.at(v.rank - 1));
  for (const Named* t : {&k, &v}) check_dtype(*t, q.tensor.dtype, ", as q.dtype");
  if (o.tensor.dtype != DType::f32) check_dtype(o, q.tensor.dtype, ", as q.dtype, or f32");
  check_place(q, on_model);
  for (const Named* t : {&k, &v, &o}) check_device(*t, q.tensor.device, "q");
}

FmhaOutputs check_fmha_places(const Named& q, const Named& k, const Named& v, const Named& o) {
  for (const Named* t : {&q, &k, &v}) {
    check_strides(*t, kCopyAlignmentBytes, t->rank - 1);
    check_alignment(*t, kCopyAlignmentBytes);
  }
  const int element_bytes = size_of(o.tensor.dtype);
  check_strides(o, element_bytes, o.rank - 1);
  check_alignment(o, element_bytes);
  const FmhaOutputs ranges{range_of(q), range_of(k), range_of(v), range_of(o)};
  check_no_self_overlap(o);
  check_apart(o, ranges.o, q, ranges.q);
  check_apart(o, ranges.o, k, ranges.k);
  check_apart(o, ranges.o, v, ranges.v);
  return ranges;
}

void check_fmha_numbers(const FmhaArgs& args) {
  if (args.scale && !std::isfinite(*args.scale))
    refuse(kOp, Code::invalid_argument, cat("scale is ", *args.scale, "; allowed: any finite value"));
  check_max_sms(kOp, args.max_sms);
  check_window("window.left", args.window.left);
  check_window("window.right", args.window.right);
  if (!(args.softcap >= 0 && std::isfinite(args.softcap)))
    refuse(kOp, Code::invalid_argument,
           cat("softcap is ", args.softcap, "; allowed: 0 (off) and any finite number above"));
}

void check_fmha_beside(const FmhaArgs& args, const FmhaBeside& of, Size batch, Size heads) {
  if (of.lse != nullptr) {
    const Named& lse = *of.lse;
    check_dtype(lse, DType::f32, "");
    check_device(lse, of.q.tensor.device, "q");
    check_strides(lse, size_of(DType::f32), -1);
    check_alignment(lse, size_of(DType::f32));
    const Range lse_range = range_of(lse);
    check_no_self_overlap(lse);
    check_apart(lse, lse_range, of.o, of.outputs.o);
    check_apart(lse, lse_range, of.q, of.outputs.q);
    check_apart(lse, lse_range, of.k, of.outputs.k);
    check_apart(lse, lse_range, of.v, of.outputs.v);
  }
  if (args.alibi_slopes)
    check_heads("alibi_slopes", *args.alibi_slopes, args.alibi_slopes->rank == 1 ? 1 : 2, "[H] or [B, H]", of, batch,
                heads);
  if (args.sinks) check_heads("sinks", *args.sinks, 1, "[H]", of, batch, heads);
  check_mods(args, of, batch, heads, args.cu_seqlens_q.has_value());
}

void validate(const FmhaConfig& config) {
  check_type("dtype", config.dtype);
  check_head_dim("head_dim", config.head_dim);
  if (config.value_dim != 0) check_head_dim("value_dim", config.value_dim);
  if (config.page_size < 0 || (config.page_size != 0 && !config.varlen))
    refuse(kOp, Code::invalid_argument,
           cat("page_size is ", config.page_size, "; allowed: 0, and with varlen numbers of keys"));
  check_mods(config);
}

void validate(const FmhaArgs& args, bool on_model) {
  if (args.cu_seqlens_q || args.cu_seqlens_k || args.seqused_k || args.block_table)
    return validate_sequences(args, on_model);
  const Named q{kOp, "q", args.q, kQueryAxes, 4, kForm}, k{kOp, "k", args.k, kKeyAxes, 4, kForm},
      v{kOp, "v", args.v, kValueAxes, 4, kForm}, o{kOp, "o", args.o, kOutputAxes, 4, kForm};
  for (const Named* t : {&q, &k, &v, &o}) check_form(*t, kFromZero);
  check_fmha_types(q, k, v, o, on_model);
  check_shapes(q, k, v, o);
  const FmhaOutputs outputs = check_fmha_places(q, k, v, o);
  check_fmha_numbers(args);
  const Named lse{kOp, "lse", args.lse ? *args.lse : args.o, kQueryAxes, 3, "[B, H, Sq]"};
  if (args.lse) {
    check_form(lse, kFromZero);
    for (int i = 0; i < 3; ++i) check_same(lse, i, q.at(i), "q's shape");
  }
  check_fmha_beside(args, {q, k, v, o, args.lse ? &lse : nullptr, outputs, "q.shape[0]"}, q.at(0), q.at(1));
}

}  // namespace tj::ops
