// The solved matrix of each chunk: requests and launch; see chunk_solve.hpp.
#include <new>

#include "ops/chunk_solve/chunk_solve.hpp"
#include "ops/common/chunk_kernel.hpp"
#include "ops/common/chunk_stage.hpp"
#include "ops/common/chunk_tokens.hpp"
#include "ops/common/machine.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/delta_chunks/delta_chunks.hpp"
#include "ops/delta_chunks/launches.hpp"
#include "ops/gated_delta_rule/tensors.hpp"
#include "support/index.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::at;

constexpr const char* kOp = "chunk_solve";
constexpr float kSmall = 0x1p-7f;  // with keys that nobody normalises

ChunkTokens tokens_of_call(const ChunkSolveArgs& args) { return {kOp, "k", args.k, 3, args.cu_seqlens}; }

/// Sequences as records of delta_chunks have them, which nobody stores here.
delta_chunks::Records records_of(const ChunkTokens& tokens, int heads) {
  const chunks::Sequences sequences = sequences_of(tokens);
  delta_chunks::Records records{};
  records.heads = heads;
  records.sequences = sequences.count;
  records.chunks = sequences.chunks;
  records.count = tokens.ends ? 0 : sequences.chunks;
  records.by_heads = divisor_of(heads);
  records.by_count = divisor_of(sequences.chunks);
  return records;
}

void set_rule(const ChunkSolveArgs& of, gated_delta_rule::Params& rule) {
  using namespace gated_delta_rule;
  const ChunkTokens tokens = tokens_of_call(of);
  rule.o = gated_delta_rule::tokens_of(of.a);
  rule.gate = numbers_of(of.g_cu, 0);
  rule.beta = numbers_of(of.beta, 0);
  if (of.cu_seqlens) rule.cu_seqlens = static_cast<const int*>(of.cu_seqlens->data);
  rule.options = option(is_half(of.beta), kBetaHalf);
  rule.tokens = static_cast<int>(tokens.tokens());
  rule.heads = static_cast<int>(of.a.shape[at(of.a.rank - 2)]);
  rule.by_k = divisor_of(rule.heads / static_cast<int>(of.k.shape[at(of.k.rank - 2)]));
}

class ChunkSolve final : public ChunkStage<ChunkSolveArgs, chunk_solve_from_c, kChunkFields> {
 public:
  std::string_view name() const override { return kOp; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  void check_lists(const void* args, const ReadList& read) const override {
    check_token_ends(tokens_of_call(get(args)), read);
  }
  Device device_of(const void* args) const override { return get(args).k.device; }
  bool asks_for_nothing(const void* args) const override { return tokens_of_call(get(args)).nothing(); }

  ProblemKey problem_key(const void* args) const override {
    const Tensor& k = get(args).k;
    return {key_of_fields<kChunkFields>(ChunkKernel{k.dtype, static_cast<int>(k.shape[at(k.rank - 1)])})};
  }
  void tensors(void* args, TensorList& list) const override {
    ChunkSolveArgs& of = get(args);
    list.reads("k", of.k);
    list.writes("a", of.a);
    list.reads("beta", of.beta);
    list.reads("g_cu", of.g_cu);
    list.reads("cu_seqlens", of.cu_seqlens);
  }
  void plan(const void* args, const Kernel&, const Geometry&, LaunchPlan& plan) const override {
    using Params = delta_chunks::SolveParams;
    const ChunkSolveArgs& of = get(args);
    auto& p = *new (plan.params.data()) Params{};
    plan.params_bytes = sizeof(Params);
    const support::TensorMapDesc keys = delta_chunks::token_map(of.k, of.cu_seqlens.has_value());
    plan.maps[0] = {offsetof(Params, q), keys};  // which nobody reads
    plan.maps[1] = {offsetof(Params, k), keys};
    plan.map_count = 2;
    set_rule(of, p.rule);
    const ChunkTokens tokens = tokens_of_call(of);
    p.records = records_of(tokens, p.rule.heads);
    p.tiles = static_cast<int>(slots_of(tokens)) * p.rule.heads;
    delta_chunks::walk_chunks(p.tiles, of.max_sms, plan);
  }

 private:
  const arch::Needs& needs() const override { return delta_chunks_needs(); }
  ChunkKernel fields_of(const ChunkSolveConfig& of) const override {
    ops::validate(of);
    return {of.dtype, of.head_dim};
  }
  Candidate candidate(const ChunkKernel& kernel, const arch::Arch& arch) const override {
    Candidate made{delta_matrix_graph({.dtype = kernel.dtype, .state = DType::f16, .head_dim = kernel.head_dim}, arch),
                   1, 0, false};
    made.graph.name = request_of_fields<kChunkFields>(kOp, kernel).name;
    made.one_role = true;
    made.definitions = matrix_widths({chunks::kChunk});
    return made;
  }
  Trial trial_of(ChunkTrial& trial, const ChunkKernel& kernel, const ChunkSizes& sizes) const override {
    const std::size_t k = trial.add("k", kernel.dtype, {sizes.heads(), kernel.head_dim}),
                      a = trial.add("a", kernel.dtype, {sizes.v_heads(), chunks::kChunk}, true),
                      beta = trial.add_bits("beta", {sizes.v_heads()}, kSmall),
                      g_cu = trial.add("g_cu", DType::f32, {sizes.v_heads()});
    const std::optional<std::size_t> ends = trial.add_ends();
    return trial.build([=](const ChunkTrial::View& view, const ChunkTrial::Use& use) {
      ChunkSolveArgs args;
      args.k = view(k);
      args.a = view(a);
      args.beta = view(beta);
      args.beta->dtype = DType::f32;
      args.g_cu = view(g_cu);
      if (ends) args.cu_seqlens = view(*ends);
      use(&args);
    });
  }
};

}  // namespace

const Op& chunk_solve_op() {
  static constinit support::Lasting<const ChunkSolve> op;
  return op.get();
}

}  // namespace tj::ops
