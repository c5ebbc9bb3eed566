// The checks of gated_delta_rule's states: pools with their slots and scales, and states after tokens.
//
// Decides what is asked of them, and that what is written lies apart from everything else. lists.cpp reads
// lists.
#include <tuple>

#include "ops/common/tensor_checks.hpp"
#include "ops/gated_delta_rule/gated_delta_rule.hpp"
#include "ops/gated_delta_rule/validate.hpp"
#include "support/fail.hpp"

namespace tj::ops::gated_delta_rule {
namespace {

using support::cat;

constexpr const char *kStates[] = {"slots", "H", "V", "K"}, *kStatesTransposed[] = {"slots", "H", "K", "V"},
                     *kTokens[] = {"N", "L", "H", "V", "K"}, *kTokensTransposed[] = {"N", "L", "H", "K", "V"};
constexpr const char *kScales[] = {"slots", "H", "V"}, *kTokenScales[] = {"N", "L", "H", "V"}, *kSlots[] = {"N"};
constexpr const char *kScalesForm = "[slots, H, V]", *kTokenScalesForm = "[N, L, H, V]";

const char* const* axes_of(const GatedDeltaRuleArgs& args) {
  return args.state_transposed ? kStatesTransposed : kStates;
}
const char* form_of(const GatedDeltaRuleArgs& args) {
  return args.state_transposed ? "[slots, H, K, V]" : "[slots, H, V, K]";
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.data == b.data && a.rank == b.rank && a.shape == b.shape && a.strides == b.strides;
}

/// Matrices of states at the last two axes, heads before them.
void check_state(const Named& t, const GatedDeltaRuleArgs& args, const Main& main) {
  check_form(t, (1u << (t.rank - 3)) - 1);  // slots; N and L
  const DType dtype = gated_delta_rule_state(args);
  check_type(t, is_state(dtype), kStatesAllowed);
  check_dtype(t, dtype, args.initial_state ? ", as initial_state.dtype" : ", as final_state.dtype");
  check_device(t, args.q.device, "q");
  check_same(t, t.rank - 3, main.o.at(main.o.rank - 2), "o's H");
  for (const int axis : {t.rank - 2, t.rank - 1}) check_same(t, axis, main.q.at(main.q.rank - 1), "q's K");
  check_strides(t, kCopyAlignmentBytes, t.rank - 1);
  check_alignment(t, kCopyAlignmentBytes);
}

/// A pool and the list of its slots.
void check_pool(const Named& pool, const std::optional<Tensor>& slots, const char* name, const GatedDeltaRuleArgs& args,
                const Main& main) {
  check_state(pool, args, main);
  if (!slots) return check_same(pool, 0, main.sequences, "the number of sequences (or give slots)");
  const Named list{kOp, name, *slots, kSlots, 1, "[N]"};
  check_list(list, args.q.device);
  check_same(list, 0, main.sequences, "the number of sequences");
}

/// Scales of the rows of V of states, where these are e4m3; axes: those of states, without K.
void check_scales(const Named& scales, const Named& states, const char* like, const GatedDeltaRuleArgs& args,
                  const Main& main) {
  check_form(scales, (1u << (scales.rank - 2)) - 1);
  check_dtype(scales, DType::f32, "");
  check_device(scales, args.q.device, "q");
  const int last = scales.rank - 1;
  for (int axis = 0; axis < last; ++axis) check_same(scales, axis, states.at(axis), like);
  check_same(scales, last, main.q.at(main.q.rank - 1), "q's K (V and K are equal)");
  check_strides(scales, kCopyAlignmentBytes, last);
  check_alignment(scales, kCopyAlignmentBytes);
}

/// States, their scales, and the names of both.
struct Pair {
  const std::optional<Tensor>& states;
  const std::optional<Tensor>& scales;
  const char *name, *scales_name;
};

/// Scales are there where states of e4m3 are, and nowhere else.
void check_pair(const Pair& pair, const char* form) {
  if (pair.scales && !pair.states)
    refuse(kOp, Code::invalid_argument,
           cat(pair.scales_name, " is given without ", pair.name, "; allowed: both, or neither"));
  if (!pair.states) return;
  const bool scaled = pair.states->dtype == DType::e4m3;
  if (pair.scales.has_value() != scaled)
    refuse(kOp, Code::invalid_argument,
           cat(pair.scales_name, " is ", scaled ? "absent" : "given", " and ", pair.name, ".dtype is ",
               to_string(pair.states->dtype), "; allowed: ", scaled ? cat("f32 ", form) : "with states of e4m3 alone"));
}

Named initial_of(const GatedDeltaRuleArgs& args) {
  return {kOp, "initial_state", *args.initial_state, axes_of(args), 4, form_of(args)};
}
Named final_of(const GatedDeltaRuleArgs& args) {
  return {kOp, "final_state", *args.final_state, axes_of(args), 4, form_of(args)};
}
Named kept_of(const GatedDeltaRuleArgs& args) {
  return {kOp,
          "token_states",
          *args.token_states,
          args.state_transposed ? kTokensTransposed : kTokens,
          5,
          args.state_transposed ? "[N, L, H, K, V]" : "[N, L, H, V, K]"};
}
Named final_scales_of(const GatedDeltaRuleArgs& args) {
  return {kOp, "final_scales", *args.final_scales, kScales, 3, kScalesForm};
}
Named token_scales_of(const GatedDeltaRuleArgs& args) {
  return {kOp, "token_scales", *args.token_scales, kTokenScales, 4, kTokenScalesForm};
}

void check_shapes(const GatedDeltaRuleArgs& args, const Main& main) {
  if (args.initial_state) check_pool(initial_of(args), args.read_slots, "read_slots", args, main);
  if (args.initial_scales)
    check_scales({kOp, "initial_scales", *args.initial_scales, kScales, 3, kScalesForm}, initial_of(args),
                 "initial_state's shape", args, main);
  if (args.final_state) check_pool(final_of(args), args.write_slots, "write_slots", args, main);
  if (args.final_scales) check_scales(final_scales_of(args), final_of(args), "final_state's shape", args, main);
  if (args.token_states) {
    check_state(kept_of(args), args, main);
    check_same(kept_of(args), 0, main.sequences, "the number of sequences");
  }
  if (args.token_scales) check_scales(token_scales_of(args), kept_of(args), "token_states' shape", args, main);
}

/// States that change in place have scales that do.
bool in_place(const GatedDeltaRuleArgs& args) {
  if (!args.initial_state || !args.final_state || !same_memory(*args.initial_state, *args.final_state)) return false;
  if (args.final_scales && !same_memory(*args.initial_scales, *args.final_scales))
    refuse(
        kOp, Code::invalid_argument,
        "final_scales is not initial_scales, and final_state is initial_state; allowed: both in place, with the same "
        "address, shape and strides, or neither");
  return true;
}

}  // namespace

void check_type(const Named& t, bool right, const char* allowed) {
  if (!right)
    refuse(kOp, Code::unsupported, cat(t.name, ".dtype is ", to_string(t.tensor.dtype), "; allowed: ", allowed));
}

/// A list of i32 on the device, contiguous.
void check_list(const Named& t, const Device& device) {
  check_form(t, axis_bits({0}));
  check_dtype(t, DType::i32, "");
  check_device(t, device, "q");
  check_strides(t, size_of(DType::i32), 0);
  check_alignment(t, size_of(DType::i32));
}

void check_written(const GatedDeltaRuleArgs& args, const Named& t, const std::optional<Tensor>* may_be) {
  const Range range = range_of(t);
  check_no_self_overlap(t);
  const auto apart = [&](const Tensor& other, const char* name) {
    const Named named{kOp, name, other, t.axes, other.rank, ""};
    if (&other != &t.tensor) check_apart(t, range, named, range_of(named));
  };
  const auto apart_if = [&](const std::optional<Tensor>& other, const char* name) {
    if (other && &other != may_be) apart(*other, name);
  };
  apart(args.q, "q");
  apart(args.k, "k");
  apart(args.v, "v");
  apart(args.o, "o");
  apart_if(args.gate, "gate");
  apart_if(args.a_log, "a_log");
  apart_if(args.dt_bias, "dt_bias");
  apart_if(args.beta, "beta");
  apart_if(args.initial_state, "initial_state");
  apart_if(args.final_state, "final_state");
  apart_if(args.token_states, "token_states");
  apart_if(args.initial_scales, "initial_scales");
  apart_if(args.final_scales, "final_scales");
  apart_if(args.token_scales, "token_scales");
  apart_if(args.read_slots, "read_slots");
  apart_if(args.write_slots, "write_slots");
  apart_if(args.cu_seqlens, "cu_seqlens");
}

void check_states(const GatedDeltaRuleArgs& args, const Main& main) {
  for (const auto& [name, list, states] : {std::tuple{"read_slots", &args.read_slots, &args.initial_state},
                                           std::tuple{"write_slots", &args.write_slots, &args.final_state}})
    if (*list && !*states)
      refuse(kOp, Code::invalid_argument,
             cat(name, " is given without ", states == &args.initial_state ? "initial_state" : "final_state",
                 "; allowed: both, or neither"));
  check_pair({args.initial_state, args.initial_scales, "initial_state", "initial_scales"}, kScalesForm);
  check_pair({args.final_state, args.final_scales, "final_state", "final_scales"}, kScalesForm);
  check_pair({args.token_states, args.token_scales, "token_states", "token_scales"}, kTokenScalesForm);
  if (args.token_every < 1 || args.token_every > kMaxSize)
    refuse(kOp, Code::invalid_argument, cat("token_every is ", args.token_every, "; allowed: 1 to ", kMaxSize));
  if (args.token_every != 1 && !args.token_states)
    refuse(kOp, Code::invalid_argument,
           cat("token_every is ", args.token_every, " without token_states; allowed: both, or 1"));
  if (!(args.negligible >= 0 && args.negligible < 1))
    refuse(kOp, Code::invalid_argument,
           cat("negligible is ", args.negligible, "; allowed: 0 (exact), or a share above 0 and below 1"));
  if (args.negligible > 0 && (!args.gate || gates_channels(args)))
    refuse(kOp, Code::unsupported,
           cat("negligible is ", args.negligible, " and gate is ", args.gate ? "one for each key channel" : "absent",
               "; allowed: with a gate [.., T, H], or 0"));
  check_shapes(args, main);
  const bool own = in_place(args);
  if (args.final_state) check_written(args, final_of(args), own ? &args.initial_state : nullptr);
  if (args.final_scales) check_written(args, final_scales_of(args), own ? &args.initial_scales : nullptr);
  if (args.token_states) check_written(args, kept_of(args));
  if (args.token_scales) check_written(args, token_scales_of(args));
}

}  // namespace tj::ops::gated_delta_rule
