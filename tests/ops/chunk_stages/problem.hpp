// Problems of the gated delta rule's stages in host memory for tests: random inputs, NaN wherever nothing may be read,
// poisoned outputs, and each stage in f64 of the same rounded inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "ops/gated_delta_rule/memory.hpp"

namespace tj::test {

struct StageShape {
  std::int64_t batch = 0, tokens = 1;      ///< batch 0: no such dimension
  std::vector<std::int32_t> lengths = {};  ///< not empty: cu_seqlens, and tokens follow from them
  std::int32_t lead = 0, tail = 0;  ///< with lengths: tokens before the first and behind the last, which hold NaN
  std::int64_t k_heads = 1, v_heads = 1, heads = 1, width = 128;
  DType dtype = DType::bf16;
  bool half_numbers = false;  ///< gates and beta are of dtype; else f32
  bool gated = true, strengths = true;
  GateForm form = GateForm::log;
  double gate_size = 0.1;
  DType state = DType::f32;
  bool transposed = false, by_tokens = false;  ///< matrices of states are [K, V]; v_new has rows of tokens
  bool initial = true;
  int padding = 0;  ///< elements between rows, a multiple of 8
};

class StageProblem {
 public:
  StageProblem(const StageShape& shape, unsigned seed);
  StageProblem(const StageProblem&) = delete;
  ChunkCumsumArgs cumsum;
  ChunkSolveArgs solve;
  ChunkWuArgs wu;
  ChunkStatesArgs states;

  /// Each runs a stage on the CPU model twice. "": the numbers agree with f64, bits are the same, and nothing else was
  /// written.
  std::string run_cumsum(const std::string& target = "model:sm_90a");
  std::string run_solve(const std::string& target = "model:sm_90a");
  std::string run_wu(const std::string& target = "model:sm_90a");
  std::string run_states(const std::string& target = "model:sm_90a");
  /// Runs all stages with one list, then with the other one. "": the same tokens and last states have the same bits.
  std::string run_alike(const std::vector<std::int32_t>& one, const std::vector<std::int32_t>& other);

  std::vector<std::int32_t> ends;

 private:
  struct Chunk {
    std::int64_t sequence, first, rows;
  };
  using Place = std::initializer_list<std::int64_t>;
  struct Error {  ///< of a result, relative to f64
    double wrong = 0, size = 0;
    void add(double found, double wanted) { wrong += (found - wanted) * (found - wanted), size += wanted * wanted; }
    std::string above(const char* name, double limit) const;
  };
  using Shaped = std::function<std::vector<std::int64_t>(std::vector<std::int64_t>)>;
  void make_rows(const Shaped& shaped, std::mt19937& random);
  void make_products(const Shaped& shaped, std::mt19937& random);
  void make_states(const Shaped& shaped, std::mt19937& random);
  double state_of(const Memory& memory, std::int64_t at, std::int64_t head, std::int64_t v, std::int64_t k) const;
  /// Adds the errors of one head of a sequence, from chunk to chunk; `number`: of its first chunk.
  void compare_states(std::int64_t sequence, std::int64_t head, std::int64_t number, Error (&errors)[3],
                      bool& padded) const;
  std::vector<Chunk> chunks() const;
  std::int64_t sequences() const;
  double element(const Memory& memory, std::int64_t sequence, std::int64_t token, std::int64_t head,
                 std::int64_t column) const;
  double beta_of(const Chunk& chunk, std::int64_t token, std::int64_t head) const;
  double sum_of(const Chunk& chunk, std::int64_t token, std::int64_t head) const;
  void put(Memory& memory, std::int64_t sequence, Place place, double value) const;
  /// A of a chunk and head: 64 numbers a row.
  std::vector<double> matrix_of(const Chunk& chunk, std::int64_t head) const;
  /// A number of a token and head.
  double number(const Memory& memory, std::int64_t sequence, std::int64_t token, std::int64_t head) const;
  std::string run_twice(const std::function<void()>& run, std::initializer_list<Memory*> results);
  /// Every element of tokens of no sequence, and every gap, is poison still.
  std::string check_gaps(const Memory& memory, std::int64_t per_token) const;

  StageShape shape_;
  std::int64_t tokens_ = 0;
  Memory gate_, a_log_, dt_bias_, g_cu_;
  Memory k_, v_, beta_, sums_, a_, solved_, w_, u_, given_w_, given_u_, h_, v_new_, initial_, final_;
};

}  // namespace tj::test
