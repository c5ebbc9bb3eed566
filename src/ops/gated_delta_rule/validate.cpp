// The checks behind ops::validate(GatedDeltaRuleArgs); the words of those that every op makes are tensor_checks.hpp's.
//
// Decides the order of the checks. validate_states.cpp checks states, lists.cpp reads lists.
#include <cmath>

#include "ops/common/tensor_checks.hpp"
#include "ops/gated_delta_rule/gated_delta_rule.hpp"
#include "ops/gated_delta_rule/params.cuh"
#include "ops/gated_delta_rule/raw_gate.hpp"
#include "ops/gated_delta_rule/validate.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;
using namespace gated_delta_rule;

constexpr const char *kQ[] = {"B", "T", "Hq", "K"}, *kK[] = {"B", "T", "Hk", "K"}, *kV[] = {"B", "T", "Hv", "V"},
                     *kO[] = {"B", "T", "H", "V"}, *kEach[] = {"B", "T", "H"}, *kChannels[] = {"B", "T", "H", "K"},
                     *kHeadChannels[] = {"H", "K"};
constexpr const char* kEnds[] = {"N + 1"};

/// B and T.
unsigned tokens_from_zero(const Main& main) { return main.first == 0 ? axis_bits({0, 1}) : axis_bits({0}); }

void check_width(const char* name, Size width) {
  if (width != 64 && width != 128) refuse(kOp, Code::unsupported, cat(name, " is ", width, "; allowed: 64, 128"));
}

void check_main(const GatedDeltaRuleArgs& args, const Main& main, bool on_model) {
  const auto& [q, k, v, o, first, sequences] = main;
  for (const Named* t : {&q, &k, &v, &o}) check_form(*t, tokens_from_zero(main));
  check_type(q, is_half(args.q.dtype), "f16, bf16");
  check_place(q, on_model);
  for (const Named* t : {&k, &v, &o}) {
    check_dtype(*t, args.q.dtype, ", as q.dtype");
    check_device(*t, args.q.device, "q");
    for (int axis = 0; axis < q.rank - 2; ++axis) check_same(*t, axis, q.at(axis), "q's shape");
  }
  const int last = q.rank - 1, heads = q.rank - 2;
  check_width(q.rank == 4 ? "q.shape[3] (K)" : "q.shape[2] (K)", q.at(last));
  for (const Named* t : {&k, &v, &o}) check_same(*t, last, q.at(last), "q's K (V and K are equal)");
  for (const Named* t : {&q, &k, &v})
    if (o.at(heads) % t->at(heads) != 0)
      refuse(kOp, Code::invalid_argument,
             cat("o.shape[", heads, "] (H) is ", o.at(heads), "; allowed: multiples of ", t->name, ".shape[", heads,
                 "] (", t->axes[heads], "), ", t->at(heads)));
  for (const Named* t : {&q, &k, &v, &o}) {
    check_strides(*t, kCopyAlignmentBytes, last);
    check_alignment(*t, kCopyAlignmentBytes);
  }
}

/// Units of a launch are counted in 32 bits.
void check_units(const GatedDeltaRuleArgs& args, const Main& main) {
  const Size width = args.q.shape[static_cast<std::size_t>(main.q.rank - 1)], each = width * width / kUnitElements,
             heads = main.o.at(main.o.rank - 2);
  if (heads > kMaxSize / each || main.sequences > kMaxSize / (heads * each))
    refuse(kOp, Code::invalid_argument,
           cat("o.shape[", main.o.rank - 2, "] (H) is ", heads, " with ", main.sequences,
               " sequences; allowed: sequences * H * ", each, " of at most ", kMaxSize));
}

void check_number_type(const Named& t, const GatedDeltaRuleArgs& args) {
  check_type(t, t.tensor.dtype == DType::f32 || t.tensor.dtype == args.q.dtype, "f32, or q.dtype");
}

/// Numbers of each token and head.
void check_numbers(const Named& t, const GatedDeltaRuleArgs& args, const Main& main) {
  check_form(t, tokens_from_zero(main));
  check_number_type(t, args);
  check_device(t, args.q.device, "q");
  for (int axis = 0; axis < t.rank; ++axis) check_same(t, axis, main.o.at(axis), "o's shape");
  check_strides(t, size_of(t.tensor.dtype), -1);
  check_alignment(t, size_of(t.tensor.dtype));
}

GateHeads gate_heads(const GatedDeltaRuleArgs& args, const Main& main) {
  return {kOp, main.o.at(main.o.rank - 2), "o's H", args.q.device, "q"};
}

/// Numbers of each token, head and key channel, as q's elements lie.
void check_channels(const Named& t, const GatedDeltaRuleArgs& args, const Main& main) {
  check_form(t, tokens_from_zero(main));
  check_number_type(t, args);
  check_device(t, args.q.device, "q");
  const int last = t.rank - 1;
  for (int axis = 0; axis < last; ++axis) check_same(t, axis, main.o.at(axis), "o's shape");
  check_same(t, last, main.q.at(last), "q's K");
  check_strides(t, kCopyAlignmentBytes, last);
  check_alignment(t, kCopyAlignmentBytes);
}

void check_gate(const GatedDeltaRuleArgs& args, const Main& main) {
  const bool batch = main.first == 0;
  const Tensor& gate = *args.gate;
  if (gates_channels(args))
    return check_channels({kOp, "gate", gate, kChannels + main.first, gate.rank, batch ? "[B, T, H, K]" : "[T, H, K]"},
                          args, main);
  check_numbers(
      {kOp, "gate", gate, kEach + main.first, main.q.rank - 1,
       batch ? "[B, T, H], or [B, T, H, K] for each key channel" : "[T, H], or [T, H, K] for each key channel"},
      args, main);
}

/// A bias for each head, or for each of its key channels.
void check_bias(const GatedDeltaRuleArgs& args, const Main& main) {
  if (!gates_channels(args)) {
    const Named bias = head_numbers(kOp, "dt_bias", *args.dt_bias);
    check_number_type(bias, args);
    return check_head_numbers(bias, gate_heads(args, main));
  }
  const Named bias{kOp, "dt_bias", *args.dt_bias, kHeadChannels, 2, "[H, K], as the gate has key channels"};
  check_number_type(bias, args);
  check_form(bias);
  check_device(bias, args.q.device, "q");
  check_same(bias, 0, main.o.at(main.o.rank - 2), "o's H");
  check_same(bias, 1, main.q.at(main.q.rank - 1), "q's K");
  check_strides(bias, kCopyAlignmentBytes, 1);
  check_alignment(bias, kCopyAlignmentBytes);
  if (bias.at(0) > 1 && bias.stride(0) != bias.at(1))
    refuse(kOp, Code::unsupported,
           cat("dt_bias.strides[0] (H) is ", bias.stride(0), "; allowed: ", bias.at(1), ", one row behind the other"));
}

void check_gates(const GatedDeltaRuleArgs& args, const Main& main) {
  check_gate_form(kOp, args.gate_form);
  const int rank = main.q.rank - 1;
  const char* const form = rank == 3 ? "[B, T, H]" : "[T, H]";
  if (args.gate) check_gate(args, main);
  if (args.beta) check_numbers({kOp, "beta", *args.beta, kEach + main.first, rank, form}, args, main);
  if (args.gate_form != GateForm::log && !args.gate)
    refuse(kOp, Code::invalid_argument,
           cat("gate is absent and gate_form is ", static_cast<int>(args.gate_form),
               "; allowed: a gate, or gate_form 0 without one"));
  if (args.beta_raw && !args.beta)
    refuse(kOp, Code::invalid_argument, "beta is absent and beta_raw is true; allowed: a beta, or beta_raw false");
  check_raw_gate(args.gate_form, args.a_log, args.dt_bias, gate_heads(args, main));
  if (args.dt_bias) check_bias(args, main);
}

void check_ends(const GatedDeltaRuleArgs& args) {
  if (args.q.rank == 4)
    refuse(kOp, Code::invalid_argument,
           "q.rank is 4 with cu_seqlens; allowed: 3 ([T, Hq, K], the tokens of all sequences)");
  const Named ends{kOp, "cu_seqlens", *args.cu_seqlens, kEnds, 1, "[N + 1]"};
  check_form(ends);
  check_list(ends, args.q.device);
}

}  // namespace

std::int64_t gated_delta_rule_sequences(const GatedDeltaRuleArgs& args) {
  if (args.cu_seqlens) return args.cu_seqlens->shape[0] - 1;
  return args.q.rank == 4 ? args.q.shape[0] : 1;
}

bool gates_channels(const GatedDeltaRuleArgs& args) { return args.gate && args.gate->rank == args.q.rank; }

DType gated_delta_rule_state(const GatedDeltaRuleArgs& args) {
  for (const auto* const states : {&args.initial_state, &args.final_state, &args.token_states})
    if (*states) return (*states)->dtype;
  return DType::f32;
}

void validate(const GatedDeltaRuleConfig& config) {
  if (!is_half(config.dtype))
    refuse(kOp, Code::unsupported, cat("dtype is ", to_string(config.dtype), "; allowed: f16, bf16"));
  if (!is_state(config.state_dtype))
    refuse(kOp, Code::unsupported,
           cat("state_dtype is ", to_string(config.state_dtype), "; allowed: ", kStatesAllowed));
  check_width("head_dim", config.head_dim);
}

void validate(const GatedDeltaRuleArgs& args, bool on_model) {
  const bool batch = args.q.rank == 4;
  const int rank = batch ? 4 : 3, first = batch ? 0 : 1;
  if (args.cu_seqlens) check_ends(args);
  const Main main{{kOp, "q", args.q, kQ + first, rank, "[T, Hq, K], or [B, T, Hq, K]"},
                  {kOp, "k", args.k, kK + first, rank, batch ? "[B, T, Hk, K], as q" : "[T, Hk, K], as q"},
                  {kOp, "v", args.v, kV + first, rank, batch ? "[B, T, Hv, V], as q" : "[T, Hv, V], as q"},
                  {kOp, "o", args.o, kO + first, rank, batch ? "[B, T, H, V], as q" : "[T, H, V], as q"},
                  first,
                  gated_delta_rule_sequences(args)};
  check_main(args, main, on_model);
  check_units(args, main);
  check_gates(args, main);
  check_states(args, main);
  check_written(args, main.o);
  if (args.scale && !std::isfinite(*args.scale))
    refuse(kOp, Code::invalid_argument, cat("scale is ", *args.scale, "; allowed: any finite value"));
  check_max_sms(kOp, args.max_sms);
}

}  // namespace tj::ops
