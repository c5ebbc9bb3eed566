// Products of each chunk's solved matrix: requests, graph, launch; see chunk_wu.hpp.
#include <new>

#include "ops/chunk_wu/chunk_wu.hpp"
#include "ops/chunk_wu/fields.hpp"
#include "ops/chunk_wu/params.cuh"
#include "ops/common/chunk_stage.hpp"
#include "ops/common/chunk_tokens.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/walk.hpp"
#include "ops/gated_delta_rule/tensors.hpp"
#include "support/index.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using chunk_wu::kFields;
using chunk_wu::WuKernel;
using chunk_wu::WuLaunch;
using support::at;

constexpr const char* kOp = "chunk_wu";
constexpr unsigned kBlocksPerSm = 8;  // more than run at a time
/// A block of 128 threads has sums and rows of eight tokens in 96 registers of a thread where K is 128, else in 48.
constexpr int blocks_beside(int head_dim) { return head_dim == 128 ? 3 : 4; }
constexpr double kTypicalIterations = chunks::kChunk / chunk_wu::kAhead;

const arch::Needs& kNeeds = support::lasting<arch::Needs>({{"ALU"}, {"memory_bytes_per_cycle", "f32_per_cycle"}});

WuKernel kernel_of_args(const ChunkWuArgs& args) {
  return {{args.k.dtype, static_cast<int>(args.k.shape[at(args.k.rank - 1)])}};
}
ChunkTokens tokens_of_call(const ChunkWuArgs& args) { return {kOp, "k", args.k, 3, args.cu_seqlens}; }

class Builder : WalkBuilder {
 public:
  Builder(const WuKernel& kernel, const arch::Arch& arch)
      : WalkBuilder(kOp, "Multiplier", chunk_wu::kUnits, arch, kernel.walk, blocks_beside(kernel.head_dim)),
        width_(kernel.head_dim) {
    graph_.name = request_of_fields<kFields>(kOp, kernel).name;
    add_constants<kFields>(kOp, kernel, graph_);
  }

  Candidate build() {
    constant("kLanes", arch_.warp_size);
    const int begin = at_end("begin", Scope::tile_begin);
    // Half of all rows are below the tokens of an iteration. An operation is a multiplication and an addition.
    const double multiplied = 0.5 * chunks::kChunk * chunk_wu::kAhead * width_;
    Node n = single("Multiplier", "add_tokens", node(begin).warps);
    hold(n, {.alu = multiplied / arch_.fact("f32_per_cycle") +
                    memory_cycles(chunk_wu::kAhead * size_of(DType::bf16) * (width_ + 0.5 * chunks::kChunk))});
    const int add_rows = add(std::move(n)), put = at_end("put_rows", Scope::tile_end);
    then(begin, add_rows);
    then(add_rows, add_rows, 1);
    then(add_rows, put);
    return candidate(kTypicalIterations);
  }

 private:
  int width_;
};

class ChunkWu final : public ChunkStage<ChunkWuArgs, chunk_wu_from_c, kFields> {
 public:
  std::string_view name() const override { return kOp; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  void check_lists(const void* args, const ReadList& read) const override {
    check_token_ends(tokens_of_call(get(args)), read);
  }
  Device device_of(const void* args) const override { return get(args).k.device; }
  bool asks_for_nothing(const void* args) const override { return tokens_of_call(get(args)).nothing(); }

  ProblemKey problem_key(const void* args) const override {
    return {key_of_fields<kFields>(kernel_of_args(get(args))), {get(args).max_sms}};
  }
  void tensors(void* args, TensorList& list) const override {
    ChunkWuArgs& of = get(args);
    list.reads("k", of.k);
    list.reads("v", of.v);
    list.reads("a", of.a);
    list.writes("w", of.w);
    list.writes("u", of.u);
    list.reads("beta", of.beta);
    list.reads("g_cu", of.g_cu);
    list.reads("cu_seqlens", of.cu_seqlens);
  }
  GeometryFields geometry_fields() const override { return chunk_wu::kWuGeometry; }
  void plan(const void* args, const Kernel&, const Geometry& geometry, LaunchPlan& plan) const override {
    using namespace gated_delta_rule;
    if (geometry.as<WuLaunch>().engine) return chunk_wu::sm90_plan(get(args), plan);
    const ChunkWuArgs& of = get(args);
    static_assert(sizeof(chunk_wu::Params) <= LaunchPlan::kMaxOwnBytes);
    auto& p = *new (plan.params.data()) chunk_wu::Params{};
    plan.params_bytes = sizeof(chunk_wu::Params);
    p.k = tokens_of(of.k);
    p.v = tokens_of(of.v);
    p.a = tokens_of(of.a);
    p.w = tokens_of(of.w);
    p.u = tokens_of(of.u);
    p.beta = numbers_of(of.beta, 0);
    p.sums = numbers_of(of.g_cu, 0);
    p.half_beta = is_half(of.beta) ? 1 : 0;
    p.heads = static_cast<int>(of.a.shape[at(of.a.rank - 2)]);
    const ChunkTokens tokens = tokens_of_call(of);
    p.sequences = sequences_of(tokens);
    p.by_heads = divisor_of(p.heads);
    p.by_k = divisor_of(p.heads / static_cast<int>(of.k.shape[at(of.k.rank - 2)]));
    p.by_v = divisor_of(p.heads / static_cast<int>(of.v.shape[at(of.v.rank - 2)]));
    p.tiles = static_cast<int>(slots_of(tokens)) * p.heads * 2;
    walk_tiles(p.tiles, kBlocksPerSm, Geometry::of(WalkLaunch{geometry.as<WuLaunch>().walks}), of.max_sms, plan);
  }

 private:
  const arch::Needs& needs() const override { return kNeeds; }
  WuKernel fields_of(const ChunkWuConfig& of) const override {
    ops::validate(of);
    return {{of.dtype, of.head_dim}};
  }
  Candidate candidate(const WuKernel& kernel, const arch::Arch& arch) const override {
    if (kernel.walk == WalkChoice::usual && arch::serves(arch, {chunk_wu::sm90_needs()}))
      return chunk_wu::sm90_candidate(kernel, arch);
    Candidate made = Builder(kernel, arch).build();
    made.geometry = Geometry::of(WuLaunch{made.graph.walks(), false});
    return made;
  }
  Trial trial_of(ChunkTrial& trial, const WuKernel& kernel, const ChunkSizes& sizes) const override {
    const std::int64_t heads = sizes.v_heads(), width = kernel.head_dim;
    const std::size_t k = trial.add("k", kernel.dtype, {sizes.heads(), width}),
                      v = trial.add("v", kernel.dtype, {heads, width}),
                      a = trial.add("a", kernel.dtype, {heads, chunks::kChunk}),
                      w = trial.add("w", kernel.dtype, {heads, width}, true),
                      u = trial.add("u", kernel.dtype, {heads, width}, true),
                      beta = trial.add("beta", kernel.dtype, {heads}), g_cu = trial.add("g_cu", DType::f32, {heads});
    const std::optional<std::size_t> ends = trial.add_ends();
    return trial.build([=](const ChunkTrial::View& view, const ChunkTrial::Use& use) {
      ChunkWuArgs args;
      args.k = view(k);
      args.v = view(v);
      args.a = view(a);
      args.w = view(w);
      args.u = view(u);
      args.beta = view(beta);
      args.g_cu = view(g_cu);
      if (ends) args.cu_seqlens = view(*ends);
      use(&args);
    });
  }
};

}  // namespace

const Op& chunk_wu_op() {
  static constinit support::Lasting<const ChunkWu> op;
  return op.get();
}

}  // namespace tj::ops
