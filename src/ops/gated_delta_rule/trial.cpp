// Problems to check the gated delta rule by; see trial.hpp.
//
// Decides sizes and lists. Invariant: what serves a trial is the kernel that its flags name.
#include <algorithm>
#include <functional>
#include <string>

#include "ops/common/trial.hpp"
#include "ops/gated_delta_rule/fields.hpp"
#include "ops/gated_delta_rule/gated_delta_rule.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using gated_delta_rule::kFields;
using support::cat;

/// The call of a trial's tensors, which are listed in trial_of().
GatedDeltaRuleArgs args_of(const GatedDeltaRuleKernel& kernel, const std::vector<TrialTensor>& tensors, Device device,
                           std::span<void* const> places) {
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
  std::size_t lists = 8;
  if (kernel.state == DType::e4m3) {
    args.initial_scales = view(lists++);
    args.final_scales = view(lists++);
  }
  if (tensors.size() > lists) {
    args.read_slots = view(lists);
    args.write_slots = view(lists + 1);
    args.cu_seqlens = view(lists + 2);
  }
  args.normalise = true;
  args.beta_raw = true;
  args.state_transposed = kernel.state_transposed;
  return args;
}

/// Sequences of equal lengths are a batch; others have lists, and their slots stand in reverse.
Trial trial_of(const GatedDeltaRuleKernel& kernel, const Sizes& sizes, const std::vector<std::int64_t>& lengths) {
  const std::int64_t heads = sizes.at("heads"), v_heads = sizes.at("v-heads"), width = kernel.head_dim;
  const auto batch = static_cast<std::int64_t>(lengths.size());
  const bool listed = std::adjacent_find(lengths.begin(), lengths.end(), std::not_equal_to<>()) != lengths.end();
  std::vector<std::int32_t> ends = {0}, slots;
  std::string text;
  for (const std::int64_t length : lengths) {
    slots.push_back(static_cast<std::int32_t>(batch) - 1 - static_cast<std::int32_t>(slots.size()));
    ends.push_back(static_cast<std::int32_t>(ends.back() + length));
    text += cat(text.empty() ? "" : ",", length);
  }
  const std::int64_t tokens = std::max(1, ends.back());
  Trial trial;
  trial.name = cat("lengths ", text, ", heads ", heads, " and ", v_heads);
  trial.kernel_flags = flags_of_fields<kFields>(kernel);
  trial.flags = cat(trial.kernel_flags, " ", sizes.flags(), " --lengths ", text);
  if (kernel.walk != WalkChoice::usual) trial.choice = static_cast<int>(kernel.walk);
  const auto shaped = [&](std::vector<std::int64_t> last) {
    std::vector<std::int64_t> shape =
        listed ? std::vector<std::int64_t>{tokens} : std::vector{batch, std::max<std::int64_t>(1, lengths[0])};
    shape.insert(shape.end(), last.begin(), last.end());
    return shape;
  };
  trial.tensors = {dense("q", kernel.dtype, shaped({heads, width})),
                   dense("k", kernel.dtype, shaped({heads, width})),
                   dense("v", kernel.dtype, shaped({v_heads, width})),
                   dense("o", kernel.dtype, shaped({v_heads, width}), true),
                   dense("gate", DType::f32, kernel.channel_gate ? shaped({v_heads, width}) : shaped({v_heads})),
                   dense("beta", kernel.dtype, shaped({v_heads})),
                   dense("initial_state", kernel.state, {batch, v_heads, width, width}),
                   dense("final_state", kernel.state, {batch, v_heads, width, width}, true)};
  if (kernel.state == DType::e4m3) {
    trial.tensors.push_back(dense("initial_scales", DType::f32, {batch, v_heads, width}));
    trial.tensors.push_back(dense("final_scales", DType::f32, {batch, v_heads, width}, true));
  }
  if (listed) {
    trial.tensors.push_back(list_of("read_slots", {batch}, slots));
    trial.tensors.push_back(list_of("write_slots", {batch}, slots));
    trial.tensors.push_back(list_of("cu_seqlens", {batch + 1}, ends));
  }
  trial.with_args = [kernel, tensors = trial.tensors](Device device, std::span<void* const> places,
                                                      const std::function<void(const void*)>& use) {
    const GatedDeltaRuleArgs args = args_of(kernel, tensors, device, places);
    use(&args);
  };
  return trial;
}

}  // namespace

std::vector<Trial> gated_delta_rule_trials(const Flags& given) {
  Flags flags = given;
  const Sizes sizes("gated_delta_rule", flags, {{"heads", 1}, {"v-heads", 2}});
  const std::vector<std::int64_t> given_lengths = take_list(flags, "lengths", {});
  std::vector<std::vector<std::int64_t>> all = {given_lengths};
  if (given_lengths.empty()) all = {{3, 3}, {2, 0, 3}};
  std::vector<Trial> list;
  for (const GatedDeltaRuleKernel& kernel : kernels_of_flags<kFields, GatedDeltaRuleKernel>(
           "gated_delta_rule", flags, first_of_each(choices_of_fields<kFields>())))
    for (const std::vector<std::int64_t>& lengths : all) list.push_back(trial_of(kernel, sizes, lengths));
  return list;
}

}  // namespace tj::ops
