// An attention problem whose rows are dealt out to ranks, and collected from them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tilejit/dist.hpp>

#include "ops/fmha/problem.hpp"

namespace tj::test {

/// Rows of a sequence that a rank holds, in its order, counted out one by one.
std::vector<std::int64_t> rows_of_rank(dist::Split split, const std::vector<std::int64_t>& lengths, int rank);

struct SplitCase {
  FmhaShape shape;  ///< of the whole sequence: seq_q is what all lengths add up to
  dist::Split split = dist::Split::zigzag;
  std::vector<std::int64_t> lengths;
  bool told = false;  ///< the call is told the lengths
  std::string text() const;
};

/// Two heads, rows before heads in memory.
SplitCase split_case(dist::Split split, std::vector<std::int64_t> lengths, bool causal);

/// Runs the case on `members`, each in a thread of its own, and puts the ranks' rows of o and lse into the whole
/// problem. Returns what the ranks threw, one text a rank, "" of one that went well.
std::vector<std::string> run_split(FmhaProblem& whole, const SplitCase& what, std::vector<dist::Group>& members,
                                   const std::function<void(int rank, dist::ContextFmhaArgs&)>& change = {});

}  // namespace tj::test
