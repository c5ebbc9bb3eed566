// The gated delta rule: requests and graph; see gated_delta_rule.hpp. One kernel for each type, width and order of
// states serves all options: memory bounds the time anyway.
#include "ops/common/empty.hpp"
#include "ops/common/tabled.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/walk.hpp"
#include "ops/gated_delta_rule/chunks.hpp"
#include "ops/gated_delta_rule/fields.hpp"
#include "ops/gated_delta_rule/gated_delta_rule.hpp"
#include "ops/gated_delta_rule/params.cuh"
#include "support/index.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using gated_delta_rule::kFields;
using support::at;

constexpr const char* kOp = "gated_delta_rule";
constexpr double kTypicalTokens = 1;
/// Four blocks of 128 threads have 128 registers for each thread. Half of these hold the state: 64 or 128 KB of an SM's
/// loads are under way. States of f32 with eight rows a lane take a few registers more. So do states of f16 and e4m3,
/// and gates of channels with transposed states (nvcc 13.0).
int blocks_beside(const GatedDeltaRuleKernel& kernel) {
  if (kernel.state == DType::e4m3) return kernel.state_transposed && kernel.head_dim == 128 ? 4 : 3;
  if (kernel.state_transposed) return kernel.channel_gate && kernel.state == DType::f32 ? 3 : 4;
  return kernel.state == DType::f32 ? (kernel.head_dim == 64 ? 3 : 4) : (kernel.dtype == DType::f16 ? 3 : 4);
}

const arch::Needs& kNeeds = support::lasting<arch::Needs>({{"ALU"}, {"memory_bytes_per_cycle", "f32_per_cycle"}});

GatedDeltaRuleKernel kernel_of_args(const GatedDeltaRuleArgs& args) {
  return {.dtype = args.q.dtype,
          .state = gated_delta_rule_state(args),
          .head_dim = static_cast<int>(args.q.shape[at(args.q.rank - 1)]),
          .state_transposed = args.state_transposed,
          .channel_gate = gates_channels(args)};
}

class Builder : WalkBuilder {
 public:
  Builder(const GatedDeltaRuleKernel& kernel, const arch::Arch& arch)
      : WalkBuilder(kOp, "Recurrence", gated_delta_rule::kUnits, arch, kernel.walk, blocks_beside(kernel)),
        channel_gate_(kernel.channel_gate),
        token_bytes_(gated_delta_rule::kUnits * kernel.head_dim *
                     (3.0 * size_of(kernel.dtype) + (kernel.channel_gate ? size_of(DType::f32) : 0))) {
    graph_.name = request_of_fields<kFields>(kOp, kernel).name;
    add_constants<kFields>(kOp, kernel, graph_);
    constant("kLanes", arch.warp_size);
  }

  /// One role. A token is asked for under the one before it, and comes from near when it is taken.
  Candidate build() {
    constexpr double kElements = gated_delta_rule::kUnits * gated_delta_rule::kUnitElements;
    const int begin = at_end("begin_sequence", Scope::tile_begin);
    const int take = add(working("take_token", 0.1 * kElements)), load = brings("ask_next", token_bytes_),
              fade = channel_gate_ ? add(working("fade_state", 1.2 * kElements)) : take,
              update = add(working("update_state", 4 * kElements)), last = at_end("end_sequence", Scope::tile_end);
    then(begin, take);
    then(take, load);
    then(load, take, 1);
    then(take, update);
    then(update, take, 1);
    then(update, update, 1);
    if (channel_gate_) fade_between(begin, load, fade, update);
    then(update, last);
    return candidate(kTypicalTokens);
  }

 private:
  /// The state fades by channels before it changes. Gates are asked for with the token.
  void fade_between(int begin, int load, int fade, int update) {
    then(begin, fade);
    then(load, fade, 1);
    then(fade, update);
    then(update, fade, 1);
  }
  /// A node of so many multiplications and additions of f32.
  Node working(const char* body, double operations) const {
    Node work = single("Recurrence", body, node(0).warps);
    hold(work, {.alu = operations / arch_.fact("f32_per_cycle")});
    return work;
  }

  bool channel_gate_;
  double token_bytes_;
};

class GatedDeltaRule final : public Tabled<GatedDeltaRuleArgs, gated_delta_rule_from_c, kFields> {
 public:
  std::string_view name() const override { return kOp; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  void check_lists(const void* args, const ReadList& read) const override { ops::check_lists(get(args), read); }
  Device device_of(const void* args) const override { return get(args).q.device; }
  /// Without tokens states go from one pool to the other.
  bool asks_for_nothing(const void* args) const override {
    const GatedDeltaRuleArgs& of = get(args);
    return gated_delta_rule_sequences(of) == 0 || (is_empty(of.o) && !of.final_state);
  }

  ProblemKey problem_key(const void* args) const override {
    const GatedDeltaRuleArgs& of = get(args);
    return {key_of_fields<kFields>(kernel_of_args(of)), {of.max_sms, prefers_chunks(of) ? 1 : 0}};
  }
  Kernel choose(const ProblemKey& problem, const arch::Arch& arch) const override {
    if (problem.sizes[1] != 0 && arch::serves(arch, {delta_chunks_needs()}))
      return kernel_of(problem, chunk_choice(arch));
    return Tabled::choose(problem, arch);
  }
  Kernel kernel_of(const ProblemKey& problem, int choice) const override {
    return stands_for_chunks(choice) ? Kernel{problem.kind, choice} : Tabled::kernel_of(problem, choice);
  }
  using Tabled::kernel_of;
  std::vector<NeededKernel> needed_kernels(const void* config, const ChooseKernel& choose) const override {
    const auto& of = *static_cast<const GatedDeltaRuleConfig*>(config);
    const GatedDeltaRuleKernel kernel = fields_of(of);
    std::vector<NeededKernel> list = chunk_kernels(kernel, of.checkpoints, of.delta, choose.arch());
    list.push_back({this, choose({key_of_fields<kFields>(kernel)})});
    return list;
  }
  using Tabled::needed_kernels;
  std::vector<Trial> trials(const Flags& flags, const arch::Arch&) const override {
    return gated_delta_rule_trials(flags);
  }

  bool in_steps(const void*, const Kernel& kernel) const override { return stands_for_chunks(kernel.choice); }
  std::size_t scratch_bytes(const void* args, const Kernel& kernel) const override {
    return in_steps(args, kernel) ? delta_chunks_bytes(get(args), cut_of(args, kernel)) : 0;
  }
  void steps(const void* args, const Kernel& kernel, void* scratch, const EachStep& each) const override {
    if (!in_steps(args, kernel)) return each({this, args, kernel});
    chunk_steps(get(args), kernel_of_key<kFields, GatedDeltaRuleKernel>(kernel.small_key),
                multiprocessors_of(kernel.choice), cut_of(args, kernel), scratch, each);
  }
  void tensors(void* args, TensorList& list) const override {
    GatedDeltaRuleArgs& of = get(args);
    list.reads("q", of.q);
    list.reads("k", of.k);
    list.reads("v", of.v);
    list.writes("o", of.o);
    list.reads("gate", of.gate);
    list.reads("a_log", of.a_log);
    list.reads("dt_bias", of.dt_bias);
    list.reads("beta", of.beta);
    list.reads("initial_state", of.initial_state);
    list.writes("final_state", of.final_state);
    list.writes("token_states", of.token_states);
    list.reads("initial_scales", of.initial_scales);
    list.writes("final_scales", of.final_scales);
    list.writes("token_scales", of.token_scales);
    list.reads("read_slots", of.read_slots);
    list.reads("write_slots", of.write_slots);
    list.reads("cu_seqlens", of.cu_seqlens);
    if (of.initial_scales && of.final_scales) list.may_be_one(*of.initial_scales, *of.final_scales);
    if (of.initial_state && of.final_state) list.may_be_one(*of.initial_state, *of.final_state);
  }
  void plan(const void* args, const Kernel&, const Geometry& geometry, LaunchPlan& plan) const override {
    gated_delta_rule_plan(get(args), geometry, plan);
  }

 private:
  const arch::Needs& needs() const override { return kNeeds; }
  GatedDeltaRuleKernel fields_of(const GatedDeltaRuleConfig& of) const override {
    ops::validate(of);
    return {.dtype = of.dtype,
            .state = of.state_dtype,
            .head_dim = of.head_dim,
            .state_transposed = of.state_transposed,
            .channel_gate = of.channel_gate};
  }
  static ChunkCut cut_of(const void* args, const Kernel& kernel) {
    return chunk_cut(get(args), multiprocessors_of(kernel.choice));
  }
  Candidate candidate(const GatedDeltaRuleKernel& kernel, const arch::Arch& arch) const override {
    return Builder(kernel, arch).build();
  }
};

}  // namespace

const Op& gated_delta_rule_op() {
  static constinit support::Lasting<const GatedDeltaRule> op;
  return op.get();
}

}  // namespace tj::ops
