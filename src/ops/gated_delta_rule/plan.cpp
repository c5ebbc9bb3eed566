// Launch parameters of gated_delta_rule; see gated_delta_rule.hpp. On the hot path: allocates nothing.
#include <cmath>
#include <new>

#include "ops/common/walk.hpp"
#include "ops/gated_delta_rule/gated_delta_rule.hpp"
#include "ops/gated_delta_rule/params.cuh"
#include "ops/gated_delta_rule/tensors.hpp"
#include "support/index.hpp"

namespace tj::ops {
namespace {

using gated_delta_rule::bytes_apart;
using gated_delta_rule::is_half;
using gated_delta_rule::numbers_of;
using gated_delta_rule::states_of;
using gated_delta_rule::tokens_of;
using support::at;

constexpr unsigned kBlocksPerSm = 16;  // more than run at a time

gated_delta_rule::States pool_of(const std::optional<Tensor>& pool, const std::optional<Tensor>& slots,
                                 const std::optional<Tensor>& scales) {
  gated_delta_rule::States states = states_of(pool, slots);
  if (scales) {
    states.scales = static_cast<float*>(scales->data);
    states.scale_slot = bytes_apart(*scales, 0);
    states.scale_head = bytes_apart(*scales, 1);
  }
  return states;
}

gated_delta_rule::TokenStates token_states_of(const std::optional<Tensor>& states, const std::optional<Tensor>& scales,
                                              int every) {
  if (!states) return {};
  gated_delta_rule::TokenStates each{states->data,
                                     bytes_apart(*states, 0),
                                     bytes_apart(*states, 1),
                                     bytes_apart(*states, 2),
                                     bytes_apart(*states, 3),
                                     static_cast<int>(states->shape[1]),
                                     every,
                                     divisor_of(every),
                                     nullptr,
                                     0,
                                     0,
                                     0};
  if (scales) {
    each.scales = static_cast<float*>(scales->data);
    each.scale_sequence = bytes_apart(*scales, 0);
    each.scale_token = bytes_apart(*scales, 1);
    each.scale_head = bytes_apart(*scales, 2);
  }
  return each;
}

int options_of(const GatedDeltaRuleArgs& args) {
  using namespace gated_delta_rule;
  return option(args.gate_form == GateForm::exp, kGateExp) | option(args.gate_form == GateForm::raw, kGateRaw) |
         option(args.beta_raw, kBetaRaw) | option(!args.delta, kWithoutDelta) | option(args.normalise, kNormalise) |
         option(is_half(args.gate), kGateHalf) | option(is_half(args.beta), kBetaHalf) |
         option(is_half(args.dt_bias), kBiasHalf);
}

Divisor heads_of(const Tensor& o, const Tensor& of) {
  return divisor_of(static_cast<int>(o.shape[at(o.rank - 2)] / of.shape[at(of.rank - 2)]));
}

}  // namespace

void set_rule(const GatedDeltaRuleArgs& args, gated_delta_rule::Params& p) {
  p.q = tokens_of(args.q);
  p.k = tokens_of(args.k);
  p.v = tokens_of(args.v);
  p.o = tokens_of(args.o);
  p.gate = numbers_of(args.gate, gates_channels(args) ? 1 : 0);
  p.beta = numbers_of(args.beta, 0);
  if (args.a_log) p.a_log = static_cast<const float*>(args.a_log->data);
  if (args.dt_bias) p.dt_bias = args.dt_bias->data;
  p.initial = pool_of(args.initial_state, args.read_slots, args.initial_scales);
  p.final = pool_of(args.final_state, args.write_slots, args.final_scales);
  p.each = token_states_of(args.token_states, args.token_scales, args.token_every);
  if (args.cu_seqlens) p.cu_seqlens = static_cast<const int*>(args.cu_seqlens->data);
  const auto width = static_cast<int>(args.q.shape[at(args.q.rank - 1)]);
  p.scale = args.scale.value_or(1.0f / std::sqrt(static_cast<float>(width)));
  p.options = options_of(args);
  p.tokens = static_cast<int>(args.q.shape[at(args.q.rank - 3)]);
  p.heads = static_cast<int>(args.o.shape[at(args.o.rank - 2)]);
  p.by_q = heads_of(args.o, args.q);
  p.by_k = heads_of(args.o, args.k);
  p.by_v = heads_of(args.o, args.v);
}

void gated_delta_rule_plan(const GatedDeltaRuleArgs& args, const Geometry& geometry, LaunchPlan& plan) {
  static_assert(sizeof(gated_delta_rule::Params) <= LaunchPlan::kMaxOwnBytes);
  auto& p = *new (plan.params.data()) gated_delta_rule::Params{};
  plan.params_bytes = sizeof(gated_delta_rule::Params);
  set_rule(args, p);
  const auto width = static_cast<int>(args.q.shape[at(args.q.rank - 1)]);
  p.parts = (p.heads * (width * width / gated_delta_rule::kUnitElements) + gated_delta_rule::kUnits - 1) /
            gated_delta_rule::kUnits;
  p.tiles = static_cast<int>(p.parts * gated_delta_rule_sequences(args));
  p.by_parts = divisor_of(p.parts);
  walk_tiles(p.tiles, kBlocksPerSm, geometry, args.max_sms, plan);
}

}  // namespace tj::ops
