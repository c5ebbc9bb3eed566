// Chunk output in f64; see chunk_o_reference.hpp.
#include "common/chunk_o_reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include <tilejit/ops.hpp>

#include "common/half.hpp"
#include "common/random.hpp"

namespace tj::samples {
namespace {

constexpr std::uint16_t kNan = 0x7fc0;

double dot(const std::uint16_t* a, const std::uint16_t* b) {
  double sum = 0;
  for (std::int64_t d = 0; d < kChunkDim; ++d)
    sum += static_cast<double>(bf16_to_float(a[d])) * static_cast<double>(bf16_to_float(b[d]));
  return sum;
}

/// Rows of 128, each of length 1 before it is rounded.
std::vector<std::uint16_t> unit_rows(std::size_t elements, std::uint64_t seed) {
  std::vector<std::uint16_t> values = random_normal(elements, DType::bf16, seed);
  for (std::size_t row = 0; row < elements; row += kChunkDim) {
    const auto length = static_cast<float>(std::sqrt(dot(&values[row], &values[row])));
    for (std::size_t d = row; d < row + kChunkDim; ++d) values[d] = float_to_bf16(bf16_to_float(values[d]) / length);
  }
  return values;
}

}  // namespace

std::vector<Chunk> chunks_of(const std::vector<std::int32_t>& cu_seqlens) {
  std::vector<Chunk> chunks;
  for (std::size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    const std::int64_t length = std::int64_t{cu_seqlens[s + 1]} - cu_seqlens[s];
    for (std::int64_t at = 0; at < length; at += kChunkTokens)
      chunks.push_back({static_cast<std::int32_t>(s), static_cast<std::int32_t>(at / kChunkTokens), cu_seqlens[s] + at,
                        std::min<std::int64_t>(kChunkTokens, length - at)});
  }
  return chunks;
}

ChunkOProblem random_chunk_o(const std::vector<std::int32_t>& lengths, std::int64_t heads, std::int64_t v_heads,
                             std::uint64_t seed) {
  ChunkOProblem p;
  p.heads = heads, p.v_heads = v_heads;
  for (const std::int32_t length : lengths) p.cu_seqlens.push_back(p.cu_seqlens.back() + length);
  const std::vector<Chunk> chunks = chunks_of(p.cu_seqlens);
  const auto tokens = static_cast<std::size_t>(p.tokens()), row = static_cast<std::size_t>(v_heads * kChunkDim);
  p.q = unit_rows(tokens * static_cast<std::size_t>(heads * kChunkDim), seed);
  p.k = unit_rows(tokens * static_cast<std::size_t>(heads * kChunkDim), seed + 1);
  p.v_new = random_normal(chunks.size() * kChunkTokens * row, DType::bf16, seed + 2);
  p.h = random_normal(chunks.size() * row * kChunkDim, DType::bf16, seed + 3);
  p.g_cu.resize(tokens * static_cast<std::size_t>(v_heads));
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const std::size_t begin = c * kChunkTokens, used = begin + static_cast<std::size_t>(chunks[c].tokens);
    std::fill(p.v_new.begin() + static_cast<std::ptrdiff_t>(used * row),
              p.v_new.begin() + static_cast<std::ptrdiff_t>((begin + kChunkTokens) * row), kNan);
    for (std::int64_t i = 0; i < chunks[c].tokens; ++i)
      for (std::int64_t head = 0; head < v_heads; ++head) {
        const auto at = static_cast<std::size_t>((chunks[c].token + i) * v_heads + head);
        const float gate = -0.1f * static_cast<float>(random_bits(seed + 4, at) >> 40) * 0x1p-24f;
        p.g_cu[at] = gate + (i > 0 ? p.g_cu[at - static_cast<std::size_t>(v_heads)] : 0.0f);
      }
  }
  return p;
}

void chunk_o_row(const ChunkOProblem& p, const Chunk& chunk, std::size_t c, std::int64_t row, std::int64_t v_head,
                 double* o) {
  const std::int64_t head = v_head / (p.v_heads / p.heads);
  const auto of_key_head = [&](const std::vector<std::uint16_t>& x, std::int64_t i) {
    return &x[static_cast<std::size_t>(((chunk.token + i) * p.heads + head) * kChunkDim)];
  };
  const auto gate = [&](std::int64_t i) {
    return static_cast<double>(p.g_cu[static_cast<std::size_t>((chunk.token + i) * p.v_heads + v_head)]);
  };
  const std::uint16_t* q = of_key_head(p.q, row);
  const std::uint16_t* h =
      &p.h[(c * static_cast<std::size_t>(p.v_heads) + static_cast<std::size_t>(v_head)) * kChunkDim * kChunkDim];
  for (std::int64_t v = 0; v < kChunkDim; ++v) o[v] = std::exp(gate(row)) * dot(q, h + v * kChunkDim);
  for (std::int64_t j = 0; j <= row; ++j) {
    const double weight = dot(q, of_key_head(p.k, j)) * std::exp(gate(row) - gate(j));
    const std::uint16_t* v_new =
        &p.v_new[((c * kChunkTokens + static_cast<std::size_t>(j)) * static_cast<std::size_t>(p.v_heads) +
                  static_cast<std::size_t>(v_head)) *
                 kChunkDim];
    for (std::int64_t v = 0; v < kChunkDim; ++v) o[v] += weight * static_cast<double>(bf16_to_float(v_new[v]));
  }
  for (std::int64_t v = 0; v < kChunkDim; ++v) o[v] *= p.scale;
}

ChunkOComparison compare_chunk_o(const ChunkOProblem& p, const std::vector<std::uint16_t>& o, std::uint64_t seed,
                                 std::int64_t most_rows) {
  const std::vector<Chunk> chunks = chunks_of(p.cu_seqlens);
  ChunkOComparison result;
  result.rows_total = p.tokens() * p.v_heads;
  double difference = 0, reference = 0;
  std::uint64_t counted = 0;
  for (std::size_t c = 0; c < chunks.size(); ++c)
    for (std::int64_t row = 0; row < chunks[c].tokens; ++row)
      for (std::int64_t head = 0; head < p.v_heads; ++head) {
        const double chance = static_cast<double>(random_bits(seed, counted++) >> 11) * 0x1p-53;
        if (result.rows_total > most_rows &&
            chance * static_cast<double>(result.rows_total) >= static_cast<double>(most_rows))
          continue;
        double wanted[kChunkDim];
        chunk_o_row(p, chunks[c], c, row, head, wanted);
        const std::uint16_t* got =
            &o[static_cast<std::size_t>(((chunks[c].token + row) * p.v_heads + head) * kChunkDim)];
        for (std::int64_t v = 0; v < kChunkDim; ++v) {
          const double off = std::abs(static_cast<double>(bf16_to_float(got[v])) - wanted[v]);
          const double counts = std::isfinite(off) ? off : std::numeric_limits<double>::infinity();
          result.largest = std::max(result.largest, counts);
          difference += counts * counts;
          reference += wanted[v] * wanted[v];
        }
        ++result.rows;
      }
  if (difference > 0) result.error = std::sqrt(difference / reference);
  return result;
}

double chunk_o_bytes(const ChunkOProblem& p) {
  const auto tokens = static_cast<double>(p.tokens()), v_heads = static_cast<double>(p.v_heads);
  return tokens * (2.0 * 2 * static_cast<double>(p.heads) * kChunkDim + 2.0 * 2 * v_heads * kChunkDim + 4 * v_heads) +
         2.0 * static_cast<double>(p.h.size());
}

std::string ChunkOComparison::text() const {
  char text[160];
  std::snprintf(text, sizeof text, "error %.1e (limit %.1e), largest difference %.1e, %lld of %lld rows compared",
                error, kMaxChunkOError, largest, static_cast<long long>(rows), static_cast<long long>(rows_total));
  return text;
}

}  // namespace tj::samples
