// Quantising: requests, graph, launch; see quantise.hpp. One kernel for each type and gate serves all sizes and blocks:
// memory bounds the time anyway.
#include <algorithm>
#include <array>
#include <new>

#include "ops/common/block_scales.hpp"
#include "ops/common/element_field.hpp"
#include "ops/common/empty.hpp"
#include "ops/common/tabled.hpp"
#include "ops/common/tensor_args.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/walk.hpp"
#include "ops/quantise/params.cuh"
#include "ops/quantise/quantise.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::at;
using support::cat;

constexpr unsigned kBlocksPerSm = 16;  // more than run at a time
// Elements of e4m3 are there where products of them are.
const arch::Needs& kNeeds =
    support::lasting<arch::Needs>({{"ALU"}, {"memory_bytes_per_cycle", "matrix_flops_per_cycle_8bit"}});

struct QuantiseKernel {
  DType dtype = DType::bf16;
  Activation gate = Activation::none;
  bool row_indices = false;
  WalkChoice walk = WalkChoice::usual;
  bool transposed = false;
  bool tall = false;  ///< blocks have 128 rows
  /// A kernel that reads x once for its columns has 16-bit elements of its own rows.
  bool possible() const {
    return !transposed || (dtype != DType::f32 && gate == Activation::none && !row_indices && !tall);
  }
};

// With a gate, a step has twice as many loads under way, and nvcc 13.0 would take 128 registers and more: two blocks.
// With one block of 144, SwiGLU wrote 2.1 TB/s where it wrote 3.05 before (H200, 2026-11-28).
// A list's numbers are registers besides, and f32 has twice as many: 80 would spill some of a gate's. A lane that
// transposes has 64 words of x.
// A lane of blocks of 128 rows holds as many words as two steps have, of f32 with a gate 128.
// Rows of 16-bit elements alone have a fourth block beside: with 70 registers and three, rows of 65536 x 1536 took 86
// us, with 52 and four 79 (H200, 2026-11-30).
constexpr int blocks_beside(const QuantiseKernel& kernel) {
  const bool gated = kernel.gate != Activation::none, wide = kernel.dtype == DType::f32;
  if (kernel.tall) return gated && wide ? 1 : gated || wide ? 2 : 3;
  if (gated || wide || kernel.row_indices || kernel.transposed)
    return (gated && (kernel.row_indices || wide)) || kernel.transposed ? 2 : 3;
  return 4;
}

constexpr const char* kGates[] = {"none", "relu", "gelu", "silu", "gelu_tanh"};
constexpr std::array<Field<QuantiseKernel>, 6> kFields = {
    {element_field<QuantiseKernel>(),
     {.name = "gate",
      .get = [](const QuantiseKernel& kernel) { return static_cast<unsigned>(kernel.gate); },
      .set = [](QuantiseKernel& kernel, unsigned value) { kernel.gate = static_cast<Activation>(value); },
      .words = words<kGates>,
      .bits = 3,
      .flags = {"none", "relu", "gelu", "silu", "gelu_tanh"},
      .tag = "_%",
      .tagged = [](const QuantiseKernel& kernel) { return kernel.gate != Activation::none; },
      .tag_place = 1,
      .constant = "kGate",
      .kind = Constant::place},
     {.name = "row-indices",
      .get = [](const QuantiseKernel& kernel) { return unsigned{kernel.row_indices}; },
      .set = [](QuantiseKernel& kernel, unsigned value) { kernel.row_indices = value != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"false", "true", "both"},
      .tag = "_indexed",
      .tagged = [](const QuantiseKernel& kernel) { return kernel.row_indices; },
      .tag_place = 2,
      .constant = "kRowIndices",
      .kind = Constant::boolean},
     walk_field<QuantiseKernel>(3),
     {.name = "transposed",
      .get = [](const QuantiseKernel& kernel) { return unsigned{kernel.transposed}; },
      .set = [](QuantiseKernel& kernel, unsigned value) { kernel.transposed = value != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"false", "true", "both"},
      .tag = "_transposed",
      .tagged = [](const QuantiseKernel& kernel) { return kernel.transposed; },
      .optional = true,
      .tag_place = 4},
     {.name = "tall",
      .get = [](const QuantiseKernel& kernel) { return unsigned{kernel.tall}; },
      .set = [](QuantiseKernel& kernel, unsigned value) { kernel.tall = value != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"false", "true", "both"},
      .tag = "_tall",
      .tagged = [](const QuantiseKernel& kernel) { return kernel.tall; },
      .optional = true,
      .tag_place = 5}}};

class Builder : WalkBuilder {
 public:
  Builder(const QuantiseKernel& kernel, const arch::Arch& arch)
      : WalkBuilder("quantise", kernel.tall ? "Holder" : "Quantiser", quantise::kWarps, arch, kernel.walk,
                    blocks_beside(kernel)),
        bytes_(size_of(kernel.dtype)),
        transposed_(kernel.transposed),
        tall_(kernel.tall) {
    graph_.name = request_of_fields<kFields>("quantise", kernel).name;
    add_constants<kFields>("quantise", kernel, graph_);
  }

  /// One node, which waits for what it loads: blocks side by side hide that. Of blocks of 128 rows two: what all warps
  /// have found passes through shared memory from one to the other, and what they have loaded stays in registers.
  Candidate build() {
    if (transposed_) {
      const int columns = brings("quantise_columns", quantise::kWarps * quantise::kBlock * quantise::kUnitColumns *
                                                         (static_cast<double>(bytes_) + 1));
      node(columns).warp_cycles = node(columns).cycles;
      return candidate(1);
    }
    if (tall_) {
      constexpr double kElements = double{quantise::kBlock} * quantise::kBlock;
      const int largest = value("largest", kLargestBytes, Scope::iteration, 2, 2, kLargestBytes),
                hold = brings("hold_rows", kElements * bytes_), put = brings("quantise_held", kElements);
      for (const int index : {hold, put}) node(index).warp_cycles = node(index).cycles;
      then(hold, put, 0, largest);
      then(put, hold, 1);
      Candidate made = candidate(1);
      made.one_role = true;
      return made;
    }
    const int rows = brings(
        "quantise_rows", quantise::kWarps * quantise::kStepRows * quantise::kBlock * (static_cast<double>(bytes_) + 1));
    node(rows).warp_cycles = node(rows).cycles;
    return candidate(1);
  }

 private:
  static constexpr int kLargestBytes = 4 * quantise::kWarps;
  int bytes_;
  bool transposed_, tall_;
};

/// Each third row is none, and the last number is no row's.
std::vector<std::int32_t> trial_rows(std::int64_t rows) {
  std::vector<std::int32_t> list;
  for (std::int64_t i = 0; i < rows; ++i) list.push_back(i % 3 == 2 ? -1 : static_cast<std::int32_t>(i * 5 % rows));
  list.back() = static_cast<std::int32_t>(rows);
  return list;
}

/// Scales of blocks of one row lie as gemm() reads them faster: contiguous in M.
Trial trial_of(const QuantiseKernel& kernel, const Sizes& sizes) {
  const bool tall = kernel.tall;
  const std::int64_t m = sizes.at("m"), k = sizes.at("k"), blocks = scale_blocks(k), down = tall ? scale_blocks(m) : m;
  const bool turned = kernel.transposed;
  Trial trial = trial_with<kFields>(kernel, sizes);
  trial.name =
      cat("M ", m, " K ", k, tall ? " blocks of 128 rows" : "", kernel.gate == Activation::none ? "" : " gated",
          kernel.row_indices ? " indexed" : "", turned ? " transposed" : "");
  trial.tensors = {dense("x", kernel.dtype, {m, kernel.gate == Activation::none ? k : 2 * k}),
                   turned ? dense("q", DType::e4m3, {k, m}, true) : dense("q", DType::e4m3, {m, k}, true),
                   turned ? dense("scales", DType::f32, {k, scale_blocks(m)}, true)
                          : dense("scales", DType::f32, {down, blocks}, true)};
  if (turned) trial.tensors[2].operand.strides = {1, k};
  if (!tall && !turned) trial.tensors[2].operand.strides = {1, down};
  if (kernel.row_indices) trial.tensors.push_back(list_of("row_indices", {m}, trial_rows(m)));
  trial.with_args = [gate = kernel.gate, turned, tensors = trial.tensors](Device device, std::span<void* const> places,
                                                                          const std::function<void(const void*)>& use) {
    QuantiseArgs args;
    args.x = tensors[0].operand.view(device, places[0]);
    args.q = tensors[1].operand.view(device, places[1]);
    args.scales = tensors[2].operand.view(device, places[2]);
    if (tensors.size() > 3) args.row_indices = tensors[3].operand.view(device, places[3]);
    args.gate = gate;
    args.transposed = turned;
    use(&args);
  };
  return trial;
}

class Quantise final : public Tabled<QuantiseArgs, quantise_from_c, kFields> {
 public:
  std::string_view name() const override { return "quantise"; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  void check_lists(const void* args, const ReadList& read) const override { check_rows(get(args), read); }
  Device device_of(const void* args) const override { return get(args).x.device; }
  bool asks_for_nothing(const void* args) const override { return is_empty(get(args).q); }

  ProblemKey problem_key(const void* args) const override {
    const QuantiseArgs& of = get(args);
    return {key_of_fields<kFields>(QuantiseKernel{.dtype = of.x.dtype,
                                                  .gate = of.gate,
                                                  .row_indices = of.row_indices.has_value(),
                                                  .transposed = of.transposed,
                                                  .tall = quantise_tall(of)})};
  }
  std::vector<Request> requests(const Flags& flags) const override {
    std::vector<Request> list = Tabled::requests(flags);
    if (list.empty())
      support::fail(
          Stage::argument, Code::unsupported,
          "--transposed is 'true'; allowed with --dtype f16 and bf16, without --gate, --row-indices and --tall");
    return list;
  }
  std::vector<Trial> trials(const Flags& given, const arch::Arch&) const override {
    Flags flags = given;
    const Sizes asked(name(), flags, {{"m", 141}, {"k", 333}, {"block-rows", 0}});
    std::vector<Trial> list;
    for (QuantiseKernel kernel : few_kernels(flags))
      for (const bool tall : {false, true}) {
        if (flags.contains("tall") && tall != kernel.tall) continue;
        kernel.tall = tall;
        if (!kernel.possible()) continue;
        Sizes sizes = asked;
        sizes.set_default("block-rows", tall ? quantise::kBlock : 1);
        if ((sizes.at("block-rows") == quantise::kBlock) == tall) list.push_back(trial_of(kernel, sizes));
      }
    return list;
  }

  void tensors(void* args, TensorList& list) const override {
    QuantiseArgs& of = get(args);
    list.reads("x", of.x);
    list.writes("q", of.q);
    list.writes("scales", of.scales);
    list.reads("row_indices", of.row_indices);
  }
  void plan(const void* args, const Kernel&, const Geometry& geometry, LaunchPlan& plan) const override {
    const QuantiseArgs& of = get(args);
    auto& p = *new (plan.params.data()) quantise::Params{};
    plan.params_bytes = sizeof(quantise::Params);
    const int down = of.q.rank - 2, across = of.q.rank - 1;
    p.x = of.x.data;
    p.q = static_cast<unsigned char*>(of.q.data);
    if (of.row_indices) p.row_indices = static_cast<const int*>(of.row_indices->data);
    p.x_rows = static_cast<int>(of.x.shape[at(down)]);
    p.x_batch = batch_stride(of.x, 3);
    p.x_row = stride(of.x, down);
    p.q_batch = batch_stride(of.q, 3);
    p.q_row = stride(of.q, down);
    p.rows = static_cast<int>(of.q.shape[at(of.transposed ? across : down)]);
    p.columns = static_cast<int>(of.q.shape[at(of.transposed ? down : across)]);
    set_block_scales(p.scales, of.scales, of.transposed ? p.rows : p.columns, of.powers_of_two);
    const bool gated = of.gate != Activation::none;
    p.wide =
        wide(of.x, 16) && (of.transposed || wide(of.q, 8)) && (!gated || p.columns * size_of(of.x.dtype) % 16 == 0);
    p.wide_q = of.transposed && wide(of.q, 16);
    const bool tall = quantise_tall(of);
    const int unit_rows = tall || of.transposed ? quantise::kBlock : quantise::kStepRows;
    const std::int64_t batch = of.q.rank == 3 ? of.q.shape[0] : 1;
    p.blocks = of.transposed ? (p.columns + quantise::kUnitColumns - 1) / quantise::kUnitColumns : p.scales.blocks;
    p.row_units = (p.rows + unit_rows - 1) / unit_rows;
    p.units = static_cast<int>(p.blocks * p.row_units * batch);
    p.by_blocks = divisor_of(p.blocks);
    p.by_row_units = divisor_of(p.row_units);
    p.tiles = tall ? p.units : (p.units + quantise::kWarps - 1) / quantise::kWarps;
    walk_tiles(p.tiles, kBlocksPerSm, geometry, of.max_sms, plan);
  }

 private:
  const arch::Needs& needs() const override { return kNeeds; }
  QuantiseKernel fields_of(const QuantiseConfig& of) const override {
    ops::validate(of);
    return {.dtype = of.dtype,
            .gate = of.gate,
            .row_indices = of.row_indices,
            .transposed = of.transposed,
            .tall = of.tall};
  }
  Candidate candidate(const QuantiseKernel& kernel, const arch::Arch& arch) const override {
    return Builder(kernel, arch).build();
  }
};

}  // namespace

const Op& quantise_op() {
  static constinit support::Lasting<const Quantise> op;
  return op.get();
}

}  // namespace tj::ops
