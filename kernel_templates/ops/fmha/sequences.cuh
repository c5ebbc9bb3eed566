// Sequences of different lengths, one behind the other: where one lies that a tile works on, and boxes that end with
// it.
//
// Example: lengths 5, 0 and 3 are the list 0, 5, 5, 8. Decides which block of rows is whose, and what lists may say.
// Does not decide which keys a row sees (mask.cuh). A block of rows never reaches into another sequence: sequence n has
// the blocks from begin / rows + n on, which are enough for it and at most two too many. So the host knows how many
// there are in all from the rows and the sequences alone. Blocks without a row have no iteration, and nothing of them
// is stored.
//
// Lists may hold anything. Numbers are brought into the range that they may have, as they are read. So a wrong list
// makes a wrong result, and no access outside a tensor. Invariant: all roles that ask for a block get the same answer.
#pragma once

#include "ops/fmha/params.cuh"

namespace tj::ops::fmha {

/// The rows of one sequence among those of all.
struct Sequence {
  int number;
  int first_query, queries, first_key, keys;
};

/// A number of a list, at least 0 and at most `most`.
TJ_DEVICE int listed(const int* list, int place, int most) {
  return max(0, min(static_cast<int>(dev::load_global_u32(list + place)), most));
}
/// Queries of a block of rows.
template <class C>
TJ_DEVICE int block_queries(const Params& params) {
  return Packed<C>::kOn ? C::kRowsPerBlock >> params.group_shift : C::kRowsPerBlock;
}
/// Whole blocks of queries before a query. One thread asks often, and a division takes it forty cycles.
template <class C>
TJ_DEVICE int blocks_before(const Params& params, int query) {
  if constexpr (!Packed<C>::kOn) return query / C::kRowsPerBlock;
  static_assert(!Packed<C>::kOn || C::kRowsPerBlock == 64);
  return query >> (6 - params.group_shift);
}
/// The first block of rows that a sequence may have.
template <class C>
TJ_DEVICE int first_row_block(const Params& params, int sequence) {
  return blocks_before<C>(params, listed(params.cu_seqlens_q, sequence, params.queries)) + sequence;
}

/// The sequence that has a block of rows. Each look at the list asks for seven of its numbers together, as one takes as
/// long as all.
template <class C>
TJ_DEVICE int sequence_of(const Params& params, int block) {
  constexpr int kShares = 8;
  int found = 0, beyond = params.sequences;
#pragma unroll 1
  while (beyond - found > 1) {
    const int share = (beyond - found + kShares - 1) / kShares;
    int before = 0;
#pragma unroll
    for (int at = 1; at < kShares; ++at) {
      const int sequence = found + at * share;
      const bool begins = first_row_block<C>(params, min(sequence, beyond - 1)) <= block;
      before += sequence < beyond && begins ? 1 : 0;
    }
    found += before * share;
    beyond = min(beyond, found + share);
  }
  return found;
}

/// The keys of a sequence.
template <class C>
TJ_DEVICE void find_keys(const Params& params, Sequence& sequence) {
  const int at = sequence.number;
  if constexpr (kPaged<C>) {
    constexpr int kMost = 1 << 30;
    sequence.first_key = 0;
    sequence.keys = params.seqused_k != nullptr ? listed(params.seqused_k, at, params.keys)
                                                : min(params.keys, max(0, listed(params.cu_seqlens_k, at + 1, kMost) -
                                                                              listed(params.cu_seqlens_k, at, kMost)));
  } else {
    const int begin = listed(params.cu_seqlens_k, at, params.keys),
              end = listed(params.cu_seqlens_k, at + 1, params.keys);
    sequence.first_key = begin;
    sequence.keys = max(0, end - begin);
    if (params.seqused_k != nullptr) sequence.keys = listed(params.seqused_k, at, sequence.keys);
  }
}

/// The sequence of a block of rows, and the block's first row in it. A block without rows begins at the last row's end.
template <class C>
TJ_DEVICE Sequence sequence_at(const Params& params, int block, int& row) {
  Sequence sequence;
  const int at = sequence.number = sequence_of<C>(params, block);
  const int begin = listed(params.cu_seqlens_q, at, params.queries),
            end = listed(params.cu_seqlens_q, at + 1, params.queries);
  sequence.first_query = begin;
  sequence.queries = max(0, end - begin);
  row = (block - at - blocks_before<C>(params, begin)) * block_queries<C>(params);
  if (row < 0 || row > sequence.queries) row = sequence.queries;
  if constexpr (Packed<C>::kOn) row <<= params.group_shift;
  find_keys<C>(params, sequence);
  return sequence;
}

/// The place of a key whose sequence has pages: the page, and the row in it.
struct PagePlace {
  int page, row;
};
TJ_DEVICE PagePlace page_place(const Params& params, int sequence, int key) {
  const int index = min(divided(key, params.by_page), params.table_pages - 1);
  const int* const pages = params.block_table + sequence * params.table_stride;
  return {listed(pages, index, params.pages - 1), key - index * params.page_size};
}

/// The coordinates of a box of rows behind its columns. With kVarlen a box must end with the sequence, whose neighbour
/// may hold anything (types.cuh).
struct BoxPlace {
  int row, next, last;
};
/// rows: those from `row` on that the sequence has.
template <class C, int Rows>
TJ_DEVICE BoxPlace box_place(int first, int row, int rows, int head, int batch) {
  if constexpr (Varlen<C>::kOn) {
    const int inside = max(0, min(Rows, rows));
    return {kEndRows - inside, first + row + inside, head};
  } else {
    return {row, head, batch};
  }
}

/// Packed queries, as the box of rank 5 that plan.cpp says; rows of others, behind a sequence's end, harm no row.
template <class C>
TJ_DEVICE void copy_packed(const Params& params, dev::u32 slot, dev::u32 full, int column, int query, int head,
                           int batch) {
  static_assert(Packed<C>::kOn);
  dev::copy_box_5d(slot, &params.q, full, column, 0, query, head, batch);
}

template <class C>
TJ_DEVICE void copy_rows(dev::u32 slot, const TensorMap* map, dev::u32 full, int column, const BoxPlace& box) {
  if constexpr (Varlen<C>::kOn)
    dev::copy_box_5d(slot, map, full, column, box.row, box.next, kEndRows, box.last);
  else
    dev::copy_box_4d(slot, map, full, column, box.row, box.next, box.last);
}

}  // namespace tj::ops::fmha
