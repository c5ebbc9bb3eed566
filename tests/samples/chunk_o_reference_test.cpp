// Protects the f64 reference of chunk output: it agrees with the recurrence of the gated delta rule, token by token;
// the metric sees wrong, missing and non-finite results; random problems hold what they promise.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/chunk_o_reference.hpp"
#include "common/half.hpp"
#include "common/random.hpp"

using namespace tj::samples;

namespace {

constexpr auto kDim = static_cast<std::size_t>(kChunkDim);
using State = std::vector<double>;  // V x K

double at(const std::vector<std::uint16_t>& x, std::size_t i) { return static_cast<double>(bf16_to_float(x[i])); }

/// o of the problem from the reference, rounded.
std::vector<std::uint16_t> solved(const ChunkOProblem& p) {
  std::vector<std::uint16_t> o(static_cast<std::size_t>(p.tokens() * p.v_heads) * kDim);
  const auto chunks = chunks_of(p.cu_seqlens);
  for (std::size_t c = 0; c < chunks.size(); ++c)
    for (std::int64_t row = 0; row < chunks[c].tokens; ++row)
      for (std::int64_t head = 0; head < p.v_heads; ++head) {
        double wanted[kDim];
        chunk_o_row(p, chunks[c], c, row, head, wanted);
        for (std::size_t v = 0; v < kDim; ++v)
          o[static_cast<std::size_t>((chunks[c].token + row) * p.v_heads + head) * kDim + v] =
              float_to_bf16(static_cast<float>(wanted[v]));
      }
  return o;
}

/// Runs the recurrence over the problem's q, k and gates with random v and beta; writes v_new and h as the chunk form's
/// earlier kernels leave them, and returns o.
std::vector<double> recurrence(ChunkOProblem& p, std::uint64_t seed) {
  std::vector<double> o(static_cast<std::size_t>(p.tokens() * p.v_heads) * kDim);
  const auto chunks = chunks_of(p.cu_seqlens);
  const auto v_heads = static_cast<std::size_t>(p.v_heads);
  const auto values = random_normal(o.size(), tj::DType::bf16, seed);
  for (std::size_t head = 0; head < v_heads; ++head) {
    State state(kDim * kDim);
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      if (chunks[c].index == 0) std::fill(state.begin(), state.end(), 0.0);
      for (std::size_t i = 0; i < kDim * kDim; ++i)
        p.h[(c * v_heads + head) * kDim * kDim + i] = float_to_bf16(static_cast<float>(state[i]));
      for (std::size_t row = 0; row < static_cast<std::size_t>(chunks[c].tokens); ++row) {
        const std::size_t token = static_cast<std::size_t>(chunks[c].token) + row, gate = token * v_heads + head;
        const std::size_t key =
            (token * static_cast<std::size_t>(p.heads) + head / (v_heads / static_cast<std::size_t>(p.heads))) * kDim;
        const double decay =
            std::exp(static_cast<double>(p.g_cu[gate]) - (row > 0 ? static_cast<double>(p.g_cu[gate - v_heads]) : 0.0));
        const double beta = 0.1 + 0.8 * static_cast<double>(random_bits(seed + 1, gate) >> 11) * 0x1p-53;
        for (std::size_t v = 0; v < kDim; ++v) {
          double known = 0, out = 0;
          double* s = &state[v * kDim];
          for (std::size_t d = 0; d < kDim; ++d) known += (s[d] *= decay) * at(p.k, key + d);
          const double change = beta * (at(values, gate * kDim + v) - known);
          for (std::size_t d = 0; d < kDim; ++d) out += (s[d] += change * at(p.k, key + d)) * at(p.q, key + d);
          p.v_new[((c * 64 + row) * v_heads + head) * kDim + v] = float_to_bf16(static_cast<float>(change));
          o[gate * kDim + v] = p.scale * out;
        }
      }
    }
  }
  return o;
}

}  // namespace

TEST_CASE("the chunk form and the recurrence agree but for the rounding of states and values") {
  ChunkOProblem p = random_chunk_o({70, 0, 1, 130}, 2, 4, 11);
  const std::vector<double> wanted = recurrence(p, 5);
  const std::vector<std::uint16_t> o = solved(p);
  double difference = 0, reference = 0;
  for (std::size_t i = 0; i < o.size(); ++i) {
    difference += std::pow(at(o, i) - wanted[i], 2);
    reference += wanted[i] * wanted[i];
  }
  CHECK(std::sqrt(difference / reference) < 4e-3);
  CHECK(std::sqrt(difference / reference) > 1e-5);
}

TEST_CASE("chunks of sequences, and what a random problem holds") {
  const ChunkOProblem p = random_chunk_o({64, 0, 65}, 1, 3, 3);
  const auto chunks = chunks_of(p.cu_seqlens);
  REQUIRE(chunks.size() == 3);
  CHECK(chunks[1].sequence == 2);
  CHECK(chunks[1].token == 64);
  CHECK(chunks[2].index == 1);
  CHECK(chunks[2].tokens == 1);
  CHECK(p.v_new.size() == 3 * 64 * 3 * kDim);
  CHECK(std::isnan(at(p.v_new, (2 * 64 + 1) * 3 * kDim)));
  CHECK(!std::isnan(at(p.v_new, 2 * 64 * 3 * kDim)));
  double length = 0;
  for (std::size_t d = 0; d < kDim; ++d) length += at(p.q, 100 * kDim + d) * at(p.q, 100 * kDim + d);
  CHECK(std::abs(length - 1) < 1e-2);
  CHECK(p.g_cu[3 * 63] < p.g_cu[3 * 1]);
  CHECK(p.g_cu[3 * 64] > p.g_cu[3 * 63]);  // summed up anew
  CHECK(chunk_o_bytes(random_chunk_o({128}, 16, 32, 1)) == 128 * 41088.0);
}

TEST_CASE("the metric sees what is wrong, missing or not finite, and says how much it looked at") {
  const ChunkOProblem p = random_chunk_o({65, 10}, 1, 2, 9);
  const std::vector<std::uint16_t> right = solved(p);
  const ChunkOComparison exact = compare_chunk_o(p, right, 1);
  CHECK(exact.within());
  CHECK(exact.rows == 150);
  CHECK(exact.rows_total == 150);
  CHECK(exact.text().find("150 of 150 rows") != std::string::npos);
  const ChunkOComparison some = compare_chunk_o(p, right, 1, 40);
  CHECK(some.rows > 10);
  CHECK(some.rows < 90);
  std::vector<std::uint16_t> wrong = right;
  for (std::size_t d = 0; d < kDim; ++d) std::swap(wrong[d], wrong[5 * kDim + d]);
  CHECK(!compare_chunk_o(p, wrong, 1).within());
  wrong = right;
  wrong[7] = 0xffff;
  CHECK(std::isinf(compare_chunk_o(p, wrong, 1).error));
}
