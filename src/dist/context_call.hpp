// A call of attention over a split sequence, checked: what a rank gathers and which calls of attention follow.
//
// Decides what a call must look like, and the tensors of the calls behind it. Does not decide who needs which
// rows (split.hpp). Moves nothing. Invariant: a call that was made is right but for its addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tilejit/merge_states.hpp>

#include "dist/group.hpp"
#include "dist/split.hpp"

namespace tj::dist {

/// A rank's way through the call.
enum class Way : std::uint8_t {
  messages,   ///< all keys that it sees are gathered, its own by a message to itself
  whole,      ///< the same by copies; with striped its own rows are attended where they lie, and first
  own_first,  ///< its own rows are attended where they lie while the others' come
};

/// Rows of k or v in memory: `chunks` runs of rows, `chunk_stride` bytes apart.
struct KeyRows {
  bool by_head = false;  ///< [B, H, S, D]: each head's rows by themselves; else [B, S, H, D]
  std::int64_t chunks = 0, row_bytes = 0, chunk_stride = 0;
};
KeyRows rows_of(const char* name, const Tensor& t, bool heads_first);

/// Rows that were gathered, in the order of memory of the rank's own.
struct Gathered {
  Tensor tensor;
  KeyRows rows;
  std::size_t bytes() const { return static_cast<std::size_t>(rows.chunks * rows.chunk_stride); }
};
Gathered gathered(const Tensor& own, const KeyRows& own_rows, std::int64_t count);

/// A call of attention behind the checked one.
struct Part {
  Visit visit;
  bool own = false;          ///< over the rank's own keys, where they lie
  int state = -1;            ///< its place among the f32 results; -1: the output itself
  std::uint32_t behind = 0;  ///< ranks whose keys it needs, a bit each; none beyond the 32nd
};

/// A call of one rank, checked, before memory is known.
struct Call {
  const ContextFmhaArgs& args;
  SplitShape shape;
  int rank = 0;
  Way way = Way::messages;
  Gathered k = {}, v = {};
  std::vector<Part> parts = {};
  std::vector<Range> single = {}, merged = {};  ///< the output's rows by the states that they have: the first, or all
  Tensor states = {}, lse_states = {};          ///< of parts that are merged; no rows where none is

  Order order = Order::predicted;
  Rates rates = {};

  std::size_t state_bytes() const;
  std::size_t lse_bytes() const;
  FmhaArgs part(std::size_t n) const;
  std::vector<MergeStatesArgs> merges() const;
};

/// Checks numbers of enums. Throws tj::Error(argument).
void check_split(const ContextFmhaArgs& args);
/// Checks this rank's own arguments. Throws tj::Error(argument).
void check_own(const Member& member, const ContextFmhaArgs& args);
/// The rows of each rank, checked. Throws tj::Error(argument).
std::vector<std::int64_t> lengths_of(const ContextFmhaArgs& args, int rank, int size);
/// May keys be exchanged, with these masks?
bool served_by_keys(const ContextFmhaArgs& args);
/// Do all ranks exchange heads? Equal on all of them. Throws tj::Error(argument) where that is asked for and cannot be.
bool takes_heads(const Member& member, const ContextFmhaArgs& args);
/// Throws tj::Error(argument).
Call checked(const Member& member, const ContextFmhaArgs& args, Way way);
/// The way that a rank is predicted to be fastest by, where bytes travel by copies: equal on all ranks.
Way way_of(const Call& call, int rank);
/// Rows that a rank gathers, and those that `from` sends it, by its way; rows that go on at both ends are one transfer.
std::int64_t rows_to_gather(const Call& call, Way way, int rank);
std::vector<Transfer> transfers(const Call& call, Way way, int from, int to);

inline const ops::Op& fmha_op() { return detail::op_of<FmhaArgs>(); }
inline const ops::Op& merge_op() { return detail::op_of<MergeStatesArgs>(); }

/// f32 results of up to so many bytes lie behind the keys in the rank's own slot. The pool keeps less between calls
/// than long rows need, and allocating afresh costs more than products of few rows.
inline constexpr std::int64_t kMostKeptBytes = std::int64_t{512} << 20;

/// Bytes of a call's own memory are at multiples of this.
inline constexpr std::size_t kPartAlignment = 256;
inline std::size_t rounded(std::size_t bytes) { return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment; }
inline std::byte* address(const void* base, std::int64_t bytes) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(base)) + bytes;
}

}  // namespace tj::dist
