// Running sums of gates: requests, graph, launch; see chunk_cumsum.hpp. One kernel for each type of 16 bits serves all
// forms of gates: memory's latency bounds the time anyway.
#include <array>
#include <new>

#include "ops/chunk_cumsum/chunk_cumsum.hpp"
#include "ops/chunk_cumsum/params.cuh"
#include "ops/common/chunk_stage.hpp"
#include "ops/common/chunk_tokens.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/walk.hpp"
#include "ops/gated_delta_rule/rule_fields.hpp"
#include "ops/gated_delta_rule/tensors.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

constexpr const char* kOp = "chunk_cumsum";
constexpr unsigned kBlocksPerSm = 8;  // more than run at a time

const arch::Needs& kNeeds = support::lasting<arch::Needs>({{"ALU"}, {"memory_bytes_per_cycle", "f32_per_cycle"}});

struct CumsumKernel {
  DType dtype = DType::bf16;
  WalkChoice walk = WalkChoice::usual;
};
constexpr std::array<Field<CumsumKernel>, 2> kFields = {
    {gated_delta_rule::dtype_field<CumsumKernel>(), walk_field<CumsumKernel>(1)}};

CumsumKernel kernel_of_args(const ChunkCumsumArgs& args) {
  return {args.gate.dtype == DType::f32 ? DType::bf16 : args.gate.dtype};
}
ChunkTokens tokens_of_call(const ChunkCumsumArgs& args) { return {kOp, "gate", args.gate, 2, args.cu_seqlens}; }

class Builder : WalkBuilder {
 public:
  Builder(const CumsumKernel& kernel, const arch::Arch& arch)
      : WalkBuilder(kOp, "Summer", chunk_cumsum::kUnits, arch, kernel.walk, 4) {
    graph_.name = request_of_fields<kFields>(kOp, kernel).name;
    add_constants<kFields>(kOp, kernel, graph_);
  }

  Candidate build() {
    constexpr double kNumbers = chunk_cumsum::kUnits * chunks::kChunk;
    constant("kLanes", arch_.warp_size);
    const int begin = at_end("begin", Scope::tile_begin), ask = brings("ask_gates", kNumbers * size_of(DType::f32));
    Node sums = single("Summer", "put_sums", node(ask).warps);
    hold(sums, {.alu = kNumbers * kOperations / arch_.fact("f32_per_cycle")});
    const int put = add(std::move(sums));
    then(begin, ask);
    through_registers(ask, put);
    return candidate(1);
  }

 private:
  static constexpr double kOperations = 16;  // of a number: five steps of sums over lanes, in the worst case a softplus
};

class ChunkCumsum final : public ChunkStage<ChunkCumsumArgs, chunk_cumsum_from_c, kFields> {
 public:
  std::string_view name() const override { return kOp; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  void check_lists(const void* args, const ReadList& read) const override {
    check_token_ends(tokens_of_call(get(args)), read);
  }
  Device device_of(const void* args) const override { return get(args).gate.device; }
  bool asks_for_nothing(const void* args) const override { return tokens_of_call(get(args)).nothing(); }

  ProblemKey problem_key(const void* args) const override {
    return {key_of_fields<kFields>(kernel_of_args(get(args))), {get(args).max_sms}};
  }
  void tensors(void* args, TensorList& list) const override {
    ChunkCumsumArgs& of = get(args);
    list.reads("gate", of.gate);
    list.writes("g_cu", of.g_cu);
    list.reads("a_log", of.a_log);
    list.reads("dt_bias", of.dt_bias);
    list.reads("cu_seqlens", of.cu_seqlens);
  }
  void plan(const void* args, const Kernel&, const Geometry& geometry, LaunchPlan& plan) const override {
    using namespace gated_delta_rule;
    const ChunkCumsumArgs& of = get(args);
    static_assert(sizeof(chunk_cumsum::Params) <= LaunchPlan::kMaxOwnBytes);
    auto& p = *new (plan.params.data()) chunk_cumsum::Params{};
    plan.params_bytes = sizeof(chunk_cumsum::Params);
    p.rule.gate = numbers_of(of.gate, 0);
    const Numbers sums = numbers_of(of.g_cu, 0);
    p.rule.o = {of.g_cu.data, sums.batch, sums.token, sums.head};
    if (of.a_log) p.rule.a_log = static_cast<const float*>(of.a_log->data);
    if (of.dt_bias) p.rule.dt_bias = of.dt_bias->data;
    p.rule.options = option(of.gate_form == GateForm::exp, kGateExp) | option(of.gate_form == GateForm::raw, kGateRaw) |
                     option(is_half(of.gate), kGateHalf) | option(is_half(of.dt_bias), kBiasHalf);
    p.rule.heads = static_cast<int>(of.gate.shape[static_cast<std::size_t>(of.gate.rank - 1)]);
    const ChunkTokens tokens = tokens_of_call(of);
    p.sequences = sequences_of(tokens);
    p.by_heads = divisor_of(p.rule.heads);
    p.units = static_cast<int>(slots_of(tokens)) * p.rule.heads;
    p.tiles = (p.units + chunk_cumsum::kUnits - 1) / chunk_cumsum::kUnits;
    walk_tiles(p.tiles, kBlocksPerSm, geometry, of.max_sms, plan);
  }

 private:
  const arch::Needs& needs() const override { return kNeeds; }
  CumsumKernel fields_of(const ChunkCumsumConfig& of) const override {
    ops::validate(of);
    return {of.dtype};
  }
  Candidate candidate(const CumsumKernel& kernel, const arch::Arch& arch) const override {
    return Builder(kernel, arch).build();
  }
  Trial trial_of(ChunkTrial& trial, const CumsumKernel& kernel, const ChunkSizes& sizes) const override {
    const std::size_t gate = trial.add("gate", kernel.dtype, {sizes.v_heads()}),
                      g_cu = trial.add("g_cu", DType::f32, {sizes.v_heads()}, true);
    const std::optional<std::size_t> ends = trial.add_ends();
    return trial.build([=](const ChunkTrial::View& view, const ChunkTrial::Use& use) {
      ChunkCumsumArgs args;
      args.gate = view(gate);
      args.g_cu = view(g_cu);
      if (ends) args.cu_seqlens = view(*ends);
      use(&args);
    });
  }
};

}  // namespace

const Op& chunk_cumsum_op() {
  static constinit support::Lasting<const ChunkCumsum> op;
  return op.get();
}

}  // namespace tj::ops
