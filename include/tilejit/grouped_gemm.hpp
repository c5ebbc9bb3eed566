// Matrix products of groups of rows, each with a matrix of its own: the layers of mixture-of-experts models.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include <tilejit/gemm.hpp>
#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct GroupedGemmConfig;

/// Grouping says how the list tells which rows belong to which matrix of b.
/// ends: rows of groups follow each other in a; entry g is the row behind the last of group g. No group is padded.
/// counts: a and d have a matrix for each group; entry g is how many of its rows are there, from the first on.
/// rows: entry m is the group of row m, -1 where there is none. Groups begin at multiples of 128 rows, so that 128 rows
/// that begin there have the group of the first of them.
/// depths: groups follow each other along K, as tokens do in gradients of weights: d[g] is the product of M x N over
/// the K of group g. Entry g is the place behind its last.
enum class Grouping : std::int32_t { ends = 0, counts = 1, rows = 2, depths = 3 };

/// Products of groups: rows of d = activation(alpha * rows of a times b[g]^T + beta * rows of c + bias[g]) for each
/// group g, accumulated in f32.
///
/// Shapes: b [G, N, K]. With Grouping::ends and rows, a is [M, K] and d [M, N]; with counts, a [G, R, K] and d
/// [G, R, N]. c has d's shape, bias is [G, N]. groups is i32: [G] with ends and counts, [M] with rows. All are on one
/// device. With a gate, d has N / 2 columns, as GemmArgs says.
/// Types: a and b share f16, bf16 or e4m3; d is f16, bf16 or f32; c and bias are as d. Or d is e4m3 with scale_d, as
/// GemmArgs says: [M, ceil(N / 128)] of d's N, or [G, R, ceil(N / 128)] with counts. Scales of rows that no group has
/// are no more written than those rows.
/// Memory: K is contiguous in a and b; N in c, d and bias. Addresses and strides of a and b are multiples of 16 bytes.
/// d may be c (same address and strides); else it overlaps no other tensor.
///
/// With Grouping::depths a is [M, K], b [N, K], c and d [G, M, N] and groups [G]. M is contiguous in a and N in b, so
/// a.T and b.T have a row for each token. With beta 1, d as c and f32, gradients of steps add up. A group without K
/// gives beta * c + bias. Of e4m3 K is contiguous instead, as quantise() with `transposed` leaves it, and groups end at
/// multiples of 128, the last one also at K; scale_a is [M, ceil(K / 128)], scale_b [N, ceil(K / 128)] or [ceil(N /
/// 128), ceil(K / 128)].
///
/// The list is read on the device: neither the launch nor the kernel depends on it, so a captured graph holds for all
/// lists. Groups may be empty. Rows of d that belong to no group are not written, but with Grouping::rows: of the 128
/// rows in which a group ends, those behind it may be written, as the tile has it. What a holds in such rows may be
/// anything.
/// Legal ends are 0 to M, none below the one before it; legal counts 0 to R. With other values still no memory but
/// these tensors' is touched. An end counts as 0 to M (to K with depths, of e4m3 as the next multiple of 128), and a
/// group that ends before it begins is empty. A count is 0 to R. A row that names no group has none. Where ends fall,
/// rows may have two groups: d then has either's, and the CPU model may report the race. With TJ_CHECK=1 a call reads
/// the list first, and names the first bad entry.
///
/// e4m3: on the archs that GemmArgs names. Scales of blocks, f32: scale_a [M, ceil(K / 128)], or [G, R, ceil(K / 128)]
/// with counts; scale_b [G, ceil(N / 128), ceil(K / 128)] or [G, N, ceil(K / 128)]. Their orders and alignment are
/// those of GemmArgs, and so are i32 of four exponents each. Without them each product is as it is.
///
/// An end of one's own: end_text takes the place of the activation, as GemmArgs says. It is told (value, row, column,
/// group, params). row is d's, or with counts and depths that of the group's matrix.
///
/// Kernels of f16 and bf16 exist on all archs that gemm() serves. A gate and a quantised d are Hopper's alone. Equal
/// calls give equal bits. Errors are tj::Error, naming the argument. Thread safe.
struct GroupedGemmArgs {
  static constexpr const char* kOp = "grouped_gemm";
  using Config = GroupedGemmConfig;
  Tensor a, b, d, groups;
  Grouping grouping = Grouping::ends;
  std::optional<Tensor> bias;
  float alpha = 1;  ///< finite
  Activation activation = Activation::none;
  std::optional<Tensor> scale_a, scale_b;  ///< with e4m3 only; both or neither
  /// Rows that a group is expected to have, or K with depths: it decides the tile, never the rows of groups. 0: M / G,
  /// R, K / G.
  std::int64_t expected_rows = 0;
  /// Multiprocessors that the call's launches may fill, as GemmArgs::max_sms.
  int max_sms = 0;
  Activation gate = Activation::none;  ///< none: there is no gate
  bool gate_interleaved = false;       ///< rows of each matrix of b take turns; looked at with a gate
  std::optional<Tensor> c;             ///< needed when beta is not 0; else neither read nor looked at
  float beta = 0;                      ///< finite
  std::optional<Tensor> scale_d;       ///< written; with d of e4m3 only
  bool powers_of_two = false;          ///< of scale_d
  DeviceText end_text;                 ///< as GemmArgs
  std::optional<Tensor> end_params;    ///< i32 or f32 [N], what end_text reads
};

/// The fields that choose a grouped_gemm kernel, without any memory: for prepare() and warm().
struct GroupedGemmConfig {
  using Args = GroupedGemmArgs;
  Grouping grouping = Grouping::ends;
  std::int64_t groups = 8, expected_rows = 512, n = 4096, k = 4096;
  std::int64_t m = 4096;  ///< with depths, where expected_rows are those of K and k is not looked at
  DType dtype = DType::bf16, out = DType::bf16;
  bool bias = false;
  Activation activation = Activation::none;
  Scales scales = Scales::tensor;                               ///< with e4m3
  bool scale_a_transposed = false, scale_b_transposed = false;  ///< as GemmConfig
  Activation gate = Activation::none;                           ///< n are rows of b's matrices
  bool add_c = false;                                           ///< beta is not 0
  bool packed_scales = false;                                   ///< as GemmConfig
  DeviceText end_text = {};                                     ///< as GemmConfig
};

/// Runs the call on Runtime::instance().
inline void grouped_gemm(const GroupedGemmArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
