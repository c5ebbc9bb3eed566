// Requests of grouped_gemm; see grouped_gemm.hpp.
#include <bit>
#include <limits>

#include "ops/common/described.hpp"
#include "ops/common/empty.hpp"
#include "ops/common/tensor_args.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/trial.hpp"
#include "ops/copy_rows/copy_rows.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/steps.hpp"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;

/// Expected rows are told apart by powers of two: numbers that differ by less take the same kernel.
std::int64_t coarse(std::int64_t rows) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(rows, 1))));
}

/// The same of rows, but from 32 to 128 in steps of a half. Groups of 48 rows on the mean mostly fit a tile of 64; of
/// those of 64, half do not.
std::int64_t coarse_rows(std::int64_t rows) {
  const std::int64_t above = coarse(rows), between = above / 4 * 3;
  return (above == 64 || above == 128) && rows <= between ? between : above;
}

/// A group's share.
std::int64_t up_to_groups(std::int64_t all, std::int64_t groups) { return (all + groups - 1) / groups; }

/// The limit on multiprocessors that decides the kernel. One launch of HIP has fewer than 2^32 threads, and a block for
/// each tile of the longest lists may be more. Then the limit is one that no device reaches, so blocks draw their
/// tiles.
std::int64_t limit_of(const GroupedGemmArgs& args, const GemmSizes& all) {
  if (args.max_sms > 0 || args.grouping == Grouping::depths || args.grouping == Grouping::rows) return args.max_sms;
  constexpr int kLeastRows = 16, kLeastColumns = 32;  // of any tile
  constexpr std::int64_t kMostThreads = 512;          // of any block
  const std::int64_t tiles =
      grouped_gemm_row_tiles(all, args.b.shape[0], args.grouping == Grouping::counts, kLeastRows) *
      ((all.n + kLeastColumns - 1) / kLeastColumns);
  return tiles >= (std::int64_t{1} << 32) / kMostThreads ? std::numeric_limits<int>::max() : 0;
}

/// Why none of the kernels that were asked for is there.
[[noreturn]] void refuse_all(const GemmKernel& kernel) {
  const bool narrow = size_of(kernel.dtype) == 1;
  if (kernel.scales != Scales::tensor && !narrow)
    fail(Stage::argument, Code::unsupported,
         cat("--scales is given; allowed with --dtype ", to_string(kernel.dtype), ": tensor"));
  if (kernel.walk == WalkChoice::persistent || kernel.walk == WalkChoice::split)
    fail(Stage::argument, Code::unsupported,
         cat("--walk is '", kWalkWords[static_cast<int>(kernel.walk)], "'; allowed with groups: usual, dynamic"));
  GemmKernel any = kernel;
  std::vector<std::string> known;
  for (any.tile = 0; any.tile < static_cast<int>(gemm_tiles().size()); ++any.tile)
    if (const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(any.tile)]; gemm_tile_fits(tile, any))
      known.push_back(gemm_tile_name(tile));
  fail(Stage::argument, Code::invalid_argument,
       cat("--tile is '", gemm_tile_name(gemm_tiles()[static_cast<std::size_t>(kernel.tile)]),
           "'; allowed with --dtype ", to_string(kernel.dtype), ": ", joined(known)));
}

class GroupedGemm final : public Described<GroupedGemmArgs, grouped_gemm_from_c> {
 public:
  std::string_view name() const override { return "grouped_gemm"; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  void check_lists(const void* args, const ReadList& read) const override { check_groups(get(args), read); }
  Device device_of(const void* args) const override { return get(args).a.device; }
  bool serves(const arch::Arch& arch) const override { return gemm_serves(arch); }

  ProblemKey problem_key(const void* args) const override {
    return gemm_problem_key(grouped_gemm_sizes(get(args)), grouped_gemm_kind(get(args)));
  }
  Kernel choose(const ProblemKey& problem, const arch::Arch& arch) const override { return choose_gemm(problem, arch); }
  Kernel kernel_of(const ProblemKey& problem, int choice) const override {
    return gemm_kernel_of(problem, GemmChoice::of(choice));
  }
  Request request_of(const Kernel& kernel) const override { return gemm_request(gemm_kernel(kernel.small_key)); }
  Kernel kernel_of(const Request& request) const override { return {gemm_small_key(gemm_kernel(request))}; }

  std::vector<NeededKernel> needed_kernels(const void* config, const ChooseKernel& choose) const override {
    const auto& of = *static_cast<const GroupedGemmConfig*>(config);
    std::vector<NeededKernel> list;
    if (of.scales != Scales::tensor) list.push_back({&copy_rows_op(), {}});  // scales may have to be copied
    list.push_back({this, choose(gemm_problem_key(grouped_gemm_sizes(of), grouped_gemm_kind(of)))});
    return list;
  }
  using Op::needed_kernels;

  std::vector<Request> requests(const Flags& flags) const override {
    std::vector<Request> list;
    const std::vector<GemmKernel> kernels = grouped_gemm_combinations(flags);
    for (const GemmKernel& kernel : kernels) {
      if (!gemm_tile_fits(gemm_tiles()[static_cast<std::size_t>(kernel.tile)], kernel)) continue;
      const Request request = gemm_request(kernel);  // flags that make no difference give the same one
      if (std::none_of(list.begin(), list.end(), [&](const Request& known) { return known.name == request.name; }))
        list.push_back(request);
    }
    if (list.empty()) refuse_all(kernels.front());
    return list;
  }
  std::vector<Candidate> candidates(const Request& request, const arch::Arch& arch) const override {
    return gemm_candidates(gemm_kernel(request), arch);
  }

  bool asks_for_nothing(const void* args) const override {
    const GroupedGemmArgs& of = get(args);
    return is_empty(of.d) || (of.grouping != Grouping::depths && of.b.shape[0] == 0);
  }
  bool in_steps(const void* args, const Kernel& kernel) const override { return scratch_bytes(args, kernel) > 0; }
  std::size_t scratch_bytes(const void* args, const Kernel& kernel) const override {
    return gemm_copy_bytes(product_of(get(args)), GemmChoice::of(kernel.choice));
  }
  /// Scales that the copy engine cannot read as they lie are copied first; validate() refuses such operands.
  void steps(const void* args, const Kernel& kernel, void* scratch, const EachStep& each) const override {
    GroupedGemmArgs of = get(args);
    GemmArgs product = product_of(of);
    auto* next = static_cast<std::byte*>(scratch);
    copy_gemm_operands(product, GemmChoice::of(kernel.choice), next, false, each);
    of.scale_a = product.scale_a;
    of.scale_b = product.scale_b;
    each({this, &of, kernel});
  }
  GeometryFields geometry_fields() const override { return kGemmGeometry; }
  void tensors(void* args, TensorList& list) const override {
    GroupedGemmArgs& of = get(args);
    list.reads("a", of.a);
    list.reads("b", of.b);
    list.writes("d", of.d);
    list.reads("groups", of.groups);
    list.reads("bias", of.bias);
    list.reads("scale_a", of.scale_a);
    list.reads("scale_b", of.scale_b);
    list.writes("scale_d", of.scale_d);
    list.reads("end_params", of.end_params);
    if (of.beta != 0) list.reads("c", of.c);
    if (of.beta != 0 && of.c && gemm_same_places(*of.c, of.d)) list.may_be_one(*of.c, of.d);
  }
  void plan(const void* args, const Kernel& kernel, const Geometry& geometry, LaunchPlan& plan) const override {
    grouped_gemm_plan(get(args), GemmChoice::of(kernel.choice), geometry.as<GemmLaunch>(), plan);
  }
  std::vector<Trial> trials(const Flags& flags, const arch::Arch& arch) const override {
    return grouped_gemm_trials(flags, arch);
  }
};

}  // namespace

const Op& grouped_gemm_op() {
  static constinit support::Lasting<const GroupedGemm> op;
  return op.get();
}

GemmArgs product_of(const GroupedGemmArgs& args) {
  GemmArgs product;
  product.a = args.a;
  product.b = args.b;
  product.d = args.d;
  product.bias = args.bias;
  product.alpha = args.alpha;
  product.activation = args.activation;
  product.scale_a = args.scale_a;
  product.scale_b = args.scale_b;
  product.max_sms = args.max_sms;
  product.c = args.c;
  product.beta = args.beta;
  product.gate = args.gate;
  product.gate_interleaved = args.gate_interleaved;
  product.scale_d = args.scale_d;
  product.powers_of_two = args.powers_of_two;
  product.end_text = args.end_text;
  product.end_params = args.end_params;
  if (is_empty(args.a) && !is_empty(args.d)) [[unlikely]]
    return without_depth(product, args.grouping == Grouping::depths && args.a.dtype != DType::e4m3);
  if (args.grouping == Grouping::depths &&
      args.a.dtype != DType::e4m3)  // kernels of groups along K have one order, which one element does not tell
    for (Tensor* const operand : {&product.a, &product.b})
      if (operand->shape[0] == 1 && operand->shape[1] == 1)
        operand->strides[0] = 1,
        operand->strides[1] = static_cast<std::int64_t>(kMapAlignment) / size_of(operand->dtype);
  return product;
}

GemmSizes grouped_gemm_sizes(const GroupedGemmArgs& args) {
  const GemmSizes all = gemm_sizes(product_of(args));
  if (args.grouping == Grouping::depths) {
    const std::int64_t depth =
        args.expected_rows > 0 ? std::min(args.expected_rows, all.k) : up_to_groups(all.k, all.batch);
    return {all.m, all.n, coarse(depth), all.batch, args.max_sms};
  }
  const std::int64_t groups = args.b.shape[0],
                     known = args.grouping == Grouping::counts ? all.m : up_to_groups(all.m, groups);
  const std::int64_t rows = args.expected_rows > 0 ? std::min(args.expected_rows, all.m) : known;
  return {coarse_rows(rows), all.n, all.k, groups, limit_of(args, all)};
}
GemmSizes grouped_gemm_sizes(const GroupedGemmConfig& config) {
  if (config.grouping == Grouping::depths) return {config.m, config.n, coarse(config.expected_rows), config.groups};
  return {coarse_rows(config.expected_rows), config.n, config.k, config.groups};
}

GemmKernel grouped_gemm_kind(const GroupedGemmArgs& args) {
  GemmKernel kernel = gemm_kind(product_of(args));
  kernel.groups = static_cast<Groups>(static_cast<int>(args.grouping) + 1);
  return kernel;
}
GemmKernel grouped_gemm_kind(const GroupedGemmConfig& config) {
  validate(config);
  GemmKernel kernel;
  kernel.dtype = config.dtype;
  kernel.out = config.out;
  kernel.bias = config.bias;
  kernel.activation = config.activation;
  kernel.gate = config.gate;
  kernel.end_text = config.end_text;
  kernel.add_c = config.add_c;
  kernel.scales = config.scales;
  kernel.packed_scales = config.packed_scales;
  kernel.left_scales_k = config.scale_a_transposed;
  kernel.right_scales_k = config.scale_b_transposed;
  kernel.groups = static_cast<Groups>(static_cast<int>(config.grouping) + 1);
  kernel.left_mn = kernel.right_mn = kernel.groups == Groups::depths && kernel.dtype != DType::e4m3;
  set_dense(kernel, grouped_gemm_sizes(config));
  return kernel;
}

}  // namespace tj::ops
