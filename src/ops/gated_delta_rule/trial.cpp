// Problems to check the gated delta rule by; see trial.hpp.
//
// Decides sizes and lists. Invariant: what serves a trial is the kernel that its flags name.
#include "ops/common/trial.hpp"
#include "ops/gated_delta_rule/fields.hpp"
#include "ops/gated_delta_rule/gated_delta_rule.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using gated_delta_rule::kFields;
using support::cat;

/// Sequences of so many tokens, or with lists: the first has one token fewer, and slots stand in reverse.
Trial trial_of(const GatedDeltaRuleKernel& kernel, const Sizes& sizes, bool listed) {
  const std::int64_t batch = sizes.at("batch"), each = sizes.at("tokens"), heads = sizes.at("heads"),
                     v_heads = sizes.at("v-heads"), width = kernel.head_dim, tokens = batch * each - 1;
  Trial trial;
  trial.name = cat(batch, " x ", each, " tokens, heads ", heads, " and ", v_heads, listed ? ", lists" : "");
  trial.kernel_flags = flags_of_fields<kFields>(kernel);
  trial.flags = cat(trial.kernel_flags, " ", sizes.flags());
  if (kernel.walk != WalkChoice::usual) trial.choice = static_cast<int>(kernel.walk);
  const auto shaped = [&](std::vector<std::int64_t> last) {
    std::vector<std::int64_t> shape = listed ? std::vector<std::int64_t>{tokens} : std::vector{batch, each};
    shape.insert(shape.end(), last.begin(), last.end());
    return shape;
  };
  trial.tensors = {dense("q", kernel.dtype, shaped({heads, width})),
                   dense("k", kernel.dtype, shaped({heads, width})),
                   dense("v", kernel.dtype, shaped({v_heads, width})),
                   dense("o", kernel.dtype, shaped({v_heads, width}), true),
                   dense("gate", DType::f32, shaped({v_heads})),
                   dense("beta", kernel.dtype, shaped({v_heads})),
                   dense("initial_state", kernel.state, {batch, v_heads, width, width}),
                   dense("final_state", kernel.state, {batch, v_heads, width, width}, true)};
  if (listed) {
    std::vector<std::int32_t> ends = {0}, slots;
    for (std::int64_t n = 0; n < batch; ++n) {
      ends.push_back(static_cast<std::int32_t>((n + 1) * each - 1));
      slots.push_back(static_cast<std::int32_t>(batch - 1 - n));
    }
    trial.tensors.push_back(list_of("read_slots", {batch}, slots));
    trial.tensors.push_back(list_of("write_slots", {batch}, slots));
    trial.tensors.push_back(list_of("cu_seqlens", {batch + 1}, ends));
  }
  trial.with_args = [transposed = kernel.state_transposed, tensors = trial.tensors](
                        Device device, std::span<void* const> places, const std::function<void(const void*)>& use) {
    const auto view = [&](std::size_t i) { return tensors[i].operand.view(device, places[i]); };
    GatedDeltaRuleArgs args;
    args.q = view(0);
    args.k = view(1);
    args.v = view(2);
    args.o = view(3);
    args.gate = view(4);
    args.beta = view(5);
    args.initial_state = view(6);
    args.final_state = view(7);
    if (tensors.size() > 8) {
      args.read_slots = view(8);
      args.write_slots = view(9);
      args.cu_seqlens = view(10);
    }
    args.normalise = true;
    args.beta_raw = true;
    args.state_transposed = transposed;
    use(&args);
  };
  return trial;
}

}  // namespace

std::vector<Trial> gated_delta_rule_trials(const Flags& given) {
  Flags flags = given;
  const Sizes sizes("gated_delta_rule", flags, {{"batch", 2}, {"tokens", 3}, {"heads", 1}, {"v-heads", 2}});
  std::vector<Trial> list;
  for (const GatedDeltaRuleKernel& kernel : kernels_of_flags<kFields, GatedDeltaRuleKernel>(
           "gated_delta_rule", flags, first_of_each(choices_of_fields<kFields>())))
    for (const bool listed : {false, true}) list.push_back(trial_of(kernel, sizes, listed));
  return list;
}

}  // namespace tj::ops
