// See chunk_o_problem.hpp.
#include "ops/chunk_o/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "common/half.hpp"
#include "common/random.hpp"
#include "support/fail.hpp"

namespace tj::test {
namespace {

constexpr int kWidth = 128;
constexpr std::size_t kGuardBytes = 256;
constexpr unsigned char kPoison = 0xff;  // NaN in bf16 and f32, no length
constexpr Device kCpu{DeviceKind::cpu, 0};

std::int64_t product(const std::vector<std::int64_t>& list) {
  return std::accumulate(list.begin(), list.end(), std::int64_t{1}, std::multiplies<>());
}
double uniform(std::uint64_t seed, std::uint64_t index) {
  return static_cast<double>(samples::random_bits(seed, index) >> 11) * 0x1p-53;
}

}  // namespace

std::string ChunkOShape::text() const {
  std::string list;
  for (std::size_t i = 0; i < lengths.size() && i < 12; ++i) list += support::cat(i == 0 ? "" : ",", lengths[i]);
  return support::cat("lengths ", list, lengths.size() > 12 ? ",..." : "", " H ", heads, "/", v_heads,
                      gated ? support::cat(" gates ", gate_scale) : " ungated", variable ? "" : " equal",
                      h_transposed ? " kv" : "", " lead ", lead, " tail ", tail, " padding ", padding, " spare ",
                      spare_chunks, " scale ", scale);
}

/// The first dimension's rows lie `padding` elements further apart than they need; all else is dense. Poisoned.
Tensor ChunkOProblem::place(Memory& memory, DType dtype, const std::vector<std::int64_t>& shape, int padding) {
  const auto element = static_cast<std::size_t>(size_of(dtype));
  const std::int64_t row = shape.size() == 1 ? 1 : product(shape) / shape[0] + padding;
  memory.bytes.assign(static_cast<std::size_t>(shape[0] * row) * element + 2 * kGuardBytes + 16, kPoison);
  Tensor& tensor = memory.tensor;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory.bytes.data()) + kGuardBytes + 15) / 16 * 16;
  tensor.data = reinterpret_cast<void*>(begin);
  tensor.device = kCpu;
  tensor.dtype = dtype;
  tensor.rank = static_cast<int>(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = i == 0 ? row : stride;
    stride *= shape[i];
  }
  return tensor;
}

void ChunkOProblem::fill(Memory& memory, double size, std::uint64_t seed) {
  const Tensor& t = memory.tensor;
  const std::int64_t rows = t.shape[0], inner = t.shape[1] * t.shape[2] * (t.rank == 4 ? t.shape[3] : 1);
  const auto values = samples::random_normal(static_cast<std::size_t>(rows * inner), DType::bf16, seed);
  auto* data = static_cast<std::uint16_t*>(t.data);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < inner; ++i)
      data[r * t.strides[0] + i] = samples::float_to_bf16(
          static_cast<float>(size) * samples::bf16_to_float(values[static_cast<std::size_t>(r * inner + i)]));
}

void ChunkOProblem::list_chunks() {
  std::vector<std::int32_t> ends = {shape_.lead}, indices;
  for (std::size_t s = 0; s < shape_.lengths.size(); ++s) {
    for (int at = 0; at < shape_.lengths[s]; at += kChunkTokens) {
      places_.push_back({ends.back() + at, std::min(kChunkTokens, shape_.lengths[s] - at)});
      indices.insert(indices.end(), {static_cast<std::int32_t>(s), at / kChunkTokens});
    }
    ends.push_back(ends.back() + shape_.lengths[s]);
  }
  tokens_ = std::max(1, ends.back() + shape_.tail);
  if (!shape_.variable) {
    args.seq_length = shape_.lengths.front();
    return;
  }
  const auto room = static_cast<std::int64_t>(places_.size()) + std::max(shape_.spare_chunks, places_.empty() ? 1 : 0);
  const auto put = [](Memory& memory, const std::vector<std::int32_t>& list) {
    if (!list.empty()) std::memcpy(memory.tensor.data, list.data(), list.size() * 4);
  };
  args.cu_seqlens = place(ends_, DType::i32, {static_cast<std::int64_t>(ends.size())}, 0);
  args.chunk_indices = place(indices_, DType::i32, {room, 2}, 0);
  args.total_chunks = place(total_, DType::i32, {1}, 0);
  put(ends_, ends);
  put(indices_, indices);
  put(total_, {static_cast<std::int32_t>(places_.size())});
}

/// Sums from each chunk's begin on.
void ChunkOProblem::set_gates(std::uint64_t seed) {
  args.g_cu = place(g_, DType::f32, {tokens_, shape_.v_heads}, 0);
  auto* data = static_cast<float*>(g_.tensor.data);
  for (const Place& chunk : places_)
    for (int head = 0; head < shape_.v_heads; ++head) {
      float sum = 0;
      for (int row = 0; row < chunk.rows; ++row) {
        const std::int64_t at = std::int64_t{chunk.token + row} * shape_.v_heads + head;
        sum -= static_cast<float>(2 * shape_.gate_scale * uniform(seed, static_cast<std::uint64_t>(at)));
        data[at] = sum;
      }
    }
}

/// Rows of v_new that no token has, states of no chunk, and tokens of no sequence hold NaN.
void ChunkOProblem::spoil_padding() {
  const auto spoil = [](Memory& memory, std::int64_t row) {
    auto* begin =
        static_cast<unsigned char*>(memory.tensor.data) + row * memory.tensor.strides[0] * size_of(memory.tensor.dtype);
    std::memset(begin, kPoison, static_cast<std::size_t>(memory.tensor.strides[0] * size_of(memory.tensor.dtype)));
  };
  for (std::int64_t row = 0; row < v_.tensor.shape[0]; ++row) {
    const auto chunk = static_cast<std::size_t>(row / kChunkTokens);
    if (chunk >= places_.size() || row % kChunkTokens >= places_[chunk].rows) spoil(v_, row);
  }
  for (auto chunk = static_cast<std::int64_t>(places_.size()); chunk < h_.tensor.shape[0]; ++chunk) spoil(h_, chunk);
  for (int token = 0; token < tokens_; ++token)
    if (token < shape_.lead || token >= tokens_ - shape_.tail)
      for (Memory* memory : {&q_, &k_}) spoil(*memory, token);
}

ChunkOProblem::ChunkOProblem(const ChunkOShape& shape, std::uint64_t seed) : shape_(shape) {
  list_chunks();
  const auto chunks = static_cast<std::int64_t>(places_.size()) + std::max(shape.spare_chunks, places_.empty() ? 1 : 0);
  args.q = place(q_, DType::bf16, {tokens_, shape.heads, kWidth}, shape.padding);
  args.k = place(k_, DType::bf16, {tokens_, shape.heads, kWidth}, shape.padding);
  args.v_new = place(v_, DType::bf16, {chunks * kChunkTokens, shape.v_heads, kWidth}, shape.padding);
  args.h = place(h_, DType::bf16, {chunks, shape.v_heads, kWidth, kWidth}, 0);
  args.o = place(o_, DType::bf16, {tokens_, shape.v_heads, kWidth}, shape.padding);
  fill(q_, 1 / std::sqrt(kWidth), seed);  // rows of about length 1
  fill(k_, 1 / std::sqrt(kWidth), seed + 1);
  fill(v_, 1, seed + 2);
  fill(h_, 0.5, seed + 3);
  if (shape.gated) set_gates(seed + 4);
  spoil_padding();
  args.h_transposed = shape.h_transposed;
  if (shape.scale != 0) args.scale = shape.scale;
}

void ChunkOProblem::run(Runtime& runtime, Device device) {
  if (device.kind == DeviceKind::cpu) return runtime.run(args);
  std::vector<std::shared_ptr<void>> kept;
  const auto stage = [&](Memory& memory, Tensor& tensor) {
    kept.push_back(runtime.allocate(device, memory.bytes.size() + 16));
    // The copy is as far from a 16-byte boundary as on the host.
    auto* begin =
        static_cast<unsigned char*>(kept.back().get()) + reinterpret_cast<std::uintptr_t>(memory.bytes.data()) % 16;
    runtime.copy(begin, device, memory.bytes.data(), kCpu, memory.bytes.size());
    tensor.data = begin + (static_cast<unsigned char*>(memory.tensor.data) - memory.bytes.data());
    tensor.device = device;
    return begin;
  };
  ChunkOArgs there = args;
  stage(q_, there.q), stage(k_, there.k), stage(v_, there.v_new), stage(h_, there.h);
  const unsigned char* o = stage(o_, there.o);
  if (there.g_cu) stage(g_, *there.g_cu);
  if (there.cu_seqlens)
    stage(ends_, *there.cu_seqlens), stage(indices_, *there.chunk_indices), stage(total_, *there.total_chunks);
  runtime.run(there);
  runtime.synchronize(device);
  runtime.copy(o_.bytes.data(), kCpu, o, device, o_.bytes.size());
}

double ChunkOProblem::value(const Memory& memory, std::int64_t a, std::int64_t b, std::int64_t c,
                            std::int64_t d) const {
  const Tensor& t = memory.tensor;
  return samples::bf16_to_float(static_cast<const std::uint16_t*>(
      t.data)[a * t.strides[0] + b * t.strides[1] + c * t.strides[2] + (t.rank == 4 ? d * t.strides[3] : 0)]);
}

double ChunkOProblem::reference(int chunk, int row, int head, std::vector<double>& o) const {
  const int token = places_[static_cast<std::size_t>(chunk)].token, key_head = head / (shape_.v_heads / shape_.heads);
  const auto gate = [&](int r) {
    return shape_.gated
               ? double{static_cast<const float*>(g_.tensor.data)[std::int64_t{token + r} * shape_.v_heads + head]}
               : 0;
  };
  const double scale = args.scale.value_or(1 / std::sqrt(static_cast<float>(kWidth)));
  std::vector<double> carried(kWidth, 0), applied(kWidth, 0);
  for (int v = 0; v < kWidth; ++v)
    for (int k = 0; k < kWidth; ++k)
      carried[static_cast<std::size_t>(v)] +=
          value(q_, token + row, key_head, k) *
          (shape_.h_transposed ? value(h_, chunk, head, k, v) : value(h_, chunk, head, v, k));
  for (int j = 0; j <= row; ++j) {
    double score = 0;
    for (int k = 0; k < kWidth; ++k) score += value(q_, token + row, key_head, k) * value(k_, token + j, key_head, k);
    score *= std::exp(gate(row) - gate(j));
    for (int v = 0; v < kWidth; ++v)
      applied[static_cast<std::size_t>(v)] += score * value(v_, std::int64_t{chunk} * kChunkTokens + j, head, v);
  }
  double size = 0;
  for (int v = 0; v < kWidth; ++v) {
    const auto at = static_cast<std::size_t>(v);
    const double first = scale * std::exp(gate(row)) * carried[at], second = scale * applied[at];
    o[at] = first + second;
    size += first * first + second * second;
  }
  return std::sqrt(size / kWidth);
}

std::string ChunkOProblem::check_written(int chunks) const {
  std::vector<char> inside(o_.bytes.size(), 0);
  const std::ptrdiff_t begin = static_cast<const unsigned char*>(o_.tensor.data) - o_.bytes.data();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const Place& place = places_[static_cast<std::size_t>(chunk)];
    for (int row = 0; row < place.rows; ++row) {
      const std::ptrdiff_t first = begin + std::ptrdiff_t{place.token + row} * o_.tensor.strides[0] * 2;
      std::fill_n(inside.begin() + first, shape_.v_heads * kWidth * 2, 1);
    }
  }
  for (std::size_t i = 0; i < inside.size(); ++i)
    if (inside[i] == 0 && o_.bytes[i] != kPoison)
      return support::cat("byte ", static_cast<std::ptrdiff_t>(i) - begin,
                          " of o was written, which is of no chunk that there is");
  return {};
}

std::string ChunkOProblem::problem(int chunks) const {
  if (std::string wrong = check_written(chunks); !wrong.empty()) return wrong;
  double errors = 0, sum = 0;
  std::vector<double> wanted(kWidth);
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (int row = 0; row < places_[static_cast<std::size_t>(chunk)].rows; ++row)
      for (int head = 0; head < shape_.v_heads; ++head) {
        const double size = reference(chunk, row, head, wanted);
        for (int v = 0; v < kWidth; ++v) {
          const double want = wanted[static_cast<std::size_t>(v)],
                       got = value(o_, places_[static_cast<std::size_t>(chunk)].token + row, head, v),
                       error = std::abs(got - want);
          errors += error * error;
          sum += want * want;
          // Half a unit of bf16, and what rounding 64 weights leaves of the row.
          if (!(error <= std::abs(want) / 256 + 0.02 * size + 1e-30))
            return support::cat("chunk ", chunk, " row ", row, " head ", head, " column ", v, ": ", got, " instead of ",
                                want);
        }
      }
  relative_rms_ = sum > 0 ? std::sqrt(errors / sum) : 0;
  return relative_rms_ <= 4e-3 ? std::string() : support::cat("relative RMS error ", relative_rms_, ", allowed 4e-3");
}

}  // namespace tj::test
