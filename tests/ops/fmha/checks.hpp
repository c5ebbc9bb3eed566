// Checks that attention must pass on every arch that it runs on: on the CPU model, against f64, with poisoned outputs
// inside guard bands.
//
// Decides no arch: tests name the targets, and the shapes at which these alone have an edge. Invariant: else the same
// shapes for all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/fmha/problem.hpp"

namespace tj::test {

/// Through the runtime: "", or what is wrong with the result.
std::string run_fmha(const std::string& target, const FmhaShape& shape, std::uint64_t seed,
                     std::optional<float> scale = {});

/// Edges of tiles, rows without keys, single rows and keys, grouped heads; and `more`.
void check_fmha_edges(const std::string& target, const std::vector<FmhaShape>& more = {});

/// Negative, zero, tiny, large: each of them finite.
void check_fmha_scales(const std::string& target, const std::vector<float>& scales);

/// The largest score is picked, and results stay finite.
void check_fmha_huge_scales(const std::string& target);

/// A NaN or an infinity in a query makes its row NaN, output and lse, and no other.
void check_fmha_rows_without_number(const std::string& target, int head_dim, bool causal,
                                    std::optional<float> scale = {}, DType dtype = DType::f16);

/// Which entries of a list a target runs: those from `place` on, every `of`-th. Targets of one family take turns where
/// they share the code that is checked; with TJ_TEST_FULL each of them runs the whole list.
struct Turn {
  int place = 0, of = 1;
};

/// Windows, places of queries, softcap, ALiBi and sinks: each alone, at edges of blocks and without keys, and together.
void check_fmha_masks(const std::string& target, const Turn& turn = {});
void check_fmha_scores(const std::string& target, const Turn& turn = {});

/// Head dims, of queries and keys, and of values: multiples of 8 on either side of 16, 32 and 64, up to `widest`.
void check_fmha_head_dims(const std::string& target, int widest, const Turn& turn = {});

/// How large random problems are.
struct FmhaLimits {
  int group = 3;  ///< query heads of one of keys
  int seq_q = 140, seq_k = 300;
  bool features = false;  ///< of masks and scores, drawn too
  int widest = 0;         ///< head dims are any multiples of 8 up to that; 0: 64 and 128
};
/// Both types, head dims, masks and layouts, by a seed that is printed; targets take turns.
void check_random_fmha(const std::vector<const char*>& targets, int count, const FmhaLimits& limits = {});

}  // namespace tj::test
