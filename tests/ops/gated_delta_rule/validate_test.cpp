// Protects what the gated delta rule refuses, by name: each bad argument, and each bad entry of lists where that is
// asked for.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <tilejit/tilejit.h>
#include <tilejit/tilejit.hpp>

#include "ops/gated_delta_rule/gated_delta_rule.hpp"
#include "ops/gated_delta_rule/problem.hpp"
#include "support/expect.hpp"

using namespace tj;
using test::Given;
using test::RuleProblem;
using test::RuleShape;

namespace {

RuleShape usual() {
  RuleShape shape;
  shape.batch = 2;
  shape.tokens = 3;
  shape.heads = shape.v_heads = 2;
  shape.pool = 4;
  shape.reads = {0, 1};
  shape.writes = {2, 3};
  shape.kept = 2;
  return shape;
}

std::string refusal(const std::function<void(GatedDeltaRuleArgs&)>& change, const RuleShape& shape = usual()) {
  RuleProblem problem(shape, 1);
  change(problem.args);
  return testing::said_by([&] { ops::validate(problem.args, true); });
}

bool has(const std::string& text, const char* part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

}  // namespace

TEST_CASE("shapes and types of what tokens have") {
  CHECK(refusal([](auto&) {}) == "");
  CHECK(has(refusal([](auto& a) { a.q.dtype = DType::f32; }), "q.dtype is f32; allowed: f16, bf16"));
  CHECK(has(refusal([](auto& a) { a.v.dtype = DType::f16; }), "v.dtype is f16; allowed: bf16, as q.dtype"));
  CHECK(has(refusal([](auto& a) { a.q.rank = 2; }), "q.rank is 2; allowed: 3 ([T, Hq, K], or [B, T, Hq, K])"));
  CHECK(has(refusal([](auto& a) { a.k.rank = 3; }), "k.rank is 3; allowed: 4 ([B, T, Hk, K], as q)"));
  CHECK(has(refusal([](auto& a) { a.q.shape[3] = 96; }), "q.shape[3] (K) is 96; allowed: 64, 128"));
  CHECK(has(refusal([](auto& a) { a.v.shape[3] = 64; }), "v.shape[3] (V) is 64"));
  CHECK(has(refusal([](auto& a) { a.k.shape[1] = 2; }), "k.shape[1] (T) is 2"));
  CHECK(has(refusal([](auto& a) { a.o.shape[0] = 1; }), "o.shape[0] (B) is 1"));
  CHECK(
      has(refusal([](auto& a) { a.v.shape[2] = 3; }), "o.shape[2] (H) is 2; allowed: multiples of v.shape[2] (Hv), 3"));
  CHECK(has(refusal([](auto& a) { a.q.strides[3] = 2; }), "q.strides[3]"));
  CHECK(has(refusal([](auto& a) { a.k.strides[1] = 129; }), "k.strides[1] (T) is 129 elements"));
  CHECK(has(refusal([](auto& a) { a.v.data = static_cast<char*>(a.v.data) + 2; }), "v.data is"));
  CHECK(has(refusal([](auto& a) { a.o.data = a.q.data; }), "o at"));
  CHECK(has(refusal([](auto& a) { a.k.device = {DeviceKind::cuda, 0}; }), "k.device is cuda:0"));
  CHECK(has(refusal([](auto& a) { a.scale = std::nanf(""); }), "scale is"));
  CHECK(has(refusal([](auto& a) { a.max_sms = -1; }), "max_sms is -1"));
}

TEST_CASE("gates and beta") {
  RuleShape raw = usual();
  raw.gate = Given::raw;
  CHECK(has(refusal([](auto& a) { a.gate->dtype = DType::f16; }), "gate.dtype is f16; allowed: f32, or q.dtype"));
  CHECK(has(refusal([](auto& a) { a.gate->shape[2] = 1; }), "gate.shape[2] (H) is 1"));
  CHECK(has(refusal([](auto& a) { a.beta->rank = 2; }), "beta.rank is 2; allowed: 3 ([B, T, H])"));
  CHECK(has(refusal([](auto& a) { a.beta->strides[1] = 0; }), "beta.strides[1]"));
  CHECK(has(refusal([](auto& a) { a.gate_form = static_cast<GateForm>(3); }), "gate_form is 3; allowed: 0 (log)"));
  CHECK(
      has(refusal([](auto& a) { a.gate.reset(), a.gate_form = GateForm::exp; }), "gate is absent and gate_form is 1"));
  CHECK(has(refusal([](auto& a) { a.gate_form = GateForm::raw; }), "a_log is absent and gate_form is 2"));
  CHECK(has(refusal([](auto& a) { a.beta.reset(), a.beta_raw = true; }), "beta is absent and beta_raw is true"));
  CHECK(has(refusal([](auto& a) { a.gate_form = GateForm::log; }, raw), "a_log is given and gate_form is 0"));
  CHECK(has(refusal([](auto& a) { a.a_log.reset(), a.gate_form = GateForm::exp; }, raw), "dt_bias is given"));
  CHECK(has(refusal([](auto& a) { a.a_log->dtype = DType::bf16; }, raw), "a_log.dtype is bf16; allowed: f32"));
  CHECK(has(refusal([](auto& a) { a.a_log->shape[0] = 1; }, raw), "a_log.shape[0] (H) is 1"));
  CHECK(has(refusal([](auto& a) { a.dt_bias->dtype = DType::f16; }, raw), "dt_bias.dtype is f16"));
}

TEST_CASE("gates of key channels, by name") {
  RuleShape shape = usual(), raw = usual();
  shape.channels = raw.channels = true;
  raw.gate = Given::raw;
  CHECK(refusal([](auto&) {}, shape) == "");
  CHECK(refusal([](auto&) {}, raw) == "");
  CHECK(has(refusal([](auto& a) { a.gate->rank = 2; }, shape),
            "gate.rank is 2; allowed: 3 ([B, T, H], or [B, T, H, K] for each key channel)"));
  CHECK(has(refusal([](auto& a) { a.gate->dtype = DType::f16; }, shape), "gate.dtype is f16; allowed: f32, or"));
  CHECK(has(refusal([](auto& a) { a.gate->shape[2] = 1; }, shape), "gate.shape[2] (H) is 1"));
  CHECK(has(refusal([](auto& a) { a.gate->shape[3] = 64; }, shape), "gate.shape[3] (K) is 64"));
  CHECK(has(refusal([](auto& a) { a.gate->strides[3] = 2; }, shape), "gate.strides[3]"));
  CHECK(has(refusal([](auto& a) { a.gate->strides[1] = 129; }, shape), "gate.strides[1] (T) is 129 elements"));
  CHECK(has(refusal([](auto& a) { a.gate->data = static_cast<char*>(a.gate->data) + 4; }, shape), "gate.data is"));
  CHECK(has(refusal([](auto& a) { a.o.data = a.gate->data; }, shape), "overlaps"));
  CHECK(has(refusal([](auto& a) { a.dt_bias->rank = 1; }, raw),
            "dt_bias.rank is 1; allowed: 2 ([H, K], as the gate has key channels)"));
  CHECK(has(refusal([](auto& a) { a.dt_bias->shape[1] = 64; }, raw), "dt_bias.shape[1] (K) is 64"));
  CHECK(has(refusal([](auto& a) { a.dt_bias->shape[0] = 1; }, raw), "dt_bias.shape[0] (H) is 1"));
  CHECK(has(refusal([](auto& a) { a.dt_bias->strides[0] = 256; }, raw),
            "dt_bias.strides[0] (H) is 256; allowed: 128, one row behind the other"));
}

TEST_CASE("states and slots") {
  CHECK(has(refusal([](auto& a) { a.initial_state->dtype = DType::i32; }), "initial_state.dtype is i32; allowed: f16"));
  CHECK(
      has(refusal([](auto& a) { a.final_state->dtype = DType::bf16; }), "final_state.dtype is bf16; allowed: f32, as"));
  CHECK(has(refusal([](auto& a) { a.token_states->dtype = DType::f16; }), "token_states.dtype is f16"));
  CHECK(has(refusal([](auto& a) { a.initial_state->shape[1] = 1; }), "initial_state.shape[1] (H) is 1"));
  CHECK(has(refusal([](auto& a) { a.final_state->shape[3] = 64; }), "final_state.shape[3] (K) is 64"));
  CHECK(has(refusal([](auto& a) { a.state_transposed = true, a.final_state->shape[3] = 64; }), "(V) is 64"));
  CHECK(has(refusal([](auto& a) { a.token_states->shape[0] = 1; }), "token_states.shape[0] (N) is 1"));
  CHECK(has(refusal([](auto& a) { a.final_state->strides[2] = 130; }), "final_state.strides[2]"));
  CHECK(has(refusal([](auto& a) { a.final_state->strides[0] = 128; }), "no two elements of this output"));
  CHECK(has(refusal([](auto& a) { a.read_slots.reset(); }), "initial_state.shape[0] (slots) is 4"));
  CHECK(has(refusal([](auto& a) { a.write_slots->shape[0] = 1; }), "write_slots.shape[0] (N) is 1"));
  CHECK(has(refusal([](auto& a) { a.read_slots->dtype = DType::f32; }), "read_slots.dtype is f32; allowed: i32"));
  CHECK(has(refusal([](auto& a) { a.initial_state.reset(); }), "read_slots is given without initial_state"));
  CHECK(has(refusal([](auto& a) { a.final_state.reset(); }), "write_slots is given without final_state"));
  CHECK(
      has(refusal([](auto& a) { a.final_state->data = static_cast<char*>(a.initial_state->data) + 64; }), "overlaps"));
  CHECK(has(refusal([](auto& a) { a.token_states->data = a.initial_state->data; }), "overlaps"));
  CHECK(has(refusal([](auto& a) { a.o.data = a.final_state->data; }), "overlaps"));
  CHECK(refusal([](auto& a) { a.final_state = a.initial_state; }) == "");
  CHECK(refusal([](auto& a) { a.token_every = 64; }) == "");
  CHECK(has(refusal([](auto& a) { a.token_every = 0; }), "token_every is 0; allowed: 1 to"));
  CHECK(refusal([](auto& a) { a.negligible = 0.5F; }) == "");
  CHECK(has(refusal([](auto& a) { a.negligible = 1; }), "negligible is 1; allowed: 0 (exact), or a share above 0"));
  CHECK(has(refusal([](auto& a) { a.negligible = -0.1F; }), "negligible is -0.1; allowed: 0"));
  CHECK(has(refusal([](auto& a) { a.negligible = 0.5F, a.gate.reset(); }), "negligible is 0.5 and gate is absent"));
  CHECK(has(refusal([](auto& a) { a.token_every = 2, a.token_states.reset(); }),
            "token_every is 2 without token_states"));
}

TEST_CASE("scales of states of e4m3") {
  RuleShape scaled = usual(), own = usual();
  scaled.state = own.state = DType::e4m3;
  own.in_place = true;
  own.writes = own.reads;
  CHECK(refusal([](auto&) {}, scaled) == "");
  CHECK(refusal([](auto&) {}, own) == "");
  CHECK(has(refusal([](auto& a) { a.initial_scales.reset(); }, scaled),
            "initial_scales is absent and initial_state.dtype is e4m3; allowed: f32 [slots, H, V]"));
  CHECK(has(refusal([](auto& a) { a.final_scales.reset(); }, scaled), "final_scales is absent"));
  CHECK(has(refusal([](auto& a) { a.token_scales.reset(); }, scaled),
            "token_scales is absent and token_states.dtype is e4m3; allowed: f32 [N, L, H, V]"));
  CHECK(has(refusal([](auto& a) { a.initial_scales = a.final_state; }),
            "initial_scales is given and initial_state.dtype is f32; allowed: with states of e4m3 alone"));
  CHECK(has(refusal([](auto& a) { a.initial_state.reset(), a.read_slots.reset(); }, scaled),
            "initial_scales is given without initial_state"));
  CHECK(has(refusal([](auto& a) { a.initial_scales->dtype = DType::bf16; }, scaled),
            "initial_scales.dtype is bf16; allowed: f32"));
  CHECK(has(refusal([](auto& a) { a.final_scales->rank = 2; }, scaled),
            "final_scales.rank is 2; allowed: 3 ([slots, H, V])"));
  CHECK(has(refusal([](auto& a) { a.final_scales->shape[0] = 3; }, scaled), "final_scales.shape[0] (slots) is 3"));
  CHECK(has(refusal([](auto& a) { a.final_scales->shape[2] = 64; }, scaled), "final_scales.shape[2] (V) is 64"));
  CHECK(has(refusal([](auto& a) { a.token_scales->shape[1] = 1; }, scaled), "token_scales.shape[1] (L) is 1"));
  CHECK(has(refusal([](auto& a) { a.token_scales->strides[2] = 130; }, scaled), "token_scales.strides[2]"));
  CHECK(has(refusal([](auto& a) { a.initial_scales->data = static_cast<char*>(a.initial_scales->data) + 4; }, scaled),
            "initial_scales.data is"));
  CHECK(has(refusal([](auto& a) { a.final_scales->data = a.initial_scales->data; }, scaled), "overlaps"));
  CHECK(has(refusal([](auto& a) { a.token_scales->data = a.o.data; }, scaled), "overlaps"));
  CHECK(has(refusal([](auto& a) { a.final_scales->data = static_cast<char*>(a.initial_scales->data) + 4096; }, own),
            "final_scales is not initial_scales, and final_state is initial_state"));
  GatedDeltaRuleConfig config;
  config.state_dtype = DType::e4m3;
  ops::validate(config);
}

TEST_CASE("sequences") {
  RuleShape listed;
  listed.lengths = {1, 2};
  CHECK(refusal([](auto&) {}, listed) == "");
  CHECK(has(refusal([](auto& a) { a.cu_seqlens->shape[0] = 0; }, listed), "cu_seqlens.shape[0] (N + 1) is 0"));
  CHECK(has(refusal([](auto& a) { a.cu_seqlens->dtype = DType::f32; }, listed), "cu_seqlens.dtype is f32"));
  CHECK(has(refusal([](auto& a) { a.initial_state->shape[0] = 1; }, listed), "initial_state.shape[0] (slots) is 1"));
  std::vector<std::int32_t> ends = {0, 3};
  CHECK(has(refusal([&](auto& a) { a.cu_seqlens = Tensor::contiguous(ends.data(), a.q.device, DType::i32, {2}); }),
            "q.rank is 4 with cu_seqlens"));
}

TEST_CASE("a configuration") {
  GatedDeltaRuleConfig config;
  ops::validate(config);
  const auto text = [](const GatedDeltaRuleConfig& of) -> std::string {
    return testing::said_by([&] { ops::validate(of); });
  };
  config.head_dim = 256;
  CHECK(has(text(config), "head_dim is 256; allowed: 64, 128"));
  config = {.dtype = DType::f32};
  CHECK(has(text(config), "dtype is f32"));
  config = {.state_dtype = DType::i32};
  CHECK(has(text(config), "state_dtype is i32"));
}

TEST_CASE("the first bad entry of lists, where that is asked for") {
  const auto bad = [](RuleShape shape, const std::function<void(RuleProblem&)>& change) -> std::string {
    RuleProblem problem(shape, 2);
    change(problem);
    return testing::said_by([&] {
      ops::check_lists(problem.args, [](const Tensor& list) {
        const auto* const from = static_cast<const std::int32_t*>(list.data);
        return std::vector<std::int32_t>(from, from + list.shape[0]);
      });
    });
  };
  RuleShape listed;
  listed.lengths = {1, 2, 0};
  CHECK(bad(listed, [](RuleProblem&) {}) == "");
  CHECK(has(bad(listed, [](RuleProblem& p) { p.ends[0] = -1; }), "cu_seqlens[0] is -1; allowed: 0 to 3 (T)"));
  CHECK(has(bad(listed, [](RuleProblem& p) { p.ends[2] = 0; }), "cu_seqlens[2] is 0; allowed: 1 (the one before it)"));
  CHECK(has(bad(listed, [](RuleProblem& p) { p.ends[3] = 9; }), "cu_seqlens[3] is 9"));
  RuleShape pool = usual();
  CHECK(bad(pool, [](RuleProblem&) {}) == "");
  CHECK(has(bad(pool, [](RuleProblem& p) { p.reads[1] = 4; }), "read_slots[1] is 4; allowed: -1 (none) to 3"));
  CHECK(has(bad(pool, [](RuleProblem& p) { p.writes[0] = -2; }), "write_slots[0] is -2"));
  CHECK(has(bad(pool, [](RuleProblem& p) { p.writes[1] = 2; }), "write_slots[1] is 2; allowed: slots that no other"));
  CHECK(has(bad(pool, [](RuleProblem& p) { p.writes = {1, 1}, p.args.write_slots->data = p.writes.data(); }),
            "write_slots[1] is 1; allowed: slots that no other"));
  CHECK(bad(pool, [](RuleProblem& p) { p.writes = {-1, -1}, p.args.write_slots->data = p.writes.data(); }) == "");
  CHECK(bad(pool, [](RuleProblem& p) { p.reads[1] = 0; }) == "");
  pool.in_place = true;
  pool.writes = {0, 1};
  CHECK(bad(pool, [](RuleProblem&) {}) == "");
  CHECK(has(bad(pool, [](RuleProblem& p) { p.reads[1] = 0; }), "read_slots[1] is 0; allowed: slots of the same pool"));
}

TEST_CASE("a C structure is the descriptor") {
  tj_tensor tensors[17] = {};
  tj_gated_delta_rule_args c{};
  c.size = sizeof c;
  const tj_tensor** const members[] = {&c.q,
                                       &c.k,
                                       &c.v,
                                       &c.o,
                                       &c.gate,
                                       &c.a_log,
                                       &c.dt_bias,
                                       &c.beta,
                                       &c.initial_state,
                                       &c.final_state,
                                       &c.token_states,
                                       &c.read_slots,
                                       &c.write_slots,
                                       &c.cu_seqlens,
                                       &c.initial_scales,
                                       &c.final_scales,
                                       &c.token_scales};
  for (std::size_t i = 0; i < 17; ++i) {
    tensors[i].size = sizeof tensors[i];
    tensors[i].rank = 1;
    tensors[i].shape[0] = static_cast<std::int64_t>(i);
    *members[i] = &tensors[i];
  }
  c.scale = 2;
  c.gate_form = TJ_GATE_RAW;
  c.beta_raw = c.without_delta = c.normalise = c.state_transposed = 1;
  c.max_sms = 5;
  const GatedDeltaRuleArgs args = ops::gated_delta_rule_from_c(&c);
  CHECK(args.o.shape[0] == 3);
  CHECK(args.gate->shape[0] == 4);
  CHECK(args.beta->shape[0] == 7);
  CHECK(args.token_states->shape[0] == 10);
  CHECK(args.cu_seqlens->shape[0] == 13);
  CHECK(args.initial_scales->shape[0] == 14);
  CHECK(args.final_scales->shape[0] == 15);
  CHECK(args.token_scales->shape[0] == 16);
  CHECK_FALSE(args.scale.has_value());
  CHECK(args.gate_form == GateForm::raw);
  CHECK((args.beta_raw && !args.delta && args.normalise && args.state_transposed));
  CHECK(args.max_sms == 5);
  CHECK(args.token_every == 1);
  c.token_every = 128;
  CHECK(ops::gated_delta_rule_from_c(&c).token_every == 128);
  CHECK(args.negligible == 0);
  c.negligible = 0.25F;
  CHECK(ops::gated_delta_rule_from_c(&c).negligible == 0.25F);
  c.gate_form = 3;
  CHECK_THROWS_AS(ops::gated_delta_rule_from_c(&c), Error);
}
