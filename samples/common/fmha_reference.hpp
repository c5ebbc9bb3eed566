// Attention in f64, and how far a result is from it. The one reference of samples and tests.
//
// Decides the error metric and which rows are compared. Plain loops over host memory: no tile, no schedule, nothing
// that it could share with a kernel. Invariant: a comparison says how many rows it looked at.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tilejit/ops.hpp>

namespace tj::samples {

/// Limits on ||o - ref|| / ||ref||, and on |lse - ref|.
inline constexpr double kMaxErrorF16 = 6e-4;
inline constexpr double kMaxErrorBf16 = 5e-3;
inline constexpr double kMaxLseError = 1e-3;
/// An element is close where |o - ref| <= kClose + kClose |ref|, as torch.testing.assert_close has it.
inline constexpr double kClose = 1e-2;
inline double max_error(DType dtype) { return dtype == DType::bf16 ? kMaxErrorBf16 : kMaxErrorF16; }

struct FmhaReference {
  std::vector<double> o;    ///< dense [B, H, Sq, Dv]
  std::vector<double> lse;  ///< dense [B, H, Sq]
};

/// Answers of a call's texts on the host, for batch, head, place of the query, key. Empty: no such text.
struct FmhaModsOfHost {
  std::function<double(double score, int b, int h, int q, int k)> score;
  std::function<bool(int b, int h, int q, int k)> mask;
};

/// All rows. args.q, k and v are in host memory (any strides); o and lse are not looked at.
FmhaReference fmha_reference(const FmhaArgs& args, int threads = 0);

struct CompareOptions {
  /// Elements of k and v that may be read; above it a random subset of rows is compared. 2^30 takes seconds.
  std::int64_t max_work = std::int64_t{1} << 30;
  std::uint64_t seed = 1;  ///< of the choice of rows
  int threads = 0;         ///< 0: one a core
  FmhaModsOfHost mods = {};
};

struct FmhaComparison {
  double o_error = 0;  ///< ||o - ref|| / ||ref|| over the compared rows; infinite when an element is not finite
  double lse_error =
      0;  ///< largest |lse - ref|; infinite where only one of them is -inf; 0 without lse, -1: nobody asked
  double o_mean_square = 0;  ///< mean of (o - ref)^2 over the compared elements; NaN when there are none
  std::int64_t rows = 0, rows_total = 0;
  std::int64_t apart = 0;  ///< compared elements that are not close
  double most_apart = 0;   ///< largest |o - ref|; infinite where an element is not finite

  bool within(DType dtype) const { return o_error <= max_error(dtype) && lse_error <= kMaxLseError; }
  /// Is each compared element close?
  bool close() const { return apart == 0; }
  /// "error 1.9e-04 (limit 6.0e-04), lse error ..., 0 elements apart ..., 512 of 16384 rows compared (3.12%)".
  std::string text(DType dtype) const;
};

/// Some rows of the reference, in order: results of several kernels are compared with them.
struct FmhaRows {
  std::vector<std::int64_t> rows;  ///< counted over [B, H, Sq]
  FmhaReference values;            ///< of these rows
  std::int64_t total = 0;          ///< rows of the call
};
FmhaRows fmha_reference_rows(const FmhaArgs& args, const CompareOptions& options = {});

/// Compares args.o, of q's type or f32, and args.lse where present, with the reference. All tensors in host memory.
FmhaComparison compare_fmha(const FmhaArgs& args, const FmhaRows& reference);
FmhaComparison compare_fmha(const FmhaArgs& args, const CompareOptions& options = {});
/// Elements of a that are not close to b's. One that is not finite is not.
std::int64_t elements_apart(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b, DType dtype);

/// ||a - b|| / ||b|| of f16 or bf16 values. Infinite when one of a is not finite, or when b is nothing but zeros and a
/// is not.
double relative_distance(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b, DType dtype);

/// Pairs of a query and a key that it sees, times 2 (D + Dv), a multiplication and an addition for each element: the
/// operations of one call.
double fmha_flops(const FmhaArgs& args);
inline double tflops(double flops, double milliseconds) { return milliseconds > 0 ? flops / milliseconds * 1e-9 : 0; }

}  // namespace tj::samples
