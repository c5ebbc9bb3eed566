// The checks behind ops::validate(GroupedGemmArgs); the words of those that every op makes are tensor_checks.hpp's.
//
// Decides the order of the checks. What lists say is not looked at: the device reads them. Invariant: a request that
// passes needs no further check before its tensor maps are built.
#include <cmath>

#include "ops/common/end_text.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kOp = "grouped_gemm";
constexpr const char *kLeft[] = {"G", "R", "K"}, *kRight[] = {"G", "N", "K"}, *kResult[] = {"G", "R", "N"},
                     *kLeftRows[] = {"M", "K"}, *kResultDepths[] = {"G", "M", "N"}, *kResultRows[] = {"M", "N"},
                     *kBias[] = {"G", "N"}, *kList[] = {"G"}, *kListRows[] = {"M"};
constexpr const char* kGroupings = "0 (ends), 1 (counts), 2 (rows), 3 (depths)";

bool known(Grouping grouping) { return grouping >= Grouping::ends && grouping <= Grouping::depths; }

/// An operand that the copy engine reads as it lies, with that dimension contiguous.
void check_operand(const Named& t, int contiguous) {
  check_strides(t, kCopyAlignmentBytes, contiguous);
  check_alignment(t, kCopyAlignmentBytes);
}

/// Tiles of a launch are counted in 32 bits; those of 16 x 32 are the smallest.
void check_tiles(Size rows, Size n, Size groups, const char* name) {
  const Size down = (rows + 15) / 16 + groups, across = (n + 31) / 32;  // the product fits: both are at most 2^31
  if (down * across > kMaxSize)
    refuse(kOp, Code::invalid_argument,
           cat(name, " rows ", rows, ", N ", n, ", G ", groups,
               "; allowed: (ceil(rows / 16) + G) * ceil(N / 32) of at most ", kMaxSize));
}

void check_list(const GroupedGemmArgs& args, Size wanted, const Named& d, const Range& d_range) {
  const bool rows = args.grouping == Grouping::rows;
  const Named list{kOp, "groups", args.groups, rows ? kListRows : kList, 1, rows ? "[M]" : "[G]"};
  check_form(list, kAllAxes);
  check_dtype(list, DType::i32, "");
  check_device(list, args.a.device, "a");
  check_same(list, 0, wanted, rows ? "a's M" : "b.shape[0]");
  check_strides(list, size_of(DType::i32), 0);
  check_alignment(list, size_of(DType::i32));
  check_apart(d, d_range, list, range_of(list));
}

void check_bias(const GroupedGemmArgs& args, Size groups, Size n, const Named& d, const Range& d_range) {
  const Named bias{kOp, "bias", *args.bias, kBias, 2, "[G, N]"};
  const DType type = gemm_added(args.a.dtype, args.d.dtype);
  check_form(bias, kAllAxes);
  check_dtype(bias, type, type == args.d.dtype ? ", as d.dtype" : ", with d of e4m3");
  check_device(bias, args.a.device, "a");
  check_same(bias, 0, groups, "G");
  check_same(bias, 1, n, "b's N");
  check_strides(bias, size_of(type), 1);
  check_alignment(bias, size_of(type));
  check_apart(d, d_range, bias, range_of(bias));
}

/// Sizes of groups of rows.
void check_sizes(const GroupedGemmArgs& args, const Named& a, const Named& b, const Named& d) {
  const bool counts = args.grouping == Grouping::counts, gated = args.gate != Activation::none;
  const int rank = a.rank;
  check_same(a, rank - 1, b.at(2), "b's K");
  if (gated) check_gemm_gate(kOp, args.activation, args.beta != 0, b.at(1));
  check_same(d, rank - 1, gated ? b.at(1) / 2 : b.at(1), gated ? "half of b's N, with a gate" : "b's N");
  check_same(d, rank - 2, a.at(rank - 2), "a's rows");
  if (counts)
    for (const Named* t : {&a, &d}) check_same(*t, 0, b.at(0), "b.shape[0]");
  const Size rows = a.at(rank - 2);
  if (counts && b.at(0) != 0 && rows > kMaxSize / b.at(0))
    refuse(kOp, Code::invalid_argument,
           cat("a.shape is ", shape_text(args.a), "; allowed: G * R of at most ", kMaxSize));
  check_tiles(counts ? rows * b.at(0) : rows, b.at(1), b.at(0), "d has");
}

/// Sizes of groups along K.
void check_depths(const GroupedGemmArgs& args, const Named& a, const Named& b, const Named& d) {
  if (args.gate != Activation::none)
    refuse(kOp, Code::unsupported, cat("gate is ", static_cast<int>(args.gate), "; allowed with depths: 0 (none)"));
  if (args.scale_d) refuse(kOp, Code::unsupported, "d.dtype is e4m3; allowed with depths: f16, bf16, f32");
  check_same(b, 1, a.at(1), "a's K");
  check_same(d, 1, a.at(0), "a's M");
  check_same(d, 2, b.at(0), "b's N");
  if (d.at(0) != 0 && a.at(0) > kMaxSize / d.at(0))
    refuse(kOp, Code::invalid_argument,
           cat("d.shape is ", shape_text(args.d), "; allowed: G * M of at most ", kMaxSize));
  check_tiles(a.at(0) * d.at(0), b.at(0), d.at(0), "d has");
}

void check_residual(const GroupedGemmArgs& args, const Named& d, const Range& d_range) {
  if (!args.c)
    refuse(kOp, Code::invalid_argument, cat("beta is ", args.beta, " but c is absent; allowed: 0, or a c to add"));
  const Named c{kOp, "c", *args.c, d.axes, d.rank, d.form};
  check_form(c, kAllAxes);
  check_dtype(c, args.d.dtype, ", as d.dtype");
  check_device(c, args.a.device, "a");
  for (int axis = 0; axis < d.rank; ++axis) check_same(c, axis, d.at(axis), "d's shape");
  check_strides(c, size_of(args.d.dtype), c.rank - 1);
  check_alignment(c, size_of(args.d.dtype));
  if (args.c->data != args.d.data || !gemm_same_places(*args.c, args.d)) check_apart(d, d_range, c, range_of(c));
}

void check_scales(const GroupedGemmArgs& args, const Named& a, const Named& b, const Named& d, const Range& d_range) {
  if (!args.scale_a && !args.scale_b) return;
  if (args.a.dtype != DType::e4m3)
    refuse(kOp, Code::invalid_argument,
           cat(args.scale_a ? "scale_a" : "scale_b", " is given with a.dtype ", to_string(args.a.dtype),
               "; allowed with e4m3"));
  for (const auto& [name, scale] : {std::pair{"scale_a", &args.scale_a}, {"scale_b", &args.scale_b}})
    if (!*scale)
      refuse(kOp, Code::invalid_argument, cat(name, " is absent and the other is given; allowed: both, or neither"));
  const Size k_blocks = gemm_scale_blocks(b.at(b.rank - 1)), n = b.at(b.rank - 2);
  check_block_scales("scale_a", *args.scale_a, a, a.at(a.rank - 2), 0, k_blocks, args.scale_a->dtype, d, d_range);
  check_block_scales("scale_b", *args.scale_b, b, n, gemm_scale_blocks(n), k_blocks, args.scale_a->dtype, d, d_range);
}

[[noreturn]] void refuse_entry(std::size_t at, std::int32_t entry, const std::string& allowed) {
  refuse(kOp, Code::invalid_argument, cat("groups[", at, "] is ", entry, "; allowed: ", allowed));
}

/// 128 rows that begin at a multiple of 128 are of one group, or of none from some row on.
void check_named(const std::vector<std::int32_t>& list, Size groups) {
  for (std::size_t m = 0; m < list.size(); ++m) {
    const std::size_t first = m / gemm::kRowsTogether * gemm::kRowsTogether;
    const bool here = list[m] >= -1 && list[m] < groups, alike = list[m] == list[first] || list[m] == -1;
    if (!here) refuse_entry(m, list[m], cat("-1 (none) to ", groups - 1));
    if (m > first && list[m] != -1 && list[m - 1] == -1 && list[first] != -1)
      refuse_entry(m, list[m],
                   cat("-1, as groups[", m - 1,
                       "]: behind a row of none come rows of none, up to the next multiple of ", gemm::kRowsTogether));
    if (!alike)
      refuse_entry(
          m, list[m],
          cat(list[first], ", as groups[", first, "], or -1: groups begin at multiples of ", gemm::kRowsTogether));
  }
}

}  // namespace

void check_groups(const GroupedGemmArgs& args, const ReadList& read) {
  const std::vector<std::int32_t> list = read(args.groups);
  const bool depths = args.grouping == Grouping::depths;
  const auto rows = args.a.shape[static_cast<std::size_t>(depths ? 1 : args.a.rank - 2)];
  if (args.grouping == Grouping::rows) return check_named(list, args.b.shape[0]);
  std::int32_t least = 0;
  for (std::size_t group = 0; group < list.size(); ++group) {
    if (list[group] < least || list[group] > rows)
      refuse_entry(group, list[group],
                   args.grouping == Grouping::counts
                       ? cat("0 to ", rows, " (R)")
                       : cat(least, group > 0 ? " (the end before it)" : "", " to ", rows, depths ? " (K)" : " (M)"));
    if (depths && args.a.dtype == DType::e4m3 && list[group] % gemm::kScaledElements != 0 && list[group] != rows)
      refuse_entry(group, list[group], cat("multiples of ", gemm::kScaledElements, " with e4m3, or ", rows, " (K)"));
    if (args.grouping != Grouping::counts) least = list[group];
  }
}

void validate(const GroupedGemmConfig& config) {
  if (!known(config.grouping))
    refuse(kOp, Code::invalid_argument,
           cat("grouping is ", static_cast<int>(config.grouping), "; allowed: ", kGroupings));
  for (const auto& [name, value] : {std::pair{"groups", config.groups},
                                    {"expected_rows", config.expected_rows},
                                    {"m", config.m},
                                    {"n", config.n},
                                    {"k", config.k}})
    if (value < 1 || value > kMaxSize)
      refuse(kOp, Code::invalid_argument, cat(name, " is ", value, "; allowed: 1 to ", kMaxSize));
  GemmConfig product;
  const bool depths = config.grouping == Grouping::depths;
  product.m = depths ? config.m : config.expected_rows;
  product.n = config.n;
  product.k = depths ? config.expected_rows : config.k;
  product.a_transposed = product.b_transposed = depths && config.dtype != DType::e4m3;
  product.dtype = config.dtype;
  product.out = config.out;
  product.activation = config.activation;
  product.gate = config.gate;
  product.end_text = config.end_text;
  product.add_c = config.add_c;
  product.scales = config.scales;
  product.packed_scales = config.packed_scales;
  validate(product);
  if (depths && config.out == DType::e4m3)
    refuse(kOp, Code::unsupported, "out is e4m3; allowed with depths: f16, bf16, f32");
  if (depths && config.m > kMaxSize / config.groups)
    refuse(kOp, Code::invalid_argument, cat("m is ", config.m, "; allowed: groups * m of at most ", kMaxSize));
  check_tiles(depths ? config.m * config.groups : config.expected_rows, config.n, config.groups, "sizes are");
}

void validate(const GroupedGemmArgs& args, bool on_model) {
  if (!known(args.grouping))
    refuse(kOp, Code::invalid_argument,
           cat("grouping is ", static_cast<int>(args.grouping), "; allowed: ", kGroupings));
  const bool counts = args.grouping == Grouping::counts, depths = args.grouping == Grouping::depths;
  const int rank = counts ? 3 : 2;
  const Named a{kOp, "a", args.a, counts ? kLeft : kLeftRows, rank, counts ? "[G, R, K] with counts" : "[M, K]"},
      b{kOp, "b", args.b, depths ? kRight + 1 : kRight, depths ? 2 : 3, depths ? "[N, K] with depths" : "[G, N, K]"},
      d{kOp,
        "d",
        args.d,
        depths   ? kResultDepths
        : counts ? kResult
                 : kResultRows,
        depths ? 3 : rank,
        depths   ? "[G, M, N] with depths"
        : counts ? "[G, R, N] with counts"
                 : "[M, N]"};
  for (const Named* t : {&a, &b, &d}) check_form(*t, kAllAxes);
  check_gemm_types(kOp, args.a.dtype, args.d.dtype, "a.dtype", "d.dtype");
  const GemmArgs product = product_of(args);
  check_gemm_quantised(kOp, product);
  check_dtype(b, args.a.dtype, ", as a.dtype");
  check_place(a, on_model);
  for (const Named* t : {&b, &d}) check_device(*t, args.a.device, "a");
  check_gemm_activation(kOp, args.gate, "gate");
  depths ? check_depths(args, a, b, d) : check_sizes(args, a, b, d);
  for (const Named* t : {&a, &b}) check_operand(*t, depths && args.a.dtype != DType::e4m3 ? 0 : t->rank - 1);
  check_strides(d, size_of(args.d.dtype), d.rank - 1);
  check_alignment(d, size_of(args.d.dtype));
  const Range d_range = range_of(d);
  check_no_self_overlap(d);
  for (const Named* t : {&a, &b}) check_apart(d, d_range, *t, range_of(*t));
  check_list(args, args.grouping == Grouping::rows ? a.at(0) : depths ? d.at(0) : b.at(0), d, d_range);
  if (!std::isfinite(args.alpha))
    refuse(kOp, Code::invalid_argument, cat("alpha is ", args.alpha, "; allowed: any finite value"));
  if (!std::isfinite(args.beta))
    refuse(kOp, Code::invalid_argument, cat("beta is ", args.beta, "; allowed: any finite value"));
  if (args.beta != 0) check_residual(args, d, d_range);
  check_gemm_activation(kOp, args.activation);
  if (args.expected_rows < 0)
    refuse(kOp, Code::invalid_argument,
           cat("expected_rows is ", args.expected_rows, "; allowed: 0 (not known) and up"));
  check_max_sms(kOp, args.max_sms);
  if (args.bias) check_bias(args, depths ? d.at(0) : b.at(0), depths ? b.at(0) : b.at(1), d, d_range);
  check_scales(args, a, b, d, d_range);
  if (args.gate != Activation::none) check_gemm_gate_operands(product, b);
  check_gemm_scale_d(product, d, d_range);
  if (args.scale_d) {
    const Named scale{kOp, "scale_d", *args.scale_d, d.axes, d.rank, d.form};
    const Named list{kOp, "groups", args.groups, kList, 1, "[G]"};
    check_apart(scale, range_of(scale), list, range_of(list));
  }
  check_end_text(kOp, product, d, d_range);
}

}  // namespace tj::ops
