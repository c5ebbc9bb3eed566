// Protects who sends which rows to whom, and which calls follow. Each query sees each of its keys once and no other,
// found out row by row.
#include "dist/split.hpp"

#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <random>

#include "dist/split_problem.hpp"

using namespace tj;
using dist::Split;
using dist::SplitShape;

namespace {

/// The row of the whole sequence that each gathered row of a rank is; -1: nothing came there. remote: without those of
/// its own.
std::vector<std::int64_t> gathered_by(const SplitShape& shape, int rank, bool remote = false) {
  std::vector<std::int64_t> rows(
      static_cast<std::size_t>(remote ? dist::remote_rows(shape, rank) : dist::gathered_rows(shape, rank)), -1);
  for (int from = 0; from < shape.size(); ++from) {
    if (remote && from == rank) continue;
    const auto own = test::rows_of_rank(shape.split, shape.lengths, from);
    for (const dist::Transfer& transfer :
         remote ? dist::remote_transfers(shape, from, rank) : dist::transfers(shape, from, rank))
      for (std::int64_t i = 0; i < transfer.rows; ++i) {
        std::int64_t& to = rows.at(static_cast<std::size_t>(transfer.to + i));
        CHECK(to == -1);  // nothing comes twice
        to = own.at(static_cast<std::size_t>(transfer.from + i));
      }
  }
  return rows;
}

/// The times that each of the rank's queries sees each key of the whole sequence.
std::map<std::pair<std::int64_t, std::int64_t>, int> seen_by(const SplitShape& shape, int rank) {
  const auto own = test::rows_of_rank(shape.split, shape.lengths, rank), all = gathered_by(shape, rank);
  std::map<std::pair<std::int64_t, std::int64_t>, int> seen;
  for (const dist::Visit& visit : dist::visits(shape, rank))
    for (std::int64_t i = 0; i < visit.queries.rows(); ++i)
      for (std::int64_t j = 0; j < visit.keys.rows(); ++j) {
        const std::int64_t place = i + visit.keys.rows() - visit.queries.rows();
        if (visit.causal && (j > place || (shape.left >= 0 && j < place - shape.left))) continue;
        ++seen[{own.at(static_cast<std::size_t>(visit.queries.begin + i)),
                all.at(static_cast<std::size_t>(visit.keys.begin + j))}];
      }
  return seen;
}

/// The same of a rank that begins with its own rows.
std::map<std::pair<std::int64_t, std::int64_t>, int> seen_apart(const SplitShape& shape, int rank) {
  const auto own = test::rows_of_rank(shape.split, shape.lengths, rank), all = gathered_by(shape, rank, true);
  std::map<std::pair<std::int64_t, std::int64_t>, int> seen;
  for (std::size_t i = 0; i < own.size(); ++i)
    for (std::size_t j = 0; j < (shape.causal ? i + 1 : own.size()); ++j) ++seen[{own[i], own[j]}];
  for (const dist::Visit& visit : dist::remote_visits(shape, rank))
    for (std::int64_t i = visit.queries.begin; i < visit.queries.end; ++i)
      for (std::int64_t j = visit.keys.begin; j < visit.keys.end; ++j)
        ++seen[{own.at(static_cast<std::size_t>(i)), all.at(static_cast<std::size_t>(j))}];
  return seen;
}

void check(const SplitShape& shape) {
  const std::int64_t rows = std::accumulate(shape.lengths.begin(), shape.lengths.end(), std::int64_t{0});
  std::int64_t queries = 0;
  for (int rank = 0; rank < shape.size(); ++rank) {
    const auto seen = seen_by(shape, rank);
    if (shape.split != Split::striped && shape.left < 0) CHECK(seen_apart(shape, rank) == seen);
    std::size_t wanted = 0;
    for (const std::int64_t query : test::rows_of_rank(shape.split, shape.lengths, rank)) {
      ++queries;
      for (std::int64_t key = 0; key < rows; ++key) {
        if (shape.causal && (key > query || (shape.left >= 0 && key < query - shape.left))) continue;
        ++wanted;
        const auto found = seen.find({query, key});
        const int times = found == seen.end() ? 0 : found->second;
        REQUIRE(times == 1);
      }
    }
    CHECK(seen.size() == wanted);
  }
  CHECK(queries == rows);
}

}  // namespace

TEST_CASE("each query sees its keys once: zigzag and striped on 1 to 5 ranks, with windows") {
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (const std::int64_t rows : {0, 2, 4, 6})
      for (const bool causal : {false, true}) {
        const std::vector<std::int64_t> lengths(static_cast<std::size_t>(ranks), rows);
        CAPTURE(ranks);
        CAPTURE(rows);
        check({Split::zigzag, lengths, causal});
        check({Split::striped, lengths, causal});
        for (const std::int64_t left : {0, 1, 3, 100})
          if (causal) check({Split::zigzag, lengths, true, left});
      }
  check({Split::striped, {1, 1, 1}, true});
  check({Split::striped, {3, 3}, true});
}

TEST_CASE("runs of any length, of none too, drawn") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    SplitShape shape;
    shape.split = Split::contiguous;
    for (unsigned ranks = 1 + random() % 5; ranks > 0; --ranks)
      shape.lengths.push_back(random() % 3 == 0 ? 0 : static_cast<std::int64_t>(random() % 9));
    shape.causal = random() % 2 == 0;
    if (shape.causal && random() % 2 == 0) shape.left = static_cast<std::int64_t>(random() % 12);
    check(shape);
  }
}

TEST_CASE("a causal rank gathers no key that no row of it sees") {
  const SplitShape run{Split::contiguous, {8, 8, 8, 8}, true};
  CHECK(dist::gathered_rows(run, 0) == 8);
  CHECK(dist::gathered_rows(run, 3) == 32);
  CHECK(dist::transfers(run, 3, 0).empty());
  const SplitShape window{Split::contiguous, {8, 8, 8, 8}, true, 3};
  CHECK(dist::gathered_rows(window, 3) == 11);
  CHECK(dist::transfers(window, 1, 3).empty());
  CHECK(dist::transfers(window, 2, 3) == std::vector<dist::Transfer>{{5, 0, 3}});
}
