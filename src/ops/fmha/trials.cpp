// See trials.hpp.
#include "ops/fmha/trials.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/fmha/fields.hpp"
#include "ops/fmha/mask.hpp"
#include "ops/fmha/mods.hpp"
#include "ops/fmha/scores.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr std::int64_t kTrialSequences = 3;

/// Begins of three sequences that have so many rows: most of them, few or none, and the others.
TrialTensor begins_of(const char* name, std::int64_t rows, std::int64_t few) {
  const std::int64_t first = rows * 2 / 3, second = first + std::min(few, rows - first);
  return list_of(
      name, {kTrialSequences + 1},
      {0, static_cast<std::int32_t>(first), static_cast<std::int32_t>(second), static_cast<std::int32_t>(rows)});
}

/// Pages that a sequence of a trial may have.
std::int64_t trial_pages(const FmhaKernel& config, std::int64_t keys) {
  return (keys + config.page_size - 1) / config.page_size;
}
/// Pages of all sequences, the last first.
TrialTensor table_of(const FmhaKernel& config, std::int64_t keys) {
  const std::int64_t pages = trial_pages(config, keys);
  std::vector<std::int32_t> table(static_cast<std::size_t>(kTrialSequences * pages));
  std::iota(table.rbegin(), table.rend(), 0);
  return list_of("block_table", {kTrialSequences, pages}, table);
}

/// Tensors of a kernel's calls; rows of all sequences lie one behind the other.
std::vector<TrialTensor> trial_tensors(const FmhaKernel& config, const Sizes& sizes) {
  const auto rows = [&](const char* name, const char* heads, const char* length, std::int64_t width) {
    const std::int64_t batch = sizes.at("batch"), h = sizes.at(heads), s = sizes.at(length), page = config.page_size;
    const bool written = std::string_view(name) == "o";
    if (page != 0 && heads == std::string_view("kv-heads"))
      return dense(name, config.dtype, {kTrialSequences * trial_pages(config, batch * s), page, h, width});
    const DType dtype = written && config.out_f32 && !config.packed ? DType::f32 : config.dtype;
    return config.varlen ? dense(name, dtype, {batch * s, h, width}, written)
                         : dense(name, dtype, {batch, h, s, width}, written);
  };
  const int values = fmha_value_dim(config);
  return {rows("q", "heads", "seq-q", config.head_dim), rows("k", "kv-heads", "seq-k", config.head_dim),
          rows("v", "kv-heads", "seq-k", values), rows("o", "heads", "seq-q", values)};
}

/// A buffer that texts read: documents of 100 keys, by their numbers.
TrialTensor trial_params(std::int64_t batch, std::int64_t keys) {
  std::vector<std::int32_t> documents(static_cast<std::size_t>(batch * keys));
  for (std::size_t i = 0; i < documents.size(); ++i) documents[i] = static_cast<std::int32_t>(i / 100);
  return list_of("mod_params", {batch * keys}, documents);
}

}  // namespace

Trial fmha_trial(const FmhaKernel& config, const Sizes& sizes, bool usual) {
  const std::int64_t batch = sizes.at("batch"), heads = sizes.at("heads"), kv = sizes.at("kv-heads"),
                     queries = sizes.at("seq-q"), keys = sizes.at("seq-k");
  Trial trial;
  trial.name = cat("B ", batch, " H ", heads, "/", kv, " Sq ", queries, " Sk ", keys);
  trial.kernel_flags = flags_of_fields<kFmhaFields>(config);
  for (const auto& [name, text] : mods_fields(config)) trial.kernel_flags += cat(" --", name, " '", text, "'");
  trial.flags = trial.kernel_flags + " " + sizes.flags();
  // Packed kernels that write f32 serve parts of the keys.
  const int parts = !config.packed ? 0 : config.out_f32 ? 3 : 1;
  const int choice = FmhaChoice{config.rung, config.walk, config.tile, parts, config.ranges, config.pieces}.number();
  // A workload is timed as calls take it, unless its flags ask for more. A trial runs the kernel that its flags name.
  if (!usual || choice != FmhaChoice().number()) trial.choice = choice;
  trial.tensors = trial_tensors(config, sizes);
  const auto beside = [&](bool given, TrialTensor tensor) {
    if (given) trial.tensors.push_back(std::move(tensor));
  };
  beside(!usual, config.varlen ? dense("lse", DType::f32, {heads, batch * queries}, true)
                               : dense("lse", DType::f32, {batch, heads, queries}, true));
  beside(config.alibi, dense("alibi_slopes", DType::f32, {heads}));
  beside(config.sinks, dense("sinks", DType::f32, {heads}));
  beside(config.bias != FmhaBias::none,
         dense("bias", config.bias == FmhaBias::f32 ? DType::f32 : config.dtype, {1, heads, queries, keys}));
  beside(has_mods(config), trial_params(batch, keys));
  beside(config.varlen, begins_of("cu_seqlens_q", batch * queries, 0));
  beside(config.varlen, begins_of("cu_seqlens_k", batch * keys, 5));
  if (config.page_size != 0) trial.tensors.push_back(table_of(config, batch * keys));
  trial.with_args = [config, usual, tensors = trial.tensors](Device device, std::span<void* const> places,
                                                             const std::function<void(const void*)>& use) {
    const auto tensor = [&](std::size_t i) { return tensors[i].operand.view(device, places[i]); };
    FmhaArgs args;
    args.q = tensor(0), args.k = tensor(1), args.v = tensor(2), args.o = tensor(3);
    set_mask(args, config);
    set_scores(args, config, usual);
    std::size_t next = 4;
    if (!usual) args.lse = tensor(next++);
    if (config.alibi) args.alibi_slopes = tensor(next++);
    if (config.sinks) args.sinks = tensor(next++);
    if (config.bias != FmhaBias::none) args.bias = tensor(next++);
    if (has_mods(config)) args.mod_params = tensor(next++);
    if (config.varlen) args.cu_seqlens_q = tensor(next++), args.cu_seqlens_k = tensor(next++);
    if (config.page_size != 0) args.block_table = tensor(next++);
    use(&args);
  };
  return trial;
}

}  // namespace tj::ops
