// An attention problem in host memory for tests: random inputs, outputs inside guard bands, poisoned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/ops.hpp>
#include <tilejit/runtime.hpp>

#include "common/fmha_reference.hpp"

namespace tj::test {

struct FmhaShape {
  int batch = 1, heads = 1, heads_kv = 1;
  int seq_q = 1, seq_k = 1, head_dim = 64;
  DType dtype = DType::f16;
  bool causal = false;
  bool rows_first = false;  ///< memory as [B, S, H, D] instead of [B, H, S, D]
  bool with_lse = true;
  bool shifted_o = false;  ///< o begins an element behind a multiple of 16 bytes
  FmhaWindow window = {};
  bool top_left = false;
  float softcap = 0;
  int alibi = 0;  ///< 1: a slope for each head; 2: for each batch and head
  bool sinks = false;
  int value_dim = 0;  ///< of v and o; 0: head_dim
  std::string text() const;
};

class FmhaProblem {
 public:
  FmhaProblem(const FmhaShape& shape, std::uint64_t seed);
  FmhaArgs args;                 ///< in host memory
  int rung = 0;                  ///< of the op's ladder
  samples::FmhaModsOfHost mods;  ///< what its texts say

  /// Runs it there: on the cpu in place, on a GPU through copies of the whole allocations, guard bands included.
  void run(Runtime& runtime, Device device);

  /// "": every element of o and lse was written, nothing beside them, and the numbers agree with f64; else what is
  /// wrong.
  std::string problem() const;

 private:
  Tensor place(std::vector<std::uint16_t>& memory, int heads, int rows, int width, bool random, std::uint64_t seed);

  void add_heads(std::uint64_t seed);

  FmhaShape shape_;
  std::vector<std::uint16_t> q_, k_, v_, o_;
  std::vector<float> lse_, slopes_, sinks_;
};

}  // namespace tj::test
