// Runs the launches of a problem's chunks on the CPU model, cut as a test says. Checks ranges and segments.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// One sequence, served in chunks; with gates of key channels, or of heads as they are by default.
RuleShape in_chunks(std::int64_t tokens, bool channels = false);
/// What is wrong, also where the call would not be served in chunks; "": nothing.
std::string run_chunks(const RuleShape& shape, unsigned seed);
/// Types, widths and orders of states, and so many heads that blocks have 128 rows.
void check_chunk_states(bool channels);

/// All chunks are solved first where solved_first: launches that solve need nothing of states.
Ran run_cut(RuleProblem& problem, const ops::ChunkCut& cut, bool solved_first = false);

/// Ranges agree with f64 and have the bits of all chunks at once.
void check_ranges(const RuleShape& shape, int ranges, std::size_t launches);
void check_segments(const RuleShape& shape, int segments);

}  // namespace tj::test
