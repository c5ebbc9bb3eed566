// Protects the whole chain of stages on the CPU model: cumsum, solve, w and u, states and chunk output give what the
// fused gated delta rule gives, with lists of sequences and zero lengths. All stages take bounds that fall for the same
// rising ones.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "ops/chunk_stages/problem.hpp"
#include "ops/gated_delta_rule/memory.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::make_tensor;
using test::Memory;

namespace {

constexpr std::int64_t kHeads = 1, kValueHeads = 2, kWidth = 128;

double error_between(const Memory& found, const Memory& wanted) {
  double wrong = 0, size = 0;
  std::int64_t count = 1;
  for (const std::int64_t n : found.shape) count *= n;
  const auto flat = [](Memory memory) {
    memory.strides = {1};
    return memory;
  };
  const Memory one = flat(found), other = flat(wanted);
  for (std::int64_t i = 0; i < count; ++i)
    wrong += std::pow(one.get({i}) - other.get({i}), 2), size += std::pow(other.get({i}), 2);
  return std::sqrt(wrong / size);
}

TEST_CASE("stages give what the fused op gives") {
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<std::int32_t> ends = {0, 130, 130, 195};
  const std::int64_t tokens = 195, chunks = 5, sequences = 3;
  Memory q, k, v, gate, beta, g_cu, a, w, u, h, v_new, o, fused, initial, last, fused_last, rows, total;
  const auto plain = [&](Memory& memory, DType dtype, std::vector<std::int64_t> shape, double size) {
    return make_tensor(memory, dtype, std::move(shape), 0, [&, size] { return size * normal(random); });
  };
  const auto empty = [](Memory& memory, DType dtype, std::vector<std::int64_t> shape) {
    return make_tensor(memory, dtype, std::move(shape), 0, {});
  };
  const double small = 1 / std::sqrt(double{kWidth});
  GatedDeltaRuleArgs rule;
  rule.q = plain(q, DType::bf16, {tokens, kHeads, kWidth}, small);
  rule.k = plain(k, DType::bf16, {tokens, kHeads, kWidth}, small);
  rule.v = plain(v, DType::bf16, {tokens, kValueHeads, kWidth}, 1);
  rule.o = empty(fused, DType::bf16, {tokens, kValueHeads, kWidth});
  rule.gate = make_tensor(gate, DType::f32, {tokens, kValueHeads}, 0, [&] { return -0.2 * uniform(random); });
  rule.beta = make_tensor(beta, DType::f32, {tokens, kValueHeads}, 0, [&] { return uniform(random); });
  rule.initial_state = plain(initial, DType::f32, {sequences, kValueHeads, kWidth, kWidth}, 0.1);
  rule.final_state = empty(fused_last, DType::f32, {sequences, kValueHeads, kWidth, kWidth});
  rule.cu_seqlens = test::list_tensor(ends);
  Runtime& runtime = testing::model_runtime();
  runtime.run(rule);

  ChunkCumsumArgs sums;
  sums.gate = *rule.gate;
  sums.g_cu = empty(g_cu, DType::f32, {tokens, kValueHeads});
  sums.cu_seqlens = rule.cu_seqlens;
  runtime.run(sums);
  ChunkSolveArgs solve;
  solve.k = rule.k;
  solve.a = empty(a, DType::bf16, {tokens, kValueHeads, kChunkTokens});
  solve.beta = rule.beta;
  solve.g_cu = sums.g_cu;
  solve.cu_seqlens = rule.cu_seqlens;
  runtime.run(solve);
  ChunkWuArgs wu;
  wu.k = rule.k;
  wu.v = rule.v;
  wu.a = solve.a;
  wu.w = empty(w, DType::bf16, {tokens, kValueHeads, kWidth});
  wu.u = empty(u, DType::bf16, {tokens, kValueHeads, kWidth});
  wu.beta = rule.beta;
  wu.g_cu = sums.g_cu;
  wu.cu_seqlens = rule.cu_seqlens;
  runtime.run(wu);
  ChunkStatesArgs states;
  states.k = rule.k;
  states.w = wu.w;
  states.u = wu.u;
  states.h = empty(h, DType::bf16, {chunks, kValueHeads, kWidth, kWidth});
  states.v_new = empty(v_new, DType::bf16, {chunks * kChunkTokens, kValueHeads, kWidth});
  states.g_cu = sums.g_cu;
  states.initial_state = rule.initial_state;
  states.final_state = empty(last, DType::f32, {sequences, kValueHeads, kWidth, kWidth});
  states.cu_seqlens = rule.cu_seqlens;
  runtime.run(states);
  std::vector<std::int32_t> list(2 * chunks), count(1);
  ChunkIndicesArgs indices;
  indices.cu_seqlens = *rule.cu_seqlens;
  indices.chunk_indices = Tensor::contiguous(list.data(), rule.q.device, DType::i32, {chunks, 2});
  indices.total_chunks = Tensor::contiguous(count.data(), rule.q.device, DType::i32, {1});
  runtime.run(indices);
  CHECK(count[0] == chunks);
  ChunkOArgs output;
  output.q = rule.q;
  output.k = rule.k;
  output.v_new = *states.v_new;
  output.h = states.h;
  output.o = empty(o, DType::bf16, {tokens, kValueHeads, kWidth});
  output.g_cu = sums.g_cu;
  output.cu_seqlens = indices.cu_seqlens;
  output.chunk_indices = indices.chunk_indices;
  output.total_chunks = indices.total_chunks;
  runtime.run(output);
  CHECK(error_between(o, fused) < 7e-3);  // each is within 5e-3 of f64
  CHECK(error_between(last, fused_last) < 4e-3);
}

TEST_CASE("bounds that fall count as rising ones, for all stages alike") {
  const test::StageShape shape{.lengths = {40, 40, 40, 40}, .heads = 2, .width = 64, .by_tokens = true};
  test::StageProblem problem(shape, 12);
  CHECK(problem.run_alike({0, 120, 40, 100, 160}, {0, 40, 40, 100, 160}) == "");
  CHECK(problem.run_alike({160, 0, 160, 0, 160}, {0, 0, 160, 160, 160}) == "");
  CHECK(problem.run_alike({-9, 30, 70, 10, 1 << 30}, {0, 30, 70, 70, 160}) == "");
}

}  // namespace
