// Problems to check the gated delta rule in chunks by; see trial.hpp. Each is one launch, of all chunks; steps of
// segments cut each sequence into three.
#include <algorithm>
#include <functional>
#include <string>

#include "ops/common/trial.hpp"
#include "ops/delta_chunks/delta_chunks.hpp"
#include "ops/delta_chunks/fields.hpp"
#include "ops/delta_chunks/params.cuh"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using delta_chunks::kFields;
using support::cat;

/// Half of a record is numbers of f32, which are no numbers of another type. So results are words, and inputs elements.
TrialTensor records_of(const DeltaChunksKernel& kernel, std::int64_t count) {
  const std::int64_t bytes =
      std::int64_t{delta_chunks::record_rows(kernel.head_dim, kernel.channel_gate, kernel.delta)} *
      delta_chunks::kRowBytes;
  if (solves(kernel.step)) return dense("records", DType::i32, {count, bytes / 4}, true);
  return dense("records", kernel.dtype, {count, bytes / 2});
}

constexpr int kSegments = 3, kKept = 2;

/// The states of f32 that a step has between launches: before each segment, and what maps segments.
void add_between(const DeltaChunksKernel& kernel, std::int64_t heads, std::vector<TrialTensor>& tensors) {
  if (kernel.step != DeltaStep::map && kernel.step != DeltaStep::carry) return;
  const std::int64_t width = kernel.head_dim, units = 2 * kSegments - 3;
  tensors.push_back(dense("states", DType::f32, {heads * kSegments, width, width}, true));
  tensors.push_back(dense("maps", DType::f32, {heads * units, width, width}, kernel.step == DeltaStep::map));
}

bool writes_states(const DeltaChunksKernel& kernel) {
  return kernel.step == DeltaStep::state || kernel.step == DeltaStep::wide_state;
}

/// Scales of rows of V, with states of e4m3.
void add_scales(const DeltaChunksKernel& kernel, std::int64_t sequences, std::int64_t heads,
                std::vector<TrialTensor>& tensors) {
  if (kernel.state != DType::e4m3) return;
  const std::int64_t width = kernel.head_dim;
  tensors.push_back(dense("initial_scales", DType::f32, {sequences, heads, width}));
  tensors.push_back(dense("final_scales", DType::f32, {sequences, heads, width}, writes_states(kernel)));
  if (kernel.keeps) tensors.push_back(dense("token_scales", DType::f32, {sequences, kKept, heads, width}, true));
}

/// The call of a trial's tensors, which are listed in trial_of(); `scales`: the first one's number.
template <class View>
GatedDeltaRuleArgs call_of(const DeltaChunksKernel& kernel, std::size_t scales, const View& view) {
  GatedDeltaRuleArgs call;
  call.q = view(0);
  call.k = view(1);
  call.v = view(2);
  call.o = view(3);
  call.gate = view(4);
  call.beta = view(5);
  call.initial_state = view(6);
  call.final_state = view(7);
  call.cu_seqlens = view(9);
  call.normalise = call.beta_raw = true;
  call.delta = kernel.delta;
  call.state_transposed = kernel.state_transposed;
  if (kernel.keeps) {
    call.token_states = view(10);
    call.token_every = delta_chunks::kChunk;
  }
  if (kernel.state == DType::e4m3) {
    call.initial_scales = view(scales);
    call.final_scales = view(scales + 1);
    if (kernel.keeps) call.token_scales = view(scales + 2);
  }
  return call;
}

/// Listed sequences.
Trial trial_of(const DeltaChunksKernel& kernel, const Sizes& sizes, const std::vector<std::int64_t>& lengths) {
  const std::int64_t heads = sizes.at("heads"), v_heads = sizes.at("v-heads"), width = kernel.head_dim;
  const auto count = static_cast<std::int64_t>(lengths.size());
  std::vector<std::int32_t> ends = {0};
  std::string text;
  for (const std::int64_t length : lengths) {
    ends.push_back(static_cast<std::int32_t>(ends.back() + length));
    text += cat(text.empty() ? "" : ",", length);
  }
  const std::int64_t tokens = std::max(1, ends.back()), records = (tokens / delta_chunks::kChunk + count) * v_heads;
  const bool written = writes_states(kernel);
  Trial trial;
  trial.name = cat("lengths ", text, ", heads ", heads, " and ", v_heads);
  trial.kernel_flags = flags_of_fields<kFields>(kernel);
  trial.flags = cat(trial.kernel_flags, " ", sizes.flags(), " --lengths ", text);
  trial.tensors = {dense("q", kernel.dtype, {tokens, heads, width}),
                   dense("k", kernel.dtype, {tokens, heads, width}),
                   dense("v", kernel.dtype, {tokens, v_heads, width}),
                   dense("o", kernel.dtype, {tokens, v_heads, width}, written),
                   kernel.channel_gate ? dense("gate", DType::f32, {tokens, v_heads, width})
                                       : dense("gate", DType::f32, {tokens, v_heads}),
                   dense("beta", kernel.dtype, {tokens, v_heads}),
                   dense("initial_state", kernel.state, {count, v_heads, width, width}),
                   dense("final_state", kernel.state, {count, v_heads, width, width}, written),
                   records_of(kernel, records),
                   list_of("cu_seqlens", {count + 1}, ends)};
  add_between(kernel, count * v_heads, trial.tensors);
  if (kernel.keeps)
    trial.tensors.push_back(dense("token_states", kernel.state, {count, kKept, v_heads, width, width}, true));
  const std::size_t scales = trial.tensors.size();
  add_scales(kernel, count, v_heads, trial.tensors);
  const auto longest = static_cast<int>(*std::max_element(lengths.begin(), lengths.end()));
  const int chunks = std::max(1, (longest + delta_chunks::kChunk - 1) / delta_chunks::kChunk);
  trial.with_args = [kernel, chunks, scales, tensors = trial.tensors](Device device, std::span<void* const> places,
                                                                      const std::function<void(const void*)>& use) {
    const GatedDeltaRuleArgs call =
        call_of(kernel, scales, [&](std::size_t i) { return tensors[i].operand.view(device, places[i]); });
    DeltaChunksArgs args{call, kernel, {places[8]}};
    if (!kernel.keeps && scales > 10) {
      args.memory.states = static_cast<float*>(places[10]);
      args.memory.maps = static_cast<float*>(places[11]);
      args.segments = kSegments;
      args.range.count = (chunks + kSegments - 1) / kSegments;
    }
    use(&args);
  };
  return trial;
}

}  // namespace

std::vector<Trial> delta_chunks_trials(const Flags& given) {
  Flags flags = given;
  const Sizes sizes("delta_chunks", flags, {{"heads", 1}, {"v-heads", 2}});
  const std::vector<std::int64_t> given_lengths = take_list(flags, "lengths", {});
  std::vector<std::vector<std::int64_t>> all = {given_lengths};
  if (given_lengths.empty()) all = {{200}, {65, 0, 3}};
  std::vector<Trial> list;
  for (const DeltaChunksKernel& kernel :
       kernels_of_flags<kFields, DeltaChunksKernel>("delta_chunks", flags, first_of_each(choices_of_fields<kFields>())))
    if (delta_chunks_fits(kernel))
      for (const std::vector<std::int64_t>& lengths : all) list.push_back(trial_of(kernel, sizes, lengths));
  return list;
}

}  // namespace tj::ops
