// The descriptor of gated_delta_rule from its structure in tilejit.h.
#include "ops/gated_delta_rule/gated_delta_rule.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

GatedDeltaRuleArgs gated_delta_rule_from_c(const void* structure) {
  const tj_gated_delta_rule_args c = read(static_cast<const tj_gated_delta_rule_args*>(structure), "args");
  GatedDeltaRuleArgs args;
  args.q = to_tensor(c.q, "q");
  args.k = to_tensor(c.k, "k");
  args.v = to_tensor(c.v, "v");
  args.o = to_tensor(c.o, "o");
  const auto given = [](std::optional<Tensor>& tensor, const tj_tensor* from, const char* name) {
    if (from != nullptr) tensor = to_tensor(from, name);
  };
  given(args.gate, c.gate, "gate");
  given(args.a_log, c.a_log, "a_log");
  given(args.dt_bias, c.dt_bias, "dt_bias");
  given(args.beta, c.beta, "beta");
  given(args.initial_state, c.initial_state, "initial_state");
  given(args.final_state, c.final_state, "final_state");
  given(args.token_states, c.token_states, "token_states");
  given(args.read_slots, c.read_slots, "read_slots");
  given(args.write_slots, c.write_slots, "write_slots");
  given(args.cu_seqlens, c.cu_seqlens, "cu_seqlens");
  given(args.initial_scales, c.initial_scales, "initial_scales");
  given(args.final_scales, c.final_scales, "final_scales");
  given(args.token_scales, c.token_scales, "token_scales");
  if (c.has_scale != 0) args.scale = c.scale;
  args.gate_form = to_enum<GateForm>(c.gate_form, TJ_GATE_RAW, "args.gate_form", "0 (log), 1 (exp), 2 (raw)");
  args.beta_raw = c.beta_raw != 0;
  args.delta = c.without_delta == 0;
  args.normalise = c.normalise != 0;
  args.state_transposed = c.state_transposed != 0;
  args.max_sms = c.max_sms;
  args.token_every = c.token_every == 0 ? 1 : c.token_every;
  args.negligible = c.negligible;
  return args;
}

}  // namespace tj::ops
