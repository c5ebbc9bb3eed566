// The mask of attention: which keys a query sees. This file alone decides it, for device code of every family and for
// the host.
//
// Example: of 3 queries and 5 keys under the causal mask, query 0 sees keys 0 to 2, and query 2 all five. Decides the
// range of keys of a row, and what can be said of ranges before sizes are known. Does not decide how a block walks keys
// (tile.cuh), nor what hides a score in registers (RowMask there). Invariant: neither end of a range falls from one row
// to the next, so the first and the last row of a block bound what its rows see.
#pragma once

namespace tj::ops::fmha {

/// Keys [first, end), 0 <= first; no key where end <= first, which may be below 0.
struct Keys {
  int first, end;
};

/// The mask of one call, as plain numbers: the host fills it from a request, device code from Config and Params.
struct Mask {
  bool causal;  ///< the last query sees all keys, each one before it a key less
  int queries, keys;

  constexpr Keys keys_of(int row) const {
    if (!causal) return {0, keys};
    const int end = row + (keys - queries) + 1;
    return {0, end < keys ? end : keys};
  }
  /// The end of a row's keys, 0 where it sees none. Rows that all see the same see some.
  constexpr int end_of(int row) const {
    const int end = keys_of(row).end;
    return rows_differ() && end < 0 ? 0 : end;
  }
  /// Blocks [first, end) of block_n keys that the rows from `row` on see, those of one tile.
  constexpr Keys blocks_of(int row, int rows, int block_n) const {
    const int last_row = (row + rows < queries ? row + rows : queries) - 1;
    return {keys_of(row).first / block_n, (end_of(last_row) + block_n - 1) / block_n};
  }
  /// The rows of one block may see different keys: iterations beside those that all rows see need masking.
  constexpr bool rows_differ() const { return causal; }
  /// Later rows see more keys, so that tiles take longer the later their rows come.
  constexpr bool tiles_differ() const { return causal; }
  /// Each row that sees a key sees the first one: nothing is hidden below a range, and the walk over keys ends at 0.
  constexpr bool from_first_key() const { return true; }
  /// So many iterations of a tile need masking at most. They come first where every row begins at the first key. They
  /// are those with the last keys that some row sees, and one that the end of the keys may cut through. Ends of rows
  /// grow by a key a row at most.
  constexpr int most_masked(int rows, int block_n, int unbounded) const {
    return !from_first_key() ? unbounded : rows_differ() ? (rows + block_n - 1) / block_n + 1 : 1;
  }
};

/// The mask of a unit. Its kind is a constant of Config, so the compiler leaves out the numbers that the kind does not
/// ask for.
template <class C, class P>
constexpr Mask mask_of(const P& params) {
  return {C::kCausal, params.queries, params.keys};
}

}  // namespace tj::ops::fmha
