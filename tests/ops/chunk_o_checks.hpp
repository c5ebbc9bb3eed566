// What chunk output must bring on every arch that it runs on, on the CPU model, against f64, with a poisoned output inside guard bands.
//
// Decides no arch: tests name the target. Invariant: the same shapes for all.
#pragma once

#include <string>

namespace tj::test {

/// Lengths at the edges of chunks; what lies around sequences is neither read nor written.
void check_chunk_edges(const std::string& target);
/// No chunk, no sequence: nothing is written.
void check_no_chunks(const std::string& target);
/// Ratios of heads.
void check_chunk_heads(const std::string& target);
/// Gates from 0 to where factors above the diagonal are infinite.
void check_chunk_gates(const std::string& target);
/// Without gates, equal lengths, h as K x V, a scale, rows that are further apart, room for more chunks.
void check_chunk_forms(const std::string& target);
/// Many more items than blocks, whole and partial chunks mixed.
void check_many_chunks(const std::string& target);
/// Chunks that there is no room for are left out.
void check_chunk_room(const std::string& target);
/// Lists that are wrong: nothing outside them is read, nothing outside o written.
void check_wrong_lists(const std::string& target);
/// Random problems, by a seed that is printed.
void check_random_chunks(const std::string& target);

}  // namespace tj::test
