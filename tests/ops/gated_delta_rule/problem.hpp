// A problem of the gated delta rule in host memory for tests: random inputs, NaN wherever nothing may be read, poisoned
// outputs, and the serial recurrence in f64.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include <tilejit/gated_delta_rule.hpp>

#include "ops/gated_delta_rule/memory.hpp"

namespace tj::test {

enum class Given { none, plain, raw };

struct RuleShape {
  std::int64_t batch = 0, tokens = 1;  ///< batch 0: no such dimension
  std::vector<std::int32_t> lengths;   ///< not empty: cu_seqlens, and tokens follow from them
  std::int32_t lead = 0, tail = 0;     ///< with lengths: tokens before the first and behind the last, which hold NaN
  std::int64_t q_heads = 1, k_heads = 1, v_heads = 1, heads = 1, width = 128;
  DType dtype = DType::bf16, state = DType::f32;
  bool transposed = false;
  Given gate = Given::plain, beta = Given::plain;
  bool exp_gate = false, half_numbers = false, bias = true;
  bool channels = false;  ///< a gate for each key channel
  bool delta = true, normalise = true;
  bool initial = true, final = true, in_place = false;
  std::int64_t pool = 0;                    ///< slots of the pools; 0: no lists
  std::vector<std::int32_t> reads, writes;  ///< of a pool
  std::int64_t kept = 0;                    ///< states that are kept,
  int every = 1;                            ///< after so many tokens each
  int padding = 0;                          ///< elements between rows, a multiple of 8
  double gate_size = 0.1, beta_least = 0, key_size = 1;
  bool repeated_keys = false;
  double negligible = 0;
  bool chunked = false;  ///< the limits are those of chunks
};

class RuleProblem {
 public:
  RuleProblem(const RuleShape& shape, unsigned seed);
  RuleProblem(const RuleProblem&) = delete;
  GatedDeltaRuleArgs args;

  /// Runs on the CPU model twice; "": the numbers agree with f64, bits are the same, nothing else was written.
  std::string run(const std::string& target = "model:sm_90a");
  /// The same of what was run by somebody else.
  std::string problem() const;
  std::vector<std::int32_t> ends, reads, writes;  ///< the lists that the device sees

 private:
  void make_states(std::mt19937& random);
  double token_number(const Memory& memory, std::int64_t sequence, std::int64_t token, std::int64_t head) const;
  double decay(std::int64_t sequence, std::int64_t token, std::int64_t head, std::int64_t channel) const;
  double beta(std::int64_t sequence, std::int64_t token, std::int64_t head) const;
  std::vector<double> row(const Memory& memory, std::int64_t sequence, std::int64_t token, std::int64_t head,
                          bool normalise) const;
  std::vector<double> first_state(std::int64_t sequence, std::int64_t head) const;
  /// scales: of the memory; looked at with states of e4m3 alone.
  double state_of(const Memory& memory, const Memory& scales, std::initializer_list<std::int64_t> place, std::int64_t v,
                  std::int64_t k) const;
  struct Errors;
  void check_head(std::int64_t sequence, std::int64_t head, Errors& errors) const;
  void begin_and_count(std::int64_t sequence, std::int64_t& begin, std::int64_t& count) const;
  std::string check_slots() const;
  std::string check_kept() const;
  std::string check_rest() const;
  std::int64_t sequences() const;

  RuleShape shape_;
  std::int64_t tokens_ = 0;
  Memory q_, k_, v_, o_, gate_, a_log_, dt_bias_, beta_, before_, initial_, final_, each_;
  Memory scales_before_, initial_scales_, final_scales_, each_scales_;  ///< of states of e4m3
};

}  // namespace tj::test
