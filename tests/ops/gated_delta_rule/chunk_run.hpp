// Runs the launches of a problem's chunks on the CPU model, cut as a test says. Checks ranges and segments.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ops/gated_delta_rule/chunks.hpp"
#include "ops/gated_delta_rule/problem.hpp"

namespace tj::test {

struct Ran {
  std::string wrong;  ///< "": the numbers agree with f64
  std::vector<std::string> launches;
  std::vector<unsigned char> bits;  ///< of results
};

/// All chunks are solved first where solved_first: launches that solve need nothing of states.
Ran run_cut(RuleProblem& problem, const ops::ChunkCut& cut, bool solved_first = false);

/// Ranges agree with f64 and have the bits of all chunks at once.
void check_ranges(const RuleShape& shape, int ranges, std::size_t launches);
void check_segments(const RuleShape& shape, int segments);

}  // namespace tj::test
