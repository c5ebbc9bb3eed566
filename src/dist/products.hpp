// The parts that products beside their collectives have in common: ranks' rows, pieces of them, checks.
//
// Decides how a shard is cut into pieces that travel by themselves. Does not decide what a call does with
// them (all_gather.cpp, reduce_scatter.cpp). Invariant: cuts follow from what all ranks know, as senders and receivers
// must agree.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "dist/group.hpp"
#include "dist/prediction.hpp"
#include "dist/split.hpp"
#include "ops/op.hpp"

namespace tj::dist {

[[noreturn]] void refuse_product(const char* op, const std::string& what, Code code = Code::invalid_argument);
/// Checks of both calls. Throws tj::Error(argument).
void check_product(const char* op, const GemmArgs& product, const Member& member);
/// Checks a product whose addresses may be null.
void validate_product(GemmArgs product, Device device);

const ops::Op& gemm_op();
/// Rows of a matrix [M, K].
Tensor matrix_rows(const Tensor& t, Range rows);

/// The ranks of a call, in the order of shards: rank `at(n)` n places behind this one.
struct Ranks {
  int rank = 0, size = 1;
  std::vector<std::int64_t> lengths;
  int behind(int n) const { return (rank + n) % size; }
  int before(int n) const { return (rank + size - n) % size; }
  std::int64_t rows(int of) const { return lengths[static_cast<std::size_t>(of)]; }
  std::int64_t own_rows() const { return rows(rank); }
  std::int64_t first(int of) const { return std::accumulate(lengths.begin(), lengths.begin() + of, std::int64_t{0}); }
  std::int64_t all() const { return first(size); }
};

/// The pieces of a shard's rows that travel by themselves: whole tiles, but for the last. There is one at least, which
/// may have no rows.
struct Cut {
  std::int64_t rows = 0, each = 0;
  int count = 1;
  Range piece(int n) const;
  /// The rows of launch n of so many, which shares the pieces out evenly; and their last piece.
  Range launch(int n, int launches) const { return {piece(n * count / launches).begin, piece(last(n, launches)).end}; }
  int last(int n, int launches) const { return (n + 1) * count / launches - 1; }
};
/// forced: pieces, by TJ_DIST_PIECES; 0: as many as their bytes ask for.
Cut cut_of(std::int64_t rows, std::size_t row_bytes, int forced);

}  // namespace tj::dist
