// Attention over sequences of different lengths in host memory, for tests: lists, rows one behind the other or in
// pages, NaN wherever no sequence has a row, outputs poisoned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/ops.hpp>
#include <tilejit/runtime.hpp>

#include "common/fmha_reference.hpp"

namespace tj::test {

struct SequencesShape {
  std::vector<int> queries, keys;  ///< of each sequence
  int heads = 2, heads_kv = 1, head_dim = 64, value_dim = 0;
  DType dtype = DType::f16;
  bool causal = false, top_left = false;
  FmhaWindow window = {};
  float softcap = 0;
  bool alibi = false, sinks = false, with_lse = true;
  int unused = 0;            ///< keys that each sequence has behind those that count: seqused_k is given
  int front = 0;             ///< rows before the first sequence, and as many behind the last
  int page_size = 0;         ///< of keys and values; 0: no pages
  bool heads_first = false;  ///< a page has the rows of a head one behind the other
  bool shifted_o = false;    ///< o begins an element behind a multiple of 16 bytes
  int nan = -1;              ///< the number of a sequence whose queries, keys and values are NaN; -1: none
  std::string text() const;
};

class SequencesProblem {
 public:
  SequencesProblem(const SequencesShape& shape, std::uint64_t seed);
  FmhaArgs args;                 ///< in host memory
  samples::FmhaModsOfHost mods;  ///< what its texts say

  /// Other lengths in the same memory, of as many sequences; all together no more than before. Poisons outputs anew.
  void set_lengths(const std::vector<int>& queries, const std::vector<int>& keys);
  /// "": each row of a sequence was written, nothing beside them, and the numbers agree with f64; else what is wrong.
  std::string problem() const;

  std::vector<std::int32_t> begins_q, begins_k, used, table;  ///< the lists
  std::vector<std::uint16_t> o;

 private:
  void fill_keys(std::size_t sequence);
  std::uint16_t* key_row(std::vector<std::uint16_t>& memory, int width, std::size_t sequence, int key, int head);
  std::string problem_of(std::size_t sequence) const;
  FmhaArgs dense(std::size_t sequence, std::vector<std::uint16_t>& k, std::vector<std::uint16_t>& v) const;
  int values() const { return shape_.value_dim != 0 ? shape_.value_dim : shape_.head_dim; }

  SequencesShape shape_;
  std::uint64_t seed_;
  std::int64_t rows_q_ = 0, rows_k_ = 0, pages_ = 0, table_pages_ = 0;
  std::vector<std::uint16_t> q_, k_, v_;
  std::vector<float> lse_, slopes_, sinks_;
};

/// Targets of all families.
inline constexpr const char* kSequencesTargets[] = {"model:sm_90a",  "model:sm_90",   "model:sm_80",
                                                    "model:sm_100a", "model:gfx1100", "model:gfx942"};
SequencesShape sequences_shape(std::vector<int> queries, std::vector<int> keys);
/// Runs the problem on a model; "" or what is wrong, as SequencesProblem::problem().
std::string run_sequences(const char* target, const SequencesShape& shape, std::uint64_t seed, int max_sms = 0);

/// One plan for the problem, for other lengths, and for its own again; "" or what is wrong. Equal lengths give equal
/// bits.
std::string plan_for_other_lengths(const SequencesShape& shape, std::uint64_t seed, const std::vector<int>& queries,
                                   const std::vector<int>& keys);

}  // namespace tj::test
