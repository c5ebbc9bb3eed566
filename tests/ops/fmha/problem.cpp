// See fmha_problem.hpp.
#include "ops/fmha/problem.hpp"

#include <tilejit/ladder.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "common/half.hpp"
#include "common/random.hpp"
#include "support/fail.hpp"

namespace tj::test {
namespace {

constexpr std::size_t kGuard = 64;                // elements before and behind
constexpr std::uint16_t kPoison = 0x7fff;         // NaN in both 16-bit types
constexpr std::uint32_t kLsePoison = 0x7fc0dead;  // a NaN that no kernel writes
constexpr std::size_t kAlignElements = 8;         // 16 bytes

// First element behind the guard that is 16-byte aligned.
std::uint16_t* aligned(std::vector<std::uint16_t>& memory) {
  auto at = reinterpret_cast<std::uintptr_t>(memory.data() + kGuard);
  return reinterpret_cast<std::uint16_t*>((at + 15) / 16 * 16);
}

}  // namespace

std::string FmhaShape::text() const {
  return support::cat("B ", batch, " H ", heads, "/", heads_kv, " Sq ", seq_q, " Sk ", seq_k, " D ", head_dim, "/",
                      value_dim, " ", to_string(dtype), causal ? " causal" : " full", rows_first ? " BSHD" : " BHSD",
                      with_lse ? " lse" : "", shifted_o ? " o off 16 bytes" : "", " window ", window.left, " ",
                      window.right, top_left ? " top left" : "", " softcap ", softcap, " alibi ", alibi,
                      sinks ? " sinks" : "");
}

Tensor FmhaProblem::place(std::vector<std::uint16_t>& memory, int heads, int rows, int width, bool random,
                          std::uint64_t seed) {
  const auto d = static_cast<std::int64_t>(width);
  const std::size_t elements = static_cast<std::size_t>(shape_.batch) * static_cast<std::size_t>(heads) *
                               static_cast<std::size_t>(rows) * static_cast<std::size_t>(d);
  memory.assign(elements + 2 * kGuard + kAlignElements, kPoison);
  std::uint16_t* data = aligned(memory);
  if (random) {
    const auto values = samples::random_normal(elements, shape_.dtype, seed);
    std::copy(values.begin(), values.end(), data);
  }
  const Device cpu{DeviceKind::cpu, 0};
  const std::int64_t batch_stride = heads * rows * d;
  if (shape_.rows_first)
    return Tensor::strided(data, cpu, shape_.dtype, {shape_.batch, heads, rows, d}, {batch_stride, d, heads * d, 1});
  return Tensor::contiguous(data, cpu, shape_.dtype, {shape_.batch, heads, rows, d});
}

FmhaProblem::FmhaProblem(const FmhaShape& shape, std::uint64_t seed) : shape_(shape) {
  const int width = shape.head_dim, values = shape.value_dim != 0 ? shape.value_dim : width;
  args.q = place(q_, shape.heads, shape.seq_q, width, true, seed);
  args.k = place(k_, shape.heads_kv, shape.seq_k, width, true, seed + 1);
  args.v = place(v_, shape.heads_kv, shape.seq_k, values, true, seed + 2);
  args.o = place(o_, shape.heads, shape.seq_q, values, false, 0);
  if (shape.shifted_o) args.o.data = static_cast<std::uint16_t*>(args.o.data) + 1;
  args.causal = shape.causal;
  args.window = shape.window;
  args.top_left = shape.top_left;
  args.softcap = shape.softcap;
  add_heads(seed);
  if (!shape.with_lse) return;
  lse_.assign(static_cast<std::size_t>(shape.batch) * static_cast<std::size_t>(shape.heads) *
                      static_cast<std::size_t>(shape.seq_q) +
                  2 * kGuard,
              std::bit_cast<float>(kLsePoison));
  args.lse = Tensor::contiguous(lse_.data() + kGuard, {DeviceKind::cpu, 0}, DType::f32,
                                {shape.batch, shape.heads, shape.seq_q});
}

// Slopes as steep as those of 8 heads, 1/2 to 1/256; sinks far below and above scores, and none at all.
void FmhaProblem::add_heads(std::uint64_t seed) {
  const Device cpu{DeviceKind::cpu, 0};
  if (shape_.alibi > 0) {
    const int batches = shape_.alibi == 2 ? shape_.batch : 1;
    for (int i = 0; i < batches * shape_.heads; ++i)
      slopes_.push_back(
          std::exp2(-1.0f - static_cast<float>(samples::random_bits(seed, static_cast<std::uint64_t>(i)) % 8)));
    args.alibi_slopes = shape_.alibi == 2
                            ? Tensor::contiguous(slopes_.data(), cpu, DType::f32, {shape_.batch, shape_.heads})
                            : Tensor::contiguous(slopes_.data(), cpu, DType::f32, {shape_.heads});
  }
  if (!shape_.sinks) return;
  constexpr float kSinks[] = {1.5f, -3.0f, 90.0f, -std::numeric_limits<float>::infinity(), 4.0f};
  for (int i = 0; i < shape_.heads; ++i)
    sinks_.push_back(kSinks[(seed + static_cast<std::uint64_t>(i)) % std::size(kSinks)]);
  if (sinks_[0] > 50) sinks_[0] = kSinks[0];  // of one head it would leave results that f16 has no numbers for
  args.sinks = Tensor::contiguous(sinks_.data(), cpu, DType::f32, {shape_.heads});
}

void FmhaProblem::run(Runtime& runtime, Device device) {
  const auto call = [&](const FmhaArgs& with) { rung == 0 ? runtime.run(with) : Ladder(runtime).run(with, rung); };
  if (device.kind == DeviceKind::cpu) return call(args);
  const Device host{DeviceKind::cpu, 0};
  struct Copy {
    void* begin;
    std::size_t bytes;
    std::shared_ptr<void> memory;
  };
  const auto stage = [&](Tensor& tensor, void* begin, std::size_t bytes) {
    Copy copy{begin, bytes, runtime.allocate(device, bytes + 16)};
    // The same distance from a 16-byte boundary as on the host, so that the tensor is as aligned as there.
    char* target = static_cast<char*>(copy.memory.get()) + reinterpret_cast<std::uintptr_t>(begin) % 16;
    runtime.copy(target, device, begin, host, bytes);
    tensor.data = target + (static_cast<char*>(tensor.data) - static_cast<char*>(begin));
    tensor.device = device;
    return std::pair{copy, target};
  };
  FmhaArgs there = args;
  const auto q = stage(there.q, q_.data(), q_.size() * 2), k = stage(there.k, k_.data(), k_.size() * 2),
             v = stage(there.v, v_.data(), v_.size() * 2);
  const auto o = stage(there.o, o_.data(), o_.size() * 2);
  std::optional<std::pair<Copy, char*>> lse;
  std::optional<std::pair<Copy, char*>> slopes, sinks;
  if (there.alibi_slopes) slopes = stage(*there.alibi_slopes, slopes_.data(), slopes_.size() * 4);
  if (there.sinks) sinks = stage(*there.sinks, sinks_.data(), sinks_.size() * 4);
  if (there.lse) lse = stage(*there.lse, lse_.data(), lse_.size() * 4);
  call(there);
  runtime.synchronize(device);
  runtime.copy(o_.data(), host, o.second, device, o.first.bytes);
  if (lse) runtime.copy(lse_.data(), host, lse->second, device, lse->first.bytes);
}

std::string FmhaProblem::problem() const {
  const auto* first = static_cast<const std::uint16_t*>(args.o.data);
  const std::size_t elements =
      static_cast<std::size_t>(args.o.shape[0] * args.o.shape[1] * args.o.shape[2] * args.o.shape[3]);
  for (const std::uint16_t& element : o_) {
    const bool inside = &element >= first && &element < first + elements;
    if (!inside && element != kPoison) return "an element beside o was written";
    if (inside && std::isnan(samples::to_float(element, shape_.dtype)))
      return "an element of o was not written, or is NaN";
  }
  for (std::size_t i = 0; i < lse_.size(); ++i) {
    const bool inside = i >= kGuard && i < lse_.size() - kGuard;
    if (!inside && std::bit_cast<std::uint32_t>(lse_[i]) != kLsePoison) return "an element beside lse was written";
    if (inside && std::isnan(lse_[i])) return "an element of lse was not written, or is NaN";
  }
  const auto comparison = samples::compare_fmha(args, {.mods = mods});
  return comparison.within(shape_.dtype) ? std::string() : comparison.text(shape_.dtype);
}

}  // namespace tj::test
