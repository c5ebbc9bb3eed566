// See mask.hpp.
#include "ops/fmha/mask.hpp"

#include "ops/common/empty.hpp"
#include "ops/fmha/mods.hpp"

#include <algorithm>

namespace tj::ops {
namespace {

constexpr std::int64_t kTypicalWindow = 1024;

/// The window of a call whose kernel alone is known: shorter than its keys, so that it hides some.
FmhaWindow typical_window(std::int64_t keys, bool causal) {
  const std::int64_t left = std::clamp<std::int64_t>(keys / 3, 1, kTypicalWindow);
  return {left, causal ? FmhaWindow::kAll : left / 2};
}

/// No key is as far from a query as there are queries and keys.
int bounded(std::int64_t window, std::int64_t all) {
  return static_cast<int>(window == FmhaWindow::kAll ? all : std::min(window, all));
}

fmha::Mask mask(const FmhaConfig& config, std::int64_t queries, std::int64_t keys, bool top_left,
                const FmhaWindow& window) {
  const std::int64_t all = std::max(queries, keys);
  return {config.causal,
          config.windowed,
          static_cast<int>(queries),
          static_cast<int>(keys),
          static_cast<int>(top_left ? keys : queries),
          bounded(window.left, all),
          bounded(window.right, all),
          config.varlen || config.key_range.given(),
          0,
          has_mods(config) || has_bias(config)};
}

}  // namespace

void set_mask(FmhaConfig& config, const FmhaArgs& args) {
  config.causal = args.causal || args.window.right == 0;
  config.windowed = args.window.left != FmhaWindow::kAll || (!config.causal && args.window.right != FmhaWindow::kAll);
}

void set_mask(FmhaArgs& args, const FmhaConfig& config) {
  args.causal = config.causal;
  const auto& shape = args.k.shape;
  const std::int64_t keys = config.page_size != 0 ? shape[0] * shape[1] : config.varlen ? shape[0] : shape[2];
  args.window = config.windowed ? typical_window(keys, config.causal) : FmhaWindow{};
}

void set_mask(fmha::Params& params, const FmhaArgs& args) {
  const fmha::Mask mask = mask_of(args);
  params.queries = mask.queries;
  params.keys = mask.keys;
  params.facing = mask.facing;
  params.left = mask.left;
  params.right = mask.right;
}

fmha::Mask mask_of(const FmhaArgs& args) {
  FmhaConfig config;
  set_mask(config, args);
  config.varlen = args.cu_seqlens_q.has_value();
  set_mods(config, args);
  // The tensor of pages has one page's keys. A tensor without pages has no page that a table could name.
  const std::int64_t keys =
      is_empty(args.k) ? 0 : args.k.shape[2] * (args.block_table ? args.block_table->shape[1] : 1);
  return mask(config, args.q.shape[2], keys, args.top_left, args.window);
}

fmha::Mask mask_of(const FmhaConfig& config, std::int64_t queries, std::int64_t keys) {
  return mask(config, queries, keys, false, config.windowed ? typical_window(keys, config.causal) : FmhaWindow{});
}

double visible_keys(const fmha::Mask& mask) {
  double sum = 0;
  for (int row = 0; row < mask.queries; ++row) sum += std::max(0, mask.end_of(row) - mask.keys_of(row).first);
  return sum;
}

}  // namespace tj::ops
