// Merging partial outputs of attention: requests, graph, launch; see merge_states.hpp.
#include <algorithm>
#include <array>
#include <new>

#include "ops/common/element_field.hpp"
#include "ops/common/empty.hpp"
#include "ops/common/tabled.hpp"
#include "ops/common/tensor_args.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/walk.hpp"
#include "ops/merge_states/merge_states.hpp"
#include "ops/merge_states/params.cuh"
#include "support/index.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::at;
using support::cat;

constexpr unsigned kBlocksPerSm = 16;  // more than run at a time

const arch::Needs& kNeeds = support::lasting<arch::Needs>({{"ALU"}, {"memory_bytes_per_cycle"}});

struct MergeStatesKernel : MergeStatesConfig {
  WalkChoice walk = WalkChoice::usual;
};
constexpr std::array<Field<MergeStatesKernel>, 3> kFields = {
    {element_field<MergeStatesKernel>({"f32", "f16", "bf16"}),
     {.name = "out",
      .get = [](const MergeStatesKernel& kernel) { return static_cast<unsigned>(kernel.out); },
      .set = [](MergeStatesKernel& kernel, unsigned value) { kernel.out = static_cast<DType>(value); },
      .words = words<kElementWords>,
      .bits = 2,
      .flags = {"f16", "bf16", "f32"},
      .defaults = 3,
      .tag = "_to_%",
      .constant = "Output",
      .kind = Constant::element},
     walk_field<MergeStatesKernel>(2)}};

MergeStatesKernel kernel_of(const MergeStatesConfig& config, WalkChoice walk = WalkChoice::usual) {
  return {config, walk};
}

class Builder : WalkBuilder {
 public:
  Builder(const MergeStatesKernel& kernel, const arch::Arch& arch)
      : WalkBuilder("merge_states", "Merger", merge_states::kWarps, arch, kernel.walk),
        element_bytes_(size_of(kernel.dtype)) {
    graph_.name = request_of_fields<kFields>("merge_states", kernel).name;
    add_constants<kFields>("merge_states", kernel, graph_);
  }

  Candidate build() {
    constant("kLanes", arch_.warp_size);
    const int begin = at_end("begin", Scope::tile_begin);
    const int states = brings("add_states", static_cast<double>(element_bytes_) * merge_states::kWarps *
                                                merge_states::kUnitColumns * merge_states::kAhead);
    const int last = at_end("finish_rows", Scope::tile_end);
    node(states).warp_cycles = node(states).cycles;
    then(begin, states);
    then(states, states, 1);
    then(states, last);
    return candidate(1);
  }

 private:
  int element_bytes_;
};

/// The strides of the last dimensions of a tensor behind `first` others, D left out: [B, H, S] with what there is.
merge_states::RowStrides row_strides(const Tensor& tensor, int first, int rows_rank) {
  const auto of = [&](int back) { return back < rows_rank ? stride(tensor, first + rows_rank - 1 - back) : 0LL; };
  return {of(2), of(1), of(0)};
}

Trial trial_of(const MergeStatesKernel& kernel, const Sizes& sizes) {
  const std::int64_t n = sizes.at("states"), heads = sizes.at("heads"), rows = sizes.at("rows"), width = sizes.at("d");
  Trial trial = trial_with<kFields>(kernel, sizes);
  trial.name = cat("N ", n, " H ", heads, " rows ", rows, " D ", width);
  trial.tensors = {dense("states", kernel.dtype, {n, heads, rows, width}),
                   dense("lse_states", DType::f32, {n, heads, rows}),
                   dense("o", kernel.out, {heads, rows, width}, true), dense("lse", DType::f32, {heads, rows}, true)};
  trial.with_args = [tensors = trial.tensors](Device device, std::span<void* const> places,
                                              const std::function<void(const void*)>& use) {
    MergeStatesArgs args;
    args.states = tensors[0].operand.view(device, places[0]);
    args.lse_states = tensors[1].operand.view(device, places[1]);
    args.o = tensors[2].operand.view(device, places[2]);
    args.lse = tensors[3].operand.view(device, places[3]);
    use(&args);
  };
  return trial;
}

class MergeStates final : public Tabled<MergeStatesArgs, merge_states_from_c, kFields> {
 public:
  std::string_view name() const override { return "merge_states"; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  void check_lists(const void* args, const ReadList& read) const override { check_sequences(get(args), read); }
  Device device_of(const void* args) const override { return get(args).states.device; }
  bool asks_for_nothing(const void* args) const override { return is_empty(get(args).o); }

  ProblemKey problem_key(const void* args) const override {
    return {merge_states_small_key({get(args).states.dtype, get(args).o.dtype})};
  }
  std::vector<Trial> trials(const Flags& given, const arch::Arch&) const override {
    Flags flags = given;
    const Sizes sizes(name(), flags, {{"states", 11}, {"heads", 3}, {"rows", 7}, {"d", 136}});
    std::vector<Trial> list;
    for (const MergeStatesKernel& kernel : few_kernels(flags)) list.push_back(trial_of(kernel, sizes));
    return list;
  }

  void tensors(void* args, TensorList& list) const override {
    MergeStatesArgs& of = get(args);
    list.reads("states", of.states);
    list.reads("lse_states", of.lse_states);
    list.writes("o", of.o);
    list.writes("lse", of.lse);
    list.reads("cu_seqlens", of.cu_seqlens);
  }
  void plan(const void* args, const Kernel&, const Geometry& geometry, LaunchPlan& plan) const override {
    const MergeStatesArgs& of = get(args);
    auto& p = *new (plan.params.data()) merge_states::Params{};
    plan.params_bytes = sizeof(merge_states::Params);
    const int rank = of.o.rank - 1;  // of rows
    const auto size = [&](int back) { return back < rank ? of.o.shape[at(rank - 1 - back)] : std::int64_t{1}; };
    p.states = of.states.data;
    p.lse_states = static_cast<const float*>(of.lse_states.data);
    p.o = of.o.data;
    p.next_state = stride(of.states, 0);
    p.next_lse = stride(of.lse_states, 0);
    p.of_states = row_strides(of.states, 1, rank);
    p.of_lse_states = row_strides(of.lse_states, 1, rank);
    p.of_o = row_strides(of.o, 0, rank);
    if (of.lse) {
      p.lse = static_cast<float*>(of.lse->data);
      p.of_lse = row_strides(*of.lse, 0, rank);
    }
    if (of.cu_seqlens) {
      p.bounds = static_cast<const int*>(of.cu_seqlens->data);
      p.last_bound = static_cast<int>(of.cu_seqlens->shape[0] - 1);
    }
    p.rows = static_cast<int>(size(0));
    p.heads = static_cast<int>(size(1));
    p.columns = static_cast<int>(of.o.shape[at(rank)]);
    p.count = static_cast<int>(of.states.shape[0]);
    p.row_units = (p.columns + merge_states::kUnitColumns - 1) / merge_states::kUnitColumns;
    p.units = static_cast<int>(p.row_units * size(0) * size(1) * size(2));
    p.by_row_units = divisor_of(p.row_units);
    p.by_rows = divisor_of(p.rows);
    p.by_heads = divisor_of(p.heads);
    p.wide_states = wide(of.states, merge_states::kThreadColumns * size_of(of.states.dtype));
    p.wide_o = wide(of.o, merge_states::kThreadColumns * size_of(of.o.dtype));
    p.tiles = (p.units + merge_states::kWarps - 1) / merge_states::kWarps;
    walk_tiles(p.tiles, kBlocksPerSm, geometry, of.max_sms, plan);
  }

 private:
  const arch::Needs& needs() const override { return kNeeds; }
  MergeStatesKernel fields_of(const MergeStatesConfig& of) const override {
    ops::validate(of);
    return {of};
  }
  Candidate candidate(const MergeStatesKernel& kernel, const arch::Arch& arch) const override {
    return Builder(kernel, arch).build();
  }
};

}  // namespace

const Op& merge_states_op() {
  static constinit support::Lasting<const MergeStates> op;
  return op.get();
}

std::uint64_t merge_states_small_key(const MergeStatesConfig& config, bool draws) {
  return key_of_fields<kFields>(kernel_of(config, draws ? WalkChoice::dynamic : WalkChoice::usual));
}

}  // namespace tj::ops
