// See split.hpp.
#include "dist/split.hpp"

#include <algorithm>
#include <numeric>

namespace tj::dist {
namespace {

/// A run of the sequence's rows that a rank holds, `at` its first of them.
struct Piece {
  std::int64_t at = 0;
  Range rows;
};

std::int64_t sum(std::span<const std::int64_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

std::vector<Piece> pieces_of(const SplitShape& shape, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  const std::int64_t own = shape.lengths[r];
  if (shape.split == Split::contiguous) {
    const std::int64_t begin = sum(std::span(shape.lengths).first(r));
    return {{0, {begin, begin + own}}};
  }
  const std::int64_t half = own / 2, second = 2 * shape.size() - 1 - rank;
  return {{0, {rank * half, (rank + 1) * half}}, {half, {second * half, (second + 1) * half}}};
}

/// The keys that a piece's rows see, of the whole sequence.
Range seen_by(const SplitShape& shape, const Piece& piece) {
  if (piece.rows.empty()) return {};
  if (!shape.causal) return {0, sum(shape.lengths)};
  const bool all = shape.left == FmhaWindow::kAll || shape.left >= piece.rows.begin;
  return {all ? 0 : piece.rows.begin - shape.left, piece.rows.end};
}

/// The keys that a rank gathers: from the first that one of its rows sees to the last.
Range needed_by(const SplitShape& shape, int rank) {
  Range needed;
  for (const Piece& piece : pieces_of(shape, rank)) {
    const Range seen = seen_by(shape, piece);
    if (seen.empty()) continue;
    needed = needed.empty() ? seen : Range{std::min(needed.begin, seen.begin), std::max(needed.end, seen.end)};
  }
  return needed;
}

/// The rank's own rows among the first `rows` of the sequence, which is gathered from its first row on.
std::int64_t own_before(const SplitShape& shape, int rank, std::int64_t rows) {
  std::int64_t own = 0;
  for (const Piece& piece : pieces_of(shape, rank))
    own += std::clamp(rows - piece.rows.begin, std::int64_t{0}, piece.rows.rows());
  return own;
}

}  // namespace

std::vector<HeldRows> held_rows(const SplitShape& shape, int rank) {
  const std::int64_t own = shape.lengths[static_cast<std::size_t>(rank)];
  if (own == 0) return {};
  if (shape.split == Split::striped) return {{0, rank, shape.size(), own}};
  std::vector<HeldRows> found;
  for (const Piece& piece : pieces_of(shape, rank)) {
    HeldRows* const last = found.empty() ? nullptr : &found.back();
    if (last != nullptr && last->begin + last->rows == piece.rows.begin)
      last->rows += piece.rows.rows();  // the last rank's pieces of zigzag follow each other
    else
      found.push_back({piece.at, piece.rows.begin, 1, piece.rows.rows()});
  }
  return found;
}

bool merges(const SplitShape& shape) { return shape.split == Split::striped && shape.size() > 1; }

std::int64_t gathered_rows(const SplitShape& shape, int rank) {
  return shape.split == Split::striped ? sum(shape.lengths) : needed_by(shape, rank).rows();
}

std::vector<Transfer> transfers(const SplitShape& shape, int from, int to) {
  const auto sender = static_cast<std::size_t>(from);
  const std::int64_t own = shape.lengths[sender];
  if (shape.split == Split::striped) {
    if (own == 0 || shape.lengths[static_cast<std::size_t>(to)] == 0) return {};
    return {{0, sum(std::span(shape.lengths).first(sender)), own}};
  }
  std::vector<Transfer> found;
  const Range needed = needed_by(shape, to);
  for (const Piece& piece : pieces_of(shape, from)) {
    const Range both{std::max(needed.begin, piece.rows.begin), std::min(needed.end, piece.rows.end)};
    if (!both.empty())
      found.push_back({piece.at + both.begin - piece.rows.begin, both.begin - needed.begin, both.rows()});
  }
  return found;
}

std::vector<Visit> visits(const SplitShape& shape, int rank) {
  std::vector<Visit> found;
  const std::int64_t own = shape.lengths[static_cast<std::size_t>(rank)];
  if (own == 0) return found;
  if (shape.split == Split::striped) {
    std::int64_t first = 0;
    for (int from = 0; from < shape.size(); ++from) {
      const std::int64_t rows = shape.lengths[static_cast<std::size_t>(from)];
      // Key j of a later rank stands behind the query of the same number: the last query sees one key less.
      const std::int64_t seen = shape.causal && from > rank ? rows - 1 : rows;
      if (seen > 0) found.push_back({{0, own}, {first, first + seen}, shape.causal});
      first += rows;
    }
    return found;
  }
  const Range needed = needed_by(shape, rank);
  if (!shape.causal) return {{{0, own}, {0, needed.rows()}, false}};
  for (const Piece& piece : pieces_of(shape, rank)) {
    const Range seen = seen_by(shape, piece);
    if (!seen.empty())
      found.push_back(
          {{piece.at, piece.at + piece.rows.rows()}, {seen.begin - needed.begin, seen.end - needed.begin}, true});
  }
  return found;
}

std::int64_t remote_rows(const SplitShape& shape, int rank) {
  return gathered_rows(shape, rank) - own_before(shape, rank, sum(shape.lengths));
}

std::vector<Transfer> remote_transfers(const SplitShape& shape, int from, int to) {
  std::vector<Transfer> found = transfers(shape, from, to);
  for (Transfer& each : found) each.to -= own_before(shape, to, each.to);
  return found;
}

std::vector<Visit> remote_visits(const SplitShape& shape, int rank) {
  const std::int64_t own = shape.lengths[static_cast<std::size_t>(rank)], all = remote_rows(shape, rank);
  if (own == 0 || all == 0) return {};
  if (!shape.causal) return {{{0, own}, {0, all}, false}};
  std::vector<Visit> found;
  for (const Piece& piece : pieces_of(shape, rank)) {
    const std::int64_t seen = piece.rows.begin - own_before(shape, rank, piece.rows.begin);
    if (seen > 0) found.push_back({{piece.at, piece.at + piece.rows.rows()}, {0, seen}, false});
  }
  return found;
}

}  // namespace tj::dist
