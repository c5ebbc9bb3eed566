// See parts.hpp.
#include "ops/fmha/parts.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/fmha/family.hpp"
#include "ops/fmha/sequences.hpp"
#include "ops/merge_states/merge_states.hpp"
#include "support/index.hpp"

namespace tj::ops {
namespace {

using support::at;

constexpr int kPackedRows = 64, kPackedKeys = 128;  // of a tile
constexpr int kMostParts = 128;
// A tile begins and ends in 2.6 us in which its block reads little, and so does a second launch that merges. A block
// alone reads at most twice its share of the memory's rate. Source: tests/gpu/fmha_features.py --times decode on an
// H200, 2026-11-29, 32/8 heads, D 128. Half a wave of blocks, one, two and four were timed.
constexpr double kTileCycles = 4500, kLaunchCycles = 4500, kAlone = 2;

int shift_of(std::int64_t group) { return std::bit_width(static_cast<std::uint64_t>(group - 1)); }

double up(double value, double by) { return std::ceil(value / by); }

/// Cycles of a call in so many parts.
struct Cost {
  double tiles, blocks;  ///< of rows of all heads; of keys, at most
  double block_cycles;   ///< a block of keys and of values at the whole memory's rate
  double merged_cycles;  ///< outputs of one part, written and read
  double sms;
  double operator()(int parts) const {
    const double all = tiles * parts, each = up(blocks, parts), full = std::floor(all / sms), last = all - full * sms;
    const double merge = parts > 1 ? kLaunchCycles + merged_cycles * parts : 0;
    return full * wave(sms, each) + (last > 0 ? wave(last, each) : 0) + merge;
  }
  double wave(double active, double each) const {
    return kTileCycles + each * block_cycles * std::max(active, sms / kAlone);
  }
};

}  // namespace

int fmha_group_shift(const FmhaArgs& args) {
  // Dimensions are [B, H, S, D]; as_batch() makes lists so.
  return shift_of(args.q.shape[1] / args.k.shape[1]);
}

bool has_packed_kernels(const arch::Arch& arch) {
  const FmhaFamily* const family = find_fmha_family(arch);
  return family != nullptr && family->packs;
}

int choose_fmha_parts(const FmhaKernel& kernel, const FmhaSizes& sizes, std::int64_t max_sms, const arch::Arch& arch) {
  const bool usual = kernel.rung == kNoFmhaRung && kernel.walk == WalkChoice::usual && kernel.tile == kUsualFmhaTile;
  const bool sized = sizes.kv_heads > 0;  // a configuration alone has no sizes
  if (!has_packed_kernels(arch) || !usual || !sized || max_sms != 0) return 0;
  const std::int64_t group = std::int64_t{1} << shift_of(sizes.heads / sizes.kv_heads);
  const std::int64_t batch = sizes.sequences != 0 ? sizes.sequences : sizes.batch;
  const std::int64_t queries = sizes.sequences != 0 ? (sizes.queries + batch - 1) / batch : sizes.queries;
  if (queries > kPackedRows / group || sizes.queries > (std::int64_t{1} << 30) / group) return 0;
  const double width = kernel.head_dim + fmha_value_dim(kernel), rate = arch.fact("memory_bytes_per_cycle");
  const double heads = static_cast<double>(batch) * static_cast<double>(sizes.kv_heads);
  const double rows = static_cast<double>(sizes.queries * sizes.heads) * static_cast<double>(sizes.batch);
  // Pages say how long a sequence may become. Other lists have keys of all sequences, each its share on the average.
  const bool shared = sizes.sequences != 0 && kernel.page_size == 0;
  const double keys = static_cast<double>(sizes.keys) / (shared ? static_cast<double>(batch) : 1.0);
  const Cost cost{heads, up(keys, kPackedKeys), kPackedKeys * width * 2 / rate,
                  rows * fmha_value_dim(kernel) * 8 / rate, static_cast<double>(arch.sm_count)};
  // Tiles, and what is merged, are counted in 32 bits.
  constexpr double kMost = 1 << 28;
  const double fit = rows * up(fmha_value_dim(kernel), kPackedKeys) < kMost ? kMost / heads : 1;
  const int most = static_cast<int>(std::min({double{kMostParts}, cost.blocks, fit}));
  int best = 1;
  for (int parts = 2; parts <= most; ++parts)
    if (cost(parts) < cost(best)) best = parts;
  return best;
}

std::size_t fmha_scratch_bytes(const FmhaArgs& args, int parts) {
  if (parts <= 1) return 0;
  const int rank = args.q.rank;
  std::size_t bytes = sizeof(float) * static_cast<std::size_t>(parts);
  for (int i = 0; i + 1 < rank; ++i) bytes *= static_cast<std::size_t>(args.q.shape[at(i)]);
  return bytes * static_cast<std::size_t>(args.v.shape[at(args.v.rank - 1)] + 1);
}

namespace {

/// Outputs of parts behind each other: [parts * T, H, Dv] and [H, parts * T], or [parts * B, H, S, Dv] and [.., H, S].
struct PartOutputs {
  Tensor o, lse;
};
PartOutputs part_outputs(const FmhaArgs& args, int parts, void* scratch) {
  const Device device = args.q.device;
  const auto& q = args.q.shape;
  const std::int64_t width = args.v.shape[at(args.v.rank - 1)];
  auto* const o = static_cast<float*>(scratch);
  if (has_sequences(args)) {
    float* const lse = o + parts * q[0] * q[1] * width;
    return {Tensor::contiguous(o, device, DType::f32, {parts * q[0], q[1], width}),
            Tensor::contiguous(lse, device, DType::f32, {q[1], parts * q[0]})};
  }
  float* const lse = o + parts * q[0] * q[1] * q[2] * width;
  return {Tensor::contiguous(o, device, DType::f32, {parts * q[0], q[1], q[2], width}),
          Tensor::contiguous(lse, device, DType::f32, {parts * q[0], q[1], q[2]})};
}

/// Parts as states; rows of sequences as [H, T].
MergeStatesArgs merge_of(const FmhaArgs& args, const PartOutputs& from, int parts) {
  const Device device = args.q.device;
  const auto& q = args.q.shape;
  const std::int64_t width = args.v.shape[at(args.v.rank - 1)];
  MergeStatesArgs merge;
  merge.lse = args.lse;
  merge.cu_seqlens = args.cu_seqlens_q;
  if (has_sequences(args)) {
    const std::int64_t t = q[0], h = q[1];
    merge.states =
        Tensor::strided(from.o.data, device, DType::f32, {parts, h, t, width}, {t * h * width, width, h * width, 1});
    merge.lse_states = Tensor::strided(from.lse.data, device, DType::f32, {parts, h, t}, {t, parts * t, 1});
    merge.o =
        Tensor::strided(args.o.data, device, args.o.dtype, {h, t, width}, {args.o.strides[1], args.o.strides[0], 1});
    return merge;
  }
  merge.states = Tensor::contiguous(from.o.data, device, DType::f32, {parts, q[0], q[1], q[2], width});
  merge.lse_states = Tensor::contiguous(from.lse.data, device, DType::f32, {parts, q[0], q[1], q[2]});
  merge.o = args.o;
  return merge;
}

}  // namespace

void fmha_steps(const FmhaArgs& args, const Kernel& kernel, void* scratch, const EachStep& each) {
  const int parts = FmhaChoice::of(kernel.choice).parts;
  const PartOutputs outputs = part_outputs(args, parts, scratch);
  FmhaArgs attention = args;
  attention.o = outputs.o;
  attention.lse = outputs.lse;
  each({&fmha_op(), &attention, kernel});
  const MergeStatesArgs merge = merge_of(args, outputs, parts);
  each({&merge_states_op(), &merge, {merge_states_small_key({DType::f32, args.o.dtype})}});
}

}  // namespace tj::ops
