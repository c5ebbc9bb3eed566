// The checks behind ops::validate(QuantiseArgs); the words of those that every op makes are tensor_checks.hpp's.
//
// Decides the order of the checks.
#include <array>
#include <cstdint>
#include <vector>

#include "ops/common/block_scales.hpp"
#include "ops/common/empty.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/quantise/params.cuh"
#include "ops/quantise/quantise.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kOp = "quantise";
constexpr const char *kWhole[] = {"B", "M", "K"}, *kTurned[] = {"B", "K", "M"},
                     *kScales[] = {"B", "rows", "blocks of K"};

void check_source_type(DType dtype, const char* name) {
  if (dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32)
    refuse(kOp, Code::unsupported, cat(name, " is ", to_string(dtype), "; allowed: f16, bf16, f32"));
}

void check_scales(const Named& scales, const Named& q, bool transposed) {
  const int down = q.rank - 2, across = q.rank - 1;
  if (q.rank == 3) check_same(scales, 0, q.at(0), "q.shape[0]");
  if (transposed) check_same(scales, down, q.at(down), "q's K");
  if (!transposed && scales.at(down) != q.at(down) && scales.at(down) != scale_blocks(q.at(down)))
    refuse(kOp, Code::invalid_argument,
           cat("scales.shape[", down, "] is ", scales.at(down), "; allowed: ", q.at(down), " (M), or ",
               scale_blocks(q.at(down)), " (ceil(M / ", quantise::kBlock, "))"));
  check_same(scales, across, scale_words(q.at(across), scales.tensor.dtype),
             transposed                          ? "ceil(M / 128), or of i32 ceil(M / 512)"
             : scales.tensor.dtype == DType::i32 ? "ceil(K / 512), of i32"
                                                 : "ceil(K / 128)");
  check_strides(scales, size_of(DType::f32), -1);
  check_alignment(scales, size_of(DType::f32));
  check_no_self_overlap(scales);
}

/// What does not go with a q that is transposed.
void check_turned(DType dtype, Activation gate, bool row_indices) {
  if (dtype == DType::f32) refuse(kOp, Code::unsupported, "x.dtype is f32; allowed with transposed: f16, bf16");
  if (gate != Activation::none)
    refuse(kOp, Code::unsupported, cat("gate is ", static_cast<int>(gate), "; allowed with transposed: 0 (none)"));
  if (row_indices) refuse(kOp, Code::unsupported, "row_indices is given; allowed with transposed: none");
}

/// An output that the list lies beside.
struct Written {
  const Named& tensor;
  const Range& range;
};

void check_row_indices(const Tensor& tensor, const Named& x, const std::array<Written, 2>& outputs) {
  static constexpr const char* kAxes[] = {"M"};
  const Named list{kOp, "row_indices", tensor, kAxes, 1, "[M]"};
  if (x.rank == 3)
    refuse(kOp, Code::unsupported, "row_indices is given with a batch; allowed with q [M, K] and x [X, K]");
  check_form(list, kAllAxes);
  check_dtype(list, DType::i32, "");
  check_device(list, x.tensor.device, "x");
  check_same(list, 0, outputs[0].tensor.at(0), "q's M");
  check_strides(list, size_of(DType::i32), 0);
  check_alignment(list, size_of(DType::i32));
  for (const Written& written : outputs) check_apart(written.tensor, written.range, list, range_of(list));
}

}  // namespace

bool quantise_tall(const QuantiseArgs& args) {
  const auto down = static_cast<std::size_t>(args.q.rank - 2);
  return !args.transposed && args.scales.shape[down] != args.q.shape[down];
}

void validate(const QuantiseConfig& config) {
  check_source_type(config.dtype, "dtype");
  check_gemm_activation(kOp, config.gate, "gate");
  if (config.transposed) check_turned(config.dtype, config.gate, config.row_indices);
  if (config.transposed && config.tall) refuse(kOp, Code::unsupported, "tall is true; allowed with transposed: false");
}

void validate(const QuantiseArgs& args, bool on_model) {
  const bool batch = args.q.rank == 3;
  const int rank = batch ? 3 : 2, first = batch ? 0 : 1;
  const char* const form = batch ? "[B, M, K]" : "[M, K], or [B, M, K] for a batch";
  const bool turned = args.transposed;
  const Named q{kOp,    "q",
                args.q, (turned ? kTurned : kWhole) + first,
                rank,   turned ? "[K, M], or [B, K, M] for a batch, with transposed" : form},
      x{kOp, "x", args.x, kWhole + first, rank, batch ? "[B, M, K], as q" : "[M, K], as q"},
      scales{kOp, "scales", args.scales, kScales + first, rank, "a scale for each block, with q's batch"};
  for (const Named* t : {&q, &x, &scales}) check_form(*t, kAllAxes);
  check_source_type(args.x.dtype, "x.dtype");
  check_dtype(q, DType::e4m3, "");
  if (args.scales.dtype != DType::i32) check_dtype(scales, DType::f32, ", or i32 with powers_of_two");
  if (args.scales.dtype == DType::i32 && !args.powers_of_two)
    refuse(kOp, Code::invalid_argument,
           "scales.dtype is i32 (exponents) and powers_of_two is false; allowed: f32, or true");
  check_place(x, on_model);
  for (const Named* t : {&q, &scales}) check_device(*t, args.x.device, "x");
  check_gemm_activation(kOp, args.gate, "gate");
  if (turned) {
    check_turned(args.x.dtype, args.gate, args.row_indices.has_value());
    if (batch) check_same(x, 0, q.at(0), "q's shape");
    check_same(x, rank - 2, q.at(rank - 1), "q's M");
    check_same(x, rank - 1, q.at(rank - 2), "q's K");
  }
  for (int axis = 0; !turned && axis < rank - (args.row_indices ? 2 : 1); ++axis)
    check_same(x, axis, q.at(axis), "q's shape");
  const bool gated = args.gate != Activation::none;
  if (!turned)
    check_same(x, rank - 1, gated ? 2 * q.at(rank - 1) : q.at(rank - 1), gated ? "twice q's K, with a gate" : "q's K");
  // Units of a launch are counted in 32 bits: those of 8 rows and 128 columns, or of 128 rows and 32 columns.
  const Size rows = q.at(turned ? rank - 1 : rank - 2), columns = q.at(turned ? rank - 2 : rank - 1),
             batches = batch ? q.at(0) : 1;
  const Size down = turned ? scale_blocks(rows) * batches : (rows * batches + 7 * batches) / 8 + 1,
             across = turned ? (columns + 31) / 32 : scale_blocks(columns);
  if (!is_empty(args.q) && (rows > kMaxSize / batches || down > kMaxSize / across))
    refuse(kOp, Code::invalid_argument,
           cat("q.shape is ", shape_text(args.q),
               "; allowed: B * M, and B * ceil(M / 8) * ceil(K / 128) (transposed: B * ceil(M / 128) * ceil(K / 32)), "
               "of at "
               "most ",
               kMaxSize));
  for (const Named* t : {&x, &q}) {
    check_strides(*t, size_of(t->tensor.dtype), rank - 1);
    check_alignment(*t, size_of(t->tensor.dtype));
  }
  check_no_self_overlap(q);
  check_scales(scales, q, args.transposed);
  const Range x_range = range_of(x), q_range = range_of(q), scale_range = range_of(scales);
  check_apart(q, q_range, x, x_range);
  check_apart(scales, scale_range, x, x_range);
  check_apart(scales, scale_range, q, q_range);
  if (args.row_indices) check_row_indices(*args.row_indices, x, {Written{q, q_range}, Written{scales, scale_range}});
  check_max_sms(kOp, args.max_sms);
}

void check_rows(const QuantiseArgs& args, const ReadList& read) {
  if (!args.row_indices) return;
  const std::vector<std::int32_t> list = read(*args.row_indices);
  for (std::size_t m = 0; m < list.size(); ++m)
    if (list[m] < -1 || list[m] >= args.x.shape[0])
      refuse(kOp, Code::invalid_argument,
             cat("row_indices[", m, "] is ", list[m], "; allowed: -1 (zeros) to ", args.x.shape[0] - 1,
                 ", the rows of x"));
}

}  // namespace tj::ops
