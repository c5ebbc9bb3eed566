// A sequence's rows on the ranks of a group: who holds which, who needs which, and which calls of attention follow.
//
// Decides transfers and calls from lengths alone. Moves nothing and knows no tensor. Invariant: the ranks agree without
// a word: each transfer follows from the same arguments at its two ends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <tilejit/dist.hpp>

namespace tj::dist {

/// [begin, end).
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t rows() const { return end - begin; }
  bool empty() const { return end <= begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// All that a split depends on. lengths has a number for each rank. left: as FmhaWindow.
struct SplitShape {
  Split split = Split::contiguous;
  std::vector<std::int64_t> lengths;
  bool causal = false;
  std::int64_t left = FmhaWindow::kAll;
  int size() const { return static_cast<int>(lengths.size()); }
};

/// Rows that go from one rank to another: `from` of the sender's own, `to` of those that the receiver gathers.
struct Transfer {
  std::int64_t from = 0, to = 0, rows = 0;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// A call of attention: rows of the rank's own over rows that it has gathered. Rows are aligned at their ends.
struct Visit {
  Range queries, keys;
  bool causal = false;
  friend bool operator==(const Visit&, const Visit&) = default;
};

/// Rows that a rank holds: so many of its own from `at` on are those of number begin, begin + step, ... of the
/// sequence.
struct HeldRows {
  std::int64_t at = 0, begin = 0, step = 1, rows = 0;
  friend bool operator==(const HeldRows&, const HeldRows&) = default;
};
/// Runs come in the rank's order, none of them without rows.
std::vector<HeldRows> held_rows(const SplitShape& shape, int rank);

/// The rows that a rank gathers: as many as this, counted from 0.
std::int64_t gathered_rows(const SplitShape& shape, int rank);
/// The rows that `from` sends to `to`, in the order of both. Rows that a rank keeps are a transfer to itself.
std::vector<Transfer> transfers(const SplitShape& shape, int from, int to);
/// The rank's calls. Each has queries of its own, unless merges(): then they see parts of the keys of the same queries,
/// in the order of merging.
std::vector<Visit> visits(const SplitShape& shape, int rank);
bool merges(const SplitShape& shape);

/// The same without the rank's own rows, which stay where they are: causal or full calls without a window, contiguous
/// or zigzag. Rows of other ranks follow each other in the sequence's order.
std::int64_t remote_rows(const SplitShape& shape, int rank);
/// Rows that `from` sends to another rank, by their places among remote rows.
std::vector<Transfer> remote_transfers(const SplitShape& shape, int from, int to);
/// The rank's calls over remote rows, none of them causal. Its rows' call over its own rows is beside them.
std::vector<Visit> remote_visits(const SplitShape& shape, int rank);

}  // namespace tj::dist
