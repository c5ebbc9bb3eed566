// The mask of attention: which keys a query sees. This file alone decides it, for device code of every family and for
// the host.
//
// Example: of 3 queries and 5 keys under the causal mask, query 0 sees keys 0 to 2, and query 2 all five. Decides the
// range of keys of a row, and what can be said of ranges before sizes are known. Does not decide how a block walks keys
// (tile.cuh), nor what hides a score in registers (RowMask there). Invariant: neither end of a range falls from one row
// to the next, so the first and the last row of a block bound what its rows see.
#pragma once

#include "ops/fmha/features.cuh"

namespace tj::ops::fmha {

/// Keys [first, end), 0 <= first; no key where end <= first, which may be below 0.
struct Keys {
  int first, end;
};

/// The mask of one call, as plain numbers: the host fills it from a request, device code from Config and Params.
struct Mask {
  bool causal;    ///< a query sees no key behind its place
  bool windowed;  ///< it sees `left` keys before its place and, but for a causal mask, `right` behind it
  int queries, keys;
  int facing;           ///< the query whose place is behind the last key: `queries`, or `keys`
  int left, right;      ///< at most queries + keys
  bool varied = false;  ///< each sequence has a mask of its own sizes, or a user bounds the keys of each tile
  int shift = 0;        ///< so many powers of two of rows, one behind the other, stand at one place
  bool any = false;     ///< a user may hide any of these keys from any row besides

  constexpr int place_of(int row) const { return (row >> shift) + (keys - facing); }
  constexpr Keys keys_of(int row) const {
    if (!rows_differ()) return {0, keys};
    const int place = place_of(row), end = place + 1;
    if (!windowed) return {0, end < keys ? end : keys};
    const int behind = causal ? 0 : right;  // added last: a place and a window may be 2^30 each
    return {place > left ? place - left : 0, place < keys - behind ? end + behind : keys};
  }
  /// The end of a row's keys, 0 where it sees none before it. Where rows do not differ, it is the number of keys.
  constexpr int end_of(int row) const {
    const int end = keys_of(row).end;
    return rows_differ() && end < 0 ? 0 : end;
  }
  /// Blocks [first, end) of block_n keys that the rows from `row` on see, those of one tile.
  constexpr Keys blocks_of(int row, int rows, int block_n) const {
    const int last_row = (row + rows < queries ? row + rows : queries) - 1;
    const int first = keys_of(row).first / block_n, end = (end_of(last_row) + block_n - 1) / block_n;
    return {from_first_key() || first < end ? first : end, end};
  }
  /// Does some row from `row` to `last_row` not see all of the keys [from, to)?
  constexpr bool hides(int row, int last_row, int from, int to) const {
    return keys_of(row).end < to || keys_of(last_row).first > from;
  }
  /// The rows of one block may see different keys: iterations beside those that all rows see need masking.
  constexpr bool rows_differ() const { return causal || windowed; }
  /// Tiles differ in length. Later rows of a sequence see no fewer keys, but for a window's end behind the last of
  /// them.
  constexpr bool tiles_differ() const { return rows_differ() || varied; }
  /// Each row that sees a key sees the first one: nothing is hidden below a range, and the walk over keys ends at 0.
  constexpr bool from_first_key() const { return !windowed && !any; }
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
  const int shift = Packed<C>::kOn ? params.group_shift : 0;
  return {C::kCausal,
          Windowed<C>::kOn,
          params.queries << shift,
          params.keys,
          params.facing,
          params.left,
          params.right,
          Varlen<C>::kOn || KeyRange<C>::kOn,
          shift,
          kHidesAny<C>};
}

}  // namespace tj::ops::fmha
