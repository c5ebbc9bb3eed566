// Combining rows: requests, graph, launch; see combine.hpp. One kernel for each pair of types serves all sizes: memory
// bounds the time anyway.
#include <algorithm>
#include <array>
#include <new>

#include "ops/combine/combine.hpp"
#include "ops/combine/params.cuh"
#include "ops/common/element_field.hpp"
#include "ops/common/empty.hpp"
#include "ops/common/tabled.hpp"
#include "ops/common/tensor_args.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/walk.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr unsigned kBlocksPerSm = 16;  // more than run at a time
constexpr int kBlocksBeside = 6;       // rows under way take some 80 registers

const arch::Needs& kNeeds = support::lasting<arch::Needs>({{"ALU"}, {"memory_bytes_per_cycle"}});

struct CombineKernel {
  DType dtype = DType::bf16, out = DType::bf16;
  WalkChoice walk = WalkChoice::usual;
};
constexpr std::array<Field<CombineKernel>, 3> kFields = {
    {element_field<CombineKernel>(),
     {.name = "out",
      .get = [](const CombineKernel& kernel) { return static_cast<unsigned>(kernel.out); },
      .set = [](CombineKernel& kernel, unsigned value) { kernel.out = static_cast<DType>(value); },
      .words = words<kElementWords>,
      .bits = 2,
      .flags = {"same", "f16", "bf16", "f32"},
      .set_other = [](CombineKernel& kernel) { kernel.out = kernel.dtype; },
      .other = "same",
      .tag = "_%",
      .tagged = [](const CombineKernel& kernel) { return kernel.out != kernel.dtype; },
      .constant = "Output",
      .kind = Constant::element},
     walk_field<CombineKernel>(1)}};

class Builder : WalkBuilder {
 public:
  Builder(const CombineKernel& kernel, const arch::Arch& arch)
      : WalkBuilder("combine", "Combiner", combine::kWarps, arch, kernel.walk, kBlocksBeside),
        row_bytes_(combine::kUnitColumns * size_of(kernel.dtype)),
        ahead_(combine::rows_ahead(size_of(kernel.dtype))) {
    graph_.name = request_of_fields<kFields>("combine", kernel).name;
    add_constants<kFields>("combine", kernel, graph_);
  }

  Candidate build() {
    constant("kLanes", arch_.warp_size);
    const int begin = at_end("begin", Scope::tile_begin);
    const int rows = brings("add_choices", static_cast<double>(combine::kWarps * ahead_ * row_bytes_));
    const int last = at_end("finish_columns", Scope::tile_end);
    node(rows).warp_cycles = node(rows).cycles;
    then(begin, rows);
    then(rows, rows, 1);
    then(rows, last);
    return candidate(1);
  }

 private:
  int row_bytes_, ahead_;
};

/// Every fifth slot is skipped, and one is outside of y.
std::vector<std::int32_t> trial_slots(std::int64_t count, std::int64_t rows) {
  std::vector<std::int32_t> slots;
  for (std::int64_t i = 0; i < count; ++i) slots.push_back(i % 5 == 3 ? -1 : static_cast<std::int32_t>(i * 7 % rows));
  slots.back() = static_cast<std::int32_t>(rows);
  return slots;
}

Trial trial_of(const CombineKernel& kernel, const Sizes& sizes) {
  const std::int64_t tokens = sizes.at("tokens"), columns = sizes.at("columns"), choices = sizes.at("choices"),
                     rows = tokens * choices;
  Trial trial = trial_with<kFields>(kernel, sizes);
  trial.name = cat("tokens ", tokens, " columns ", columns, " choices ", choices);
  trial.tensors = {dense("y", kernel.dtype, {rows, columns}), dense("d", kernel.out, {tokens, columns}, true),
                   list_of("slots", {tokens, choices}, trial_slots(rows, rows)),
                   dense("weights", DType::f32, {tokens, choices}), dense("residual", kernel.out, {tokens, columns})};
  trial.with_args = [tensors = trial.tensors](Device device, std::span<void* const> places,
                                              const std::function<void(const void*)>& use) {
    CombineArgs args;
    args.y = tensors[0].operand.view(device, places[0]);
    args.d = tensors[1].operand.view(device, places[1]);
    args.slots = tensors[2].operand.view(device, places[2]);
    args.weights = tensors[3].operand.view(device, places[3]);
    args.residual = tensors[4].operand.view(device, places[4]);
    use(&args);
  };
  return trial;
}

class Combine final : public Tabled<CombineArgs, combine_from_c, kFields> {
 public:
  std::string_view name() const override { return "combine"; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  void check_lists(const void* args, const ReadList& read) const override { check_slots(get(args), read); }
  Device device_of(const void* args) const override { return get(args).y.device; }
  bool asks_for_nothing(const void* args) const override { return is_empty(get(args).d); }

  ProblemKey problem_key(const void* args) const override {
    return {key_of_fields<kFields>(CombineKernel{get(args).y.dtype, get(args).d.dtype})};
  }
  std::vector<Trial> trials(const Flags& given, const arch::Arch&) const override {
    Flags flags = given;
    const Sizes sizes(name(), flags, {{"tokens", 19}, {"columns", 300}, {"choices", 9}});
    std::vector<Trial> list;
    for (const CombineKernel& kernel : few_kernels(flags)) list.push_back(trial_of(kernel, sizes));
    return list;
  }

  void tensors(void* args, TensorList& list) const override {
    CombineArgs& of = get(args);
    list.reads("y", of.y);
    list.writes("d", of.d);
    list.reads("slots", of.slots);
    list.reads("weights", of.weights);
    list.reads("residual", of.residual);
  }
  void plan(const void* args, const Kernel&, const Geometry& geometry, LaunchPlan& plan) const override {
    const CombineArgs& of = get(args);
    auto& p = *new (plan.params.data()) combine::Params{};
    plan.params_bytes = sizeof(combine::Params);
    p.y = of.y.data;
    p.y_row = stride(of.y, 0);
    p.wide_y = wide(of.y, 16);
    p.d = of.d.data;
    p.d_row = stride(of.d, 0);
    p.wide_d = wide(of.d, 16);
    p.slots = static_cast<const int*>(of.slots.data);
    p.slots_row = stride(of.slots, 0);
    if (of.weights) {
      p.weights = static_cast<const float*>(of.weights->data);
      p.weights_row = stride(*of.weights, 0);
    }
    if (of.residual) {
      p.residual = of.residual->data;
      p.residual_row = stride(*of.residual, 0);
      p.wide_residual = wide(*of.residual, 16);
    }
    p.rows = static_cast<int>(of.y.shape[0]);
    p.columns = static_cast<int>(of.d.shape[1]);
    p.choices = static_cast<int>(of.slots.shape[1]);
    p.row_units = (p.columns + combine::kUnitColumns - 1) / combine::kUnitColumns;
    p.units = static_cast<int>(p.row_units * of.d.shape[0]);
    p.by_row_units = divisor_of(p.row_units);
    p.tiles = (p.units + combine::kWarps - 1) / combine::kWarps;
    walk_tiles(p.tiles, kBlocksPerSm, geometry, of.max_sms, plan);
  }

 private:
  const arch::Needs& needs() const override { return kNeeds; }
  CombineKernel fields_of(const CombineConfig& of) const override {
    ops::validate(of);
    return {of.dtype, of.out};
  }
  Candidate candidate(const CombineKernel& kernel, const arch::Arch& arch) const override {
    return Builder(kernel, arch).build();
  }
};

}  // namespace

const Op& combine_op() {
  static constinit support::Lasting<const Combine> op;
  return op.get();
}

}  // namespace tj::ops
