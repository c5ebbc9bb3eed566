// States before each chunk: requests and graph; see chunk_states.hpp.
#include <array>

#include "ops/chunk_states/chunk_states.hpp"
#include "ops/common/chunk_stage.hpp"
#include "ops/common/chunk_tokens.hpp"
#include "ops/common/empty.hpp"
#include "ops/common/machine.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/delta_chunks/builder.hpp"
#include "ops/delta_chunks/delta_chunks.hpp"
#include "ops/gated_delta_rule/rule_fields.hpp"
#include "support/index.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using graph::Graph;
using support::at;

constexpr const char* kOp = "chunk_states";
constexpr double kTypicalChunks = 128;

constexpr std::array<Field<ChunkStatesKernel>, 4> kFields = {
    {gated_delta_rule::dtype_field<ChunkStatesKernel>(), gated_delta_rule::state_field<ChunkStatesKernel>(),
     gated_delta_rule::head_dim_field<ChunkStatesKernel>(),
     gated_delta_rule::state_transposed_field<ChunkStatesKernel>()}};

class Builder : delta_chunks::ConsumerBuilder {
 public:
  Builder(const ChunkStatesKernel& kernel, const arch::Arch& arch)
      : ConsumerBuilder(kOp, "sm90", "tj::ops::chunk_states::Params", "Stager", arch),
        width_(kernel.head_dim),
        terms_(delta_chunks::kept_terms(kernel.dtype)) {
    graph_.name = request_of_fields<kFields>(kOp, kernel).name;
    add_constants<kFields>(kOp, kernel, graph_);
    constant("kConsumers", 1);
    constant("kMaps", 0);
    flag("kChannelGate", false);
    flag("kDelta", true);
  }

  Graph build() {
    const int chunk = value("chunk", 2 * tokens_bytes(width_) + tokens_bytes(kRows), Scope::iteration, 2, 4),
              load_chunk = load("load_chunk", chunk, 1);
    const int begin = add(numbered(context_, "begin_state", 0, Scope::tile_begin));
    Node asked = numbered(context_, "ask_sums", 0);
    busy(asked, cycles(kAskCycles));
    asked.registers = kChunkColumns / 4 + 1;
    const int ask = add(std::move(asked));
    Node kept = numbered(context_, "keep_before", 0);
    busy(kept, cycles(kAloneCycles + memory_cycles(double{kRows} * width_ * kElementBytes)));
    const int keep = add(std::move(kept));
    const int round = arithmetic("round_state", 0, width_, 0, 0.5, 0, kAloneCycles, kRows * width_ / 2 / kThreads),
              read = matrix("read_w", 0, kChunkColumns, width_, kRows * kChunkColumns / kThreads),
              fade = arithmetic("fade_all", 0, width_, 1, 0, 0, kAloneCycles),
              take = arithmetic("take_values", 0, kChunkColumns, 0, 0, tokens_bytes(kRows), kListCycles,
                                kChunkColumns / 4),
              correct = arithmetic("correct_w", 0, kChunkColumns, 1, 1, 0, kAloneCycles, kChunkColumns / 4),
              weigh = arithmetic("weigh_w", 0, kChunkColumns, 1 + terms_, 0.5 * terms_, 0, kListCycles,
                                 kChunkColumns / 4 * terms_),
              change = matrix("change_state", 0, width_, kChunkColumns * terms_, kRows * width_ / kThreads);
    const int end = add(numbered(context_, "end_state", 0, Scope::tile_end));
    edge(begin, read, 0, 0, false);
    then(load_chunk, read, 0, chunk);
    then(load_chunk, take, 0, chunk);
    then(load_chunk, change, 0, chunk);
    wait(read, correct);
    then(take, correct);
    then(correct, take, 1);
    then(ask, weigh);
    then(ask, fade);
    for (const int reader : {weigh, fade}) then(reader, ask, 1);
    then(correct, weigh);
    then(weigh, change);
    then(fade, change);
    order(change, keep, node(change).cycles);  // under the product, which leaves what is kept alone
    then(keep, round);
    wait(change, end);
    // A step ends with the state that the next one reads, and with no product under way, as in delta_chunks.
    for (const int product : {read, change}) wait(product, round);
    for (const int reader : {read, fade, keep}) then(round, reader, 1);
    values(correct);
    graph_.least_smem_bytes = arch_.smem_per_block_bytes;
    graph_.flops_per_iteration = 2.0 * kRows * kChunkColumns * 2 * width_;
    graph_.overhead_cycles = 4.0 * node(load_chunk).latency;
    return std::move(graph_);
  }

 private:
  static constexpr double kAskCycles =
      60;  // an estimate: 17 loads of each thread, of what was asked for a chunk before

  /// v_new leaves by a warp of another role.
  void values(int correct) {
    const int stage = arithmetic("stage_values", 0, kChunkColumns, 0, 0, tokens_bytes(kRows), kAloneCycles);
    then(correct, stage);
    then(stage, correct, 1);
    put("put_values", 0, stage, "v_new");
  }

  const int width_, terms_;
};

ChunkTokens tokens_of_call(const ChunkStatesArgs& args) { return {kOp, "k", args.k, 3, args.cu_seqlens}; }

class ChunkStates final : public ChunkStage<ChunkStatesArgs, chunk_states_from_c, kFields> {
 public:
  std::string_view name() const override { return kOp; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  void check_lists(const void* args, const ReadList& read) const override {
    check_token_ends(tokens_of_call(get(args)), read);
  }
  Device device_of(const void* args) const override { return get(args).k.device; }
  /// Without tokens states are copied; without sequences there are none.
  bool asks_for_nothing(const void* args) const override {
    const ChunkStatesArgs& of = get(args);
    return tokens_of_call(of).nothing() && (!of.final_state || is_empty(*of.final_state));
  }

  ProblemKey problem_key(const void* args) const override {
    const ChunkStatesArgs& of = get(args);
    return {key_of_fields<kFields>(ChunkStatesKernel{
        of.k.dtype, chunk_states_type(of), static_cast<int>(of.k.shape[at(of.k.rank - 1)]), of.state_transposed})};
  }
  void tensors(void* args, TensorList& list) const override {
    ChunkStatesArgs& of = get(args);
    list.reads("k", of.k);
    list.reads("w", of.w);
    list.reads("u", of.u);
    list.writes("h", of.h);
    list.writes("v_new", of.v_new);
    list.reads("g_cu", of.g_cu);
    list.reads("initial_state", of.initial_state);
    list.writes("final_state", of.final_state);
    list.reads("cu_seqlens", of.cu_seqlens);
  }
  void plan(const void* args, const Kernel&, const Geometry&, LaunchPlan& plan) const override {
    chunk_states_plan(get(args), plan);
  }

 private:
  const arch::Needs& needs() const override { return delta_chunks_needs(); }
  ChunkStatesKernel fields_of(const ChunkStatesConfig& of) const override {
    ops::validate(of);
    return {of.dtype, of.state_dtype, of.head_dim, of.state_transposed};
  }
  Candidate candidate(const ChunkStatesKernel& kernel, const arch::Arch& arch) const override {
    Candidate made{Builder(kernel, arch).build(), kTypicalChunks, 0, false};
    made.definitions = matrix_widths({64, kernel.head_dim});
    made.useful_flops = made.graph.flops_per_iteration * kTypicalChunks;
    return made;
  }
  Trial trial_of(ChunkTrial& trial, const ChunkStatesKernel& kernel, const ChunkSizes& sizes) const override {
    const std::int64_t heads = sizes.v_heads(), width = kernel.head_dim, chunks = trial.chunks(),
                       sequences = trial.sequences();
    const std::size_t k = trial.add("k", kernel.dtype, {sizes.heads(), width}),
                      w = trial.add_bits("w", {heads, width / 2}, kNearNothing),
                      u = trial.add("u", kernel.dtype, {heads, width}),
                      h = trial.add_dense("h", kernel.dtype, {chunks, heads, width, width}, true),
                      v_new = trial.add_dense("v_new", kernel.dtype, {chunks * 64, heads, width}, true),
                      first = trial.add_dense("initial_state", kernel.state, {sequences, heads, width, width}),
                      last = trial.add_dense("final_state", kernel.state, {sequences, heads, width, width}, true);
    const std::optional<std::size_t> ends = trial.add_ends();
    return trial.build([=](const ChunkTrial::View& view, const ChunkTrial::Use& use) {
      ChunkStatesArgs args;
      args.k = view(k);
      args.u = view(u);
      args.w = args.u;  // its form
      args.w.data = view(w).data;
      args.h = view(h);
      args.v_new = view(v_new);
      args.initial_state = view(first);
      args.final_state = view(last);
      args.state_transposed = kernel.state_transposed;
      if (ends) args.cu_seqlens = view(*ends);
      use(&args);
    });
  }
  /// Each value is two numbers of 16 bits, a small one and 0. Random ones would grow without bound.
  static constexpr float kNearNothing = 0x1p-7f;
};

}  // namespace

const Op& chunk_states_op() {
  static constinit support::Lasting<const ChunkStates> op;
  return op.get();
}

}  // namespace tj::ops
