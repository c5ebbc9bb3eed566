// The checks behind ops::validate(GemmArgs); the words of those that every op makes are tensor_checks.hpp's.
//
// Decides the order of the checks. Invariant: a request that passes needs no further check before its tensor maps are
// built.
#include <cmath>

#include "ops/common/empty.hpp"
#include "ops/common/end_text.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/steps.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kOp = "gemm";

/// The dimensions of a tensor with their batch, or without.
struct Axes {
  const char* batched[3];
  int batched_rank;
  const char* form;
};
constexpr Axes kLeft{{"B", "M", "K"}, 3, "[M, K], or [B, M, K] where d has a batch"},
    kRight{{"B", "N", "K"}, 3, "[N, K], or [B, N, K] where d has a batch"},
    kResult{{"B", "M", "N"}, 3, "[M, N], or [B, M, N] for a batch"},
    kAdded{{"B", "M", "N"}, 3, "[M, N], or [B, M, N] where d has a batch"},
    kBias{{"B", "N", ""}, 2, "[N], or [B, N] where d has a batch"};

/// A tensor under its rank: with a batch where it has one and may have one.
Named named(const char* name, const Tensor& t, const Axes& axes, bool may_batch) {
  const bool batched = may_batch && t.rank == axes.batched_rank;
  return {kOp,      name, t, axes.batched + (batched ? 0 : 1), batched ? axes.batched_rank : axes.batched_rank - 1,
          axes.form};
}

/// Tiles of a launch are counted in 32 bits. Those of 64 x 32 count here; smaller ones are taken where they fit, too.
void check_tiles(const GemmSizes& sizes, const char* name) {
  const Size rows = (sizes.m + 63) / 64, columns = (sizes.n + 31) / 32;  // the product fits: both are at most 2^25
  if (sizes.batch != 0 && rows * columns > kMaxSize / sizes.batch)
    refuse(kOp, Code::invalid_argument,
           cat(name, " B ", sizes.batch, ", M ", sizes.m, ", N ", sizes.n,
               "; allowed: B * ceil(M / 64) * ceil(N / 32) of at most ", kMaxSize));
}

/// The last `count` dimensions and, where it has one, the batch.
void check_sizes(const Named& t, std::initializer_list<Size> wanted, const char* like, Size batch) {
  int axis = t.rank - static_cast<int>(wanted.size());
  if (axis == 1) check_same(t, 0, batch, "d.shape[0]");
  for (const Size size : wanted) check_same(t, axis++, size, like);
}

void check_operand(const Named& t) {
  if (is_empty(t.tensor)) return;
  const int rows = t.rank - 2, depth = t.rank - 1;
  if (t.tensor.dtype == DType::e4m3 && t.at(depth) > 1 && t.stride(depth) != 1)
    refuse(kOp, Code::unsupported,
           cat(t.name, ".strides[", depth, "] (K) is ", t.stride(depth),
               "; allowed with e4m3: 1 (the matrix unit takes 8-bit operands with K contiguous; transpose a copy)"));
  if (t.at(rows) > 1 && t.at(depth) > 1 && t.stride(rows) != 1 && t.stride(depth) != 1)
    refuse(kOp, Code::unsupported,
           cat(t.name, ".strides of ", t.axes[rows], " and ", t.axes[depth], " are ", t.stride(rows), " and ",
               t.stride(depth), "; allowed: 1 for one of them (make a contiguous copy)"));
  check_strides(t, size_of(t.tensor.dtype), gemm_mn_major(t.tensor) ? rows : depth);
  check_alignment(t, size_of(t.tensor.dtype));
}

/// Rows that are copied first are tiles of a launch.
void check_copied(const Named& t) {
  if (is_empty(t.tensor) || !gemm_copied(t.tensor)) return;
  const int down = gemm_mn_major(t.tensor) ? t.rank - 1 : t.rank - 2;
  const Size batch = t.rank == 3 ? t.at(0) : 1;
  if (t.at(down) > kMaxSize / batch)
    refuse(kOp, Code::invalid_argument,
           cat(t.name, ".shape is ", shape_text(t.tensor),
               ", and its rows are copied, as they do not begin at multiples of ", kCopyAlignmentBytes,
               " bytes; allowed then: ", t.rank == 3 ? "B * " : "", t.axes[down], " of at most ", kMaxSize));
}

void check_row_contiguous(const Named& t) {
  check_strides(t, size_of(t.tensor.dtype), t.rank - 1);
  check_alignment(t, size_of(t.tensor.dtype));
}

void check_scalars(const GemmArgs& args) {
  if (!std::isfinite(args.alpha))
    refuse(kOp, Code::invalid_argument, cat("alpha is ", args.alpha, "; allowed: any finite value"));
  if (!std::isfinite(args.beta))
    refuse(kOp, Code::invalid_argument, cat("beta is ", args.beta, "; allowed: any finite value"));
  if (args.beta != 0 && !args.c)
    refuse(kOp, Code::invalid_argument, cat("beta is ", args.beta, " but c is absent; allowed: 0, or a c to add"));
  check_gemm_activation(kOp, args.activation);
  check_max_sms(kOp, args.max_sms);
}

/// One f32 that the kernel reads, of an operand of 8 bits.
void check_scale(const char* name, const Tensor& tensor, const Named& operand, const Named& d, const Range& d_range) {
  static constexpr const char* kAxes[] = {"1"};
  const Named scale{kOp, name, tensor, kAxes, tensor.rank == 0 ? 0 : 1, "[1], or rank 0"};
  if (operand.tensor.dtype != DType::e4m3)
    refuse(kOp, Code::invalid_argument,
           cat(name, " is given with ", operand.name, ".dtype ", to_string(operand.tensor.dtype),
               "; allowed with e4m3 (else multiply alpha by it)"));
  check_form(scale);
  check_dtype(scale, DType::f32, "");
  check_device(scale, operand.tensor.device, operand.name);
  if (scale.rank == 1) check_same(scale, 0, 1, "one scale serves the tensor");
  check_alignment(scale, size_of(DType::f32));
  check_apart(d, d_range, scale, range_of(scale));
}

/// Scales of tensors or of blocks, by their ranks: both are of one kind.
void check_scales(const GemmArgs& args, const Named& a, const Named& b, const Named& d, const Range& d_range) {
  const auto blocks = [](const std::optional<Tensor>& scale) { return scale && scale->rank >= 2; };
  if (!blocks(args.scale_a) && !blocks(args.scale_b)) {
    if (args.scale_a) check_scale("scale_a", *args.scale_a, a, d, d_range);
    if (args.scale_b) check_scale("scale_b", *args.scale_b, b, d, d_range);
    return;
  }
  for (const auto& [name, scale] : {std::pair{"scale_a", &args.scale_a}, {"scale_b", &args.scale_b}})
    if (!blocks(*scale))
      refuse(kOp, Code::invalid_argument,
             cat(name, *scale ? cat(".rank is ", (*scale)->rank) : std::string(" is absent"),
                 " and the other operand has scales of blocks; allowed: scales of blocks of both, or of neither"));
  if (args.a.dtype != DType::e4m3)
    refuse(kOp, Code::invalid_argument,
           cat("scale_a is given with a.dtype ", to_string(args.a.dtype), "; allowed with e4m3"));
  const GemmSizes sizes = gemm_sizes(args);
  const std::int64_t k_blocks = gemm_scale_blocks(sizes.k);
  check_block_scales("scale_a", *args.scale_a, a, sizes.m, 0, k_blocks, args.scale_a->dtype, d, d_range);
  check_block_scales("scale_b", *args.scale_b, b, sizes.n, gemm_scale_blocks(sizes.n), k_blocks, args.scale_a->dtype, d,
                     d_range);
}

/// Checks the rules that c and bias share: their form, their type, d's device, rows of d's length.
void check_addend(const Named& t, const Named& d, DType type, const char* like, std::initializer_list<Size> sizes,
                  Size batch) {
  check_form(t, kAllAxes);
  check_dtype(t, type, like);
  check_device(t, d.tensor.device, "d");
  check_sizes(t, sizes, "d's shape", batch);
  check_row_contiguous(t);
}

}  // namespace

bool gemm_same_places(const Tensor& x, const Tensor& y) {
  if (x.rank != y.rank || x.rank < 0 || x.rank > kMaxRank) return false;  // plans ask before anything is validated
  for (int i = 0; i < x.rank; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (x.shape[at] != y.shape[at] || (x.shape[at] > 1 && x.strides[at] != y.strides[at])) return false;
  }
  return true;
}

bool gemm_mn_major(const Tensor& operand) {
  if (operand.dtype == DType::e4m3) return false;
  const auto rows = static_cast<std::size_t>(operand.rank - 2), depth = static_cast<std::size_t>(operand.rank - 1);
  const bool k = operand.shape[depth] == 1 || operand.strides[depth] == 1,
             mn = operand.shape[rows] == 1 || operand.strides[rows] == 1;
  if (k != mn) return mn;
  // Both may pass for contiguous when one has a single element: then the other's stride tells. Of one element alone
  // both strides do.
  if (operand.shape[rows] == 1 && operand.shape[depth] == 1)
    return operand.strides[rows] == 1 && operand.strides[depth] > 1;
  return k && operand.shape[rows] > 1 && operand.strides[rows] * size_of(operand.dtype) % kCopyAlignmentBytes != 0;
}

void validate(const GemmConfig& config) {
  check_gemm_types(kOp, config.dtype, config.out, "dtype", "out");
  for (const auto& [name, value] :
       {std::pair{"a_transposed", config.a_transposed}, {"b_transposed", config.b_transposed}})
    if (config.dtype == DType::e4m3 && value)
      refuse(kOp, Code::unsupported, cat(name, " is true; allowed with e4m3: false (K is contiguous)"));
  check_gemm_activation(kOp, config.activation);
  check_end_text(kOp, config.end_text, config.activation);
  check_gemm_activation(kOp, config.gate, "gate");
  if (config.gate != Activation::none) {
    check_gemm_gate(kOp, config.activation, config.add_c, config.n);
    if (config.b_transposed) refuse(kOp, Code::unsupported, "b_transposed is true; allowed with a gate: false");
  }
  if (config.out == DType::e4m3 && config.add_c)
    refuse(kOp, Code::unsupported, "add_c is true; allowed with out e4m3: false");
  if (config.scales < Scales::tensor || config.scales > Scales::row ||
      (config.scales != Scales::tensor && config.dtype != DType::e4m3))
    refuse(kOp, Code::invalid_argument,
           cat("scales is ", static_cast<int>(config.scales), "; allowed with ", to_string(config.dtype),
               config.dtype == DType::e4m3 ? ": 0 (tensor), 1 (block), 2 (row)" : ": 0 (tensor)"));
  if (config.packed_scales && config.scales == Scales::tensor)
    refuse(kOp, Code::invalid_argument, "packed_scales is true; allowed with scales of blocks");
  for (const auto& [name, value] :
       {std::pair{"m", config.m}, {"n", config.n}, {"k", config.k}, {"batch", config.batch}})
    if (value < 1 || value > kMaxSize)
      refuse(kOp, Code::invalid_argument, cat(name, " is ", value, "; allowed: 1 to ", kMaxSize));
  check_tiles({config.m, config.n, config.k, config.batch}, "sizes are");
}

void validate(const GemmArgs& args, bool on_model) {
  const bool batch = args.d.rank == 3;
  const Named a = named("a", args.a, kLeft, batch), b = named("b", args.b, kRight, batch),
              d = named("d", args.d, kResult, true);
  for (const Named* t : {&a, &b, &d}) check_form(*t, kAllAxes);
  check_gemm_types(kOp, args.a.dtype, args.d.dtype, "a.dtype", "d.dtype");
  check_gemm_quantised(kOp, args);
  check_dtype(b, args.a.dtype, ", as a.dtype");
  check_place(a, on_model);
  for (const Named* t : {&b, &d}) check_device(*t, args.a.device, "a");
  check_gemm_activation(kOp, args.gate, "gate");
  const bool gated = args.gate != Activation::none;
  if (gated) check_gemm_gate(kOp, args.activation, args.beta != 0, b.at(b.rank - 2));
  const GemmSizes sizes = gemm_sizes(args);
  check_sizes(a, {sizes.m, sizes.k}, "d's M", sizes.batch);
  check_sizes(b, {sizes.n, sizes.k}, gated ? "twice d's columns, with a gate, and a's K" : "d's N and a's K",
              sizes.batch);
  check_tiles(sizes, "d's shape is");
  check_operand(a);
  check_operand(b);
  check_row_contiguous(d);
  const Range a_range = range_of(a), b_range = range_of(b), d_range = range_of(d);
  check_no_self_overlap(d);
  check_apart(d, d_range, a, a_range);
  check_apart(d, d_range, b, b_range);
  check_scalars(args);
  if (args.alpha != 0)
    for (const Named* t : {&a, &b}) check_copied(*t);
  if (args.beta != 0) {
    const Named c = named("c", *args.c, kAdded, batch);
    const DType type = args.c->dtype == DType::f32 ? DType::f32 : args.d.dtype;
    check_addend(c, d, type, args.d.dtype == DType::f32 ? ", as d.dtype" : ", as d.dtype, or f32", {sizes.m, sizes.n},
                 sizes.batch);
    if (args.c->data != args.d.data || type != args.d.dtype || !gemm_same_places(*args.c, args.d))
      check_apart(d, d_range, c, range_of(c));
  }
  check_scales(args, a, b, d, d_range);
  if (args.bias) {
    const Named bias = named("bias", *args.bias, kBias, batch);
    const DType type = gemm_added(args.a.dtype, args.d.dtype);
    check_addend(bias, d, type, type == args.d.dtype ? ", as d.dtype" : ", with d of e4m3", {sizes.n}, sizes.batch);
    check_apart(d, d_range, bias, range_of(bias));
  }
  if (gated) check_gemm_gate_operands(args, b);
  check_gemm_scale_d(args, d, d_range);
  check_end_text(kOp, args, d, d_range);
}

}  // namespace tj::ops
