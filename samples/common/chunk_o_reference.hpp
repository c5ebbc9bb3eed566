// Chunk output of the gated delta rule in f64, and how far a result is from it: random problems, reference, metric,
// bytes.
//
// Decides the data of a problem, which rows are compared and the metric. Plain loops over host memory: no tile, no
// schedule. Invariant: a comparison says how many rows it looked at. Values that no result may depend on are NaN in a
// random problem.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tj::samples {

inline constexpr std::int64_t kChunkDim = 128;   ///< of K and V
inline constexpr double kMaxChunkOError = 4e-3;  ///< limit on ||o - ref|| / ||ref||

struct Chunk {
  std::int32_t sequence = 0, index = 0;  ///< which chunk of which sequence
  std::int64_t token = 0, tokens = 0;    ///< where it begins, and how many it has
};
/// In the order of their tokens.
std::vector<Chunk> chunks_of(const std::vector<std::int32_t>& cu_seqlens);

/// All inputs of one call in host memory, dense, with the meanings of tj::ChunkOArgs. 16-bit elements are bf16.
struct ChunkOProblem {
  std::int64_t heads = 1, v_heads = 2;
  std::vector<std::int32_t> cu_seqlens = {0};
  std::vector<std::uint16_t> q, k;     ///< [T, heads, 128]
  std::vector<std::uint16_t> v_new;    ///< [64 chunks, v_heads, 128]
  std::vector<std::uint16_t> h;        ///< [chunks, v_heads, 128, 128], each V x K
  std::vector<float> g_cu;             ///< [T, v_heads]
  double scale = 0.08838834764831845;  // 128^-1/2

  std::int64_t tokens() const { return cu_seqlens.back(); }
};

/// q and k of length 1, gates of 0 to -0.1 a token, all else normal; NaN in rows of v_new behind a chunk's tokens.
ChunkOProblem random_chunk_o(const std::vector<std::int32_t>& lengths, std::int64_t heads, std::int64_t v_heads,
                             std::uint64_t seed);

/// One row of one v head of a chunk: 128 values. `c` counts all chunks.
void chunk_o_row(const ChunkOProblem& problem, const Chunk& chunk, std::size_t c, std::int64_t row, std::int64_t v_head,
                 double* o);

struct ChunkOComparison {
  double error = 0;    ///< ||o - ref|| / ||ref|| over the compared rows; infinite when an element is not finite
  double largest = 0;  ///< of |o - ref|
  std::int64_t rows = 0, rows_total = 0;  ///< each of one v head

  bool within() const { return error <= kMaxChunkOError; }
  /// "error 2.1e-03 (limit 4.0e-03), largest difference 9.8e-03, 512 of 16384 rows compared".
  std::string text() const;
};

/// Compares o, bf16 [T, v_heads, 128]: every row where there are no more than `most_rows`, else a random choice.
ChunkOComparison compare_chunk_o(const ChunkOProblem& problem, const std::vector<std::uint16_t>& o, std::uint64_t seed,
                                 std::int64_t most_rows = 20000);

/// Read and written by one call, each element once.
double chunk_o_bytes(const ChunkOProblem& problem);

}  // namespace tj::samples
