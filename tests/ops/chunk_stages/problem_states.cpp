// The states' stage of problem.hpp.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "ops/chunk_stages/problem.hpp"
#include "support/model_runtime.hpp"

namespace tj::test {

void StageProblem::make_states(const Shaped& shaped, std::mt19937& random) {
  std::normal_distribution<double> normal;
  const double small = 0.3 / std::sqrt(static_cast<double>(shape_.width));
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(1, chunks().size()));
  const std::int64_t heads = shape_.heads, width = shape_.width;
  states.k = solve.k;
  states.w = make_tensor(given_w_, shape_.dtype, shaped({heads, width}), shape_.padding,
                         [&] { return small * normal(random); });
  states.u =
      make_tensor(given_u_, shape_.dtype, shaped({heads, width}), shape_.padding, [&] { return normal(random); });
  states.h = make_tensor(h_, shape_.dtype, {count, heads, width, width}, shape_.padding, {});
  states.v_new = shape_.by_tokens
                     ? make_tensor(v_new_, shape_.dtype, shaped({heads, width}), shape_.padding, {})
                     : make_tensor(v_new_, shape_.dtype, {count * kChunkTokens, heads, width}, shape_.padding, {});
  states.g_cu = solve.g_cu;
  if (shape_.initial)
    states.initial_state = make_tensor(initial_, shape_.state, {sequences(), heads, width, width}, shape_.padding,
                                       [&] { return normal(random); });
  states.final_state = make_tensor(final_, shape_.state, {sequences(), heads, width, width}, shape_.padding, {});
  states.cu_seqlens = cumsum.cu_seqlens;
  states.state_transposed = shape_.transposed;
  states.values_by_tokens = shape_.by_tokens;
}

double StageProblem::state_of(const Memory& memory, std::int64_t at, std::int64_t head, std::int64_t v,
                              std::int64_t k) const {
  return shape_.transposed ? memory.get({at, head, k, v}) : memory.get({at, head, v, k});
}

void StageProblem::compare_states(std::int64_t sequence, std::int64_t head, std::int64_t number, Error (&errors)[3],
                                  bool& padded) const {
  const std::int64_t width = shape_.width, k_head = head / (shape_.heads / shape_.k_heads);
  std::vector<double> s(static_cast<std::size_t>(width * width));
  const auto at = [&](std::int64_t v, std::int64_t k) -> double& { return s[static_cast<std::size_t>(v * width + k)]; };
  for (std::int64_t v = 0; v < width; ++v)
    for (std::int64_t k = 0; k < width; ++k) at(v, k) = shape_.initial ? state_of(initial_, sequence, head, v, k) : 0;
  for (const Chunk& chunk : chunks()) {
    if (chunk.sequence != sequence) continue;
    std::vector<double> changed = s;
    const double last = sum_of(chunk, chunk.first + chunk.rows - 1, head);
    for (double& number_of_s : changed) number_of_s *= std::exp(last);
    for (std::int64_t v = 0; v < width; ++v) {
      for (std::int64_t k = 0; k < width; ++k) errors[0].add(state_of(h_, number, head, v, k), at(v, k));
      for (std::int64_t i = 0; i < kChunkTokens; ++i) {
        const std::int64_t token = chunk.first + i;
        const bool inside = i < chunk.rows;
        if (!inside && shape_.by_tokens) continue;
        const double found = shape_.by_tokens ? element(v_new_, sequence, token, head, v)
                                              : v_new_.get({number * kChunkTokens + i, head, v});
        if (!inside) {
          padded = padded && found == 0;
          continue;
        }
        double wanted = element(given_u_, sequence, token, head, v);
        for (std::int64_t k = 0; k < width; ++k) wanted -= at(v, k) * element(given_w_, sequence, token, head, k);
        errors[1].add(found, wanted);
        const double kept = wanted * std::exp(last - sum_of(chunk, token, head));
        for (std::int64_t k = 0; k < width; ++k)
          changed[static_cast<std::size_t>(v * width + k)] += kept * element(k_, sequence, token, k_head, k);
      }
    }
    s = std::move(changed);
    ++number;
  }
  for (std::int64_t v = 0; v < width; ++v)
    for (std::int64_t k = 0; k < width; ++k) errors[2].add(state_of(final_, sequence, head, v, k), at(v, k));
}

std::string StageProblem::run_states(const std::string& target) {
  const std::string other = run_twice([&] { testing::model_runtime(target).run(states); }, {&h_, &v_new_, &final_});
  if (!other.empty()) return other;
  Error errors[3];
  bool padded = true;
  std::int64_t number = 0;
  for (std::int64_t n = 0; n < sequences(); ++n) {
    for (std::int64_t head = 0; head < shape_.heads; ++head) compare_states(n, head, number, errors, padded);
    for (const Chunk& chunk : chunks()) number += chunk.sequence == n ? 1 : 0;
  }
  const double limit = shape_.dtype == DType::bf16 ? 4e-3 : 8e-4, of_state = shape_.state == DType::bf16 ? 4e-3 : limit;
  for (const std::string& wrong :
       {errors[0].above("h", limit), errors[1].above("v_new", limit), errors[2].above("final_state", of_state),
        std::string(padded ? "" : "rows behind a chunk's tokens are not zero"),
        shape_.by_tokens ? check_gaps(v_new_, shape_.heads * shape_.width) : std::string()})
    if (!wrong.empty()) return wrong;
  return "";
}

std::string StageProblem::run_alike(const std::vector<std::int32_t>& one, const std::vector<std::int32_t>& other) {
  const std::pair<const char*, Memory*> results[] = {{"g_cu", &g_cu_}, {"a", &a_},         {"w", &w_},
                                                     {"u", &u_},       {"v_new", &v_new_}, {"final_state", &final_}};
  std::vector<std::vector<unsigned char>> first;
  for (const auto& list : {one, other}) {
    for (const auto& result : results) std::fill(result.second->bytes.begin(), result.second->bytes.end(), kPoison);
    ends = list;
    cumsum.cu_seqlens = solve.cu_seqlens = wu.cu_seqlens = states.cu_seqlens = list_tensor(ends);
    Runtime& runtime = testing::model_runtime();
    runtime.run(cumsum);
    runtime.run(solve);
    runtime.run(wu);
    runtime.run(states);
    if (first.empty())
      for (const auto& result : results) first.push_back(result.second->bytes);
  }
  for (std::size_t i = 0; i < std::size(results); ++i)
    if (results[i].second->bytes != first[i]) return std::string(results[i].first) + " has other bits";
  return "";
}

}  // namespace tj::test
