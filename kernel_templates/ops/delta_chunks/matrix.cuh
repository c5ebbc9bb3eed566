// The solved matrix of a chunk: the bodies that all kernels with it have.
//
// Decides what one block does for a chunk and a head. With G the running sum of the gates, from the chunk's begin:
//   L = strictLower(beta_i k_i k_j), T = (I + L)^-1, A = lower(e^(G_i - G_j) T)
// L has no gate in it, so nothing of it overflows: with E = diag(e^G), (I + E L E^-1)^-1 = E T E^-1. What normalises
// rows is in L. Blocks of 16 x 16 of T, i the row's and j the column's:
//   T_jj by substitution in f32 and a product (blocks.cuh), T_ij = T_ii sum_(j <= k < i) (-L_ik) T_kj
// Warp w makes L of rows w, then T of columns w. Its blocks of T are transposed. A product's result in registers is
// then the next left operand; right ones come from shared memory.
// Invariant: rows of no token reach no row nor column of one.
#pragma once

#include "ops/delta_chunks/blocks.cuh"
#include "ops/delta_chunks/chunks.cuh"
#include "ops/delta_chunks/gates.cuh"

namespace tj::ops::delta_chunks {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
/// A chunk of the launch's range and a head, heads first.
struct Tile {
  int index;
  bool valid;
  int trip_count;  ///< 0: there is no such chunk
  int record, head;
  Place place;
};
template <class C>
TJ_DEVICE Tile tile_at(const SolveParams& params, int index) {
  Tile tile{index, index < params.tiles, 0, 0, 0, {0, 0, 0}};
  if (!tile.valid) return tile;
  const gated_delta_rule::Params& rule = params.rule;
  const Records& records = params.records;
  const int chunk = divided(index, records.by_heads);
  tile.head = index - chunk * records.heads;
  chunks::Span tokens{0, rule.tokens};
  int sequence, before;  // records of sequences before this one
  if (rule.cu_seqlens == nullptr) {
    tile.place.batch = sequence = divided(chunk, records.by_count);
    before = sequence * records.chunks;
  } else {  // with a range, the list has one sequence
    sequence = chunks::sequence_of(rule.cu_seqlens, rule.tokens, records.sequences, chunk, tokens);
    before = tokens.begin / kChunk + sequence;
    tile.place.token = tokens.begin;
  }
  const int number = records.count > 0 ? records.first + chunk - sequence * records.count : chunk - before;
  if (number < 0 || number > (tokens.end - tokens.begin) / kChunk) return tile;
  tile.record = before + number;
  tile.place.token += number * kChunk;
  tile.place.rows = min(kChunk, tokens.end - tile.place.token);
  tile.trip_count = tile.place.rows > 0 ? 1 : 0;
  return tile;
}

template <class C_>
struct Loader {
  using C = C_;
  const SolveParams& params;
  TJ_DEVICE Loader(const SolveParams& p, int) : params(p) {
    dev::prefetch_map(&p.k);
    dev::prefetch_map(&p.q);
  }
};
template <class C>
TJ_DEVICE void load_k(Loader<C>& loader, const Tile& tile, int, u32 slot, u32 full) {
  const SolveParams& params = loader.params;
  copy_chunk(params, &params.k, tile.place, divided(tile.head, params.rule.by_k), 0, C::kHeadDim, slot, full);
}
inline constexpr int kBlocks = kChunk / kBlockRows, kSteps = kSwizzleColumns / kMatrixK;
static_assert(kBlocks == kSolveWarps, "a warp has a row and a column of blocks");
/// Warps that do for all what a chunk needs once. Warps 0 and 3 have most products of blocks.
inline constexpr int kGateWarp = 1, kNumberWarp = 2;

/// A block left of the diagonal: those of row 1, of row 2, of row 3.
TJ_DEVICE u32 lower_block(u32 lower, int row, int column) {
  return lower + static_cast<u32>((row * (row - 1) / 2 + column) * kBlockTerms);
}

/// Four warps: rows of blocks, then columns of them.
template <class C_>
struct Solver {
  using C = C_;
  const SolveParams& params;
  float with_k[kChunk / 2], with_q[kChunk / 2];  ///< rows of k k^T; of q k^T, then P and B: up to the diagonal
  float diagonal[8];                             ///< the diagonal's block of L
  Terms columns[kBlocks - 1];                    ///< of T, transposed, from the diagonal on
  float solved[kBlocks - 1][8];                  ///< the same below the diagonal, in f32
  Numbers numbers;                               ///< of the warp that sums gates
  const int own;                                 ///< the warp's row of blocks, and its column
  TJ_DEVICE Solver(const SolveParams& p, int) : params(p), own(static_cast<int>(dev::warp_index() % kSolveWarps)) {}
};

/// Gates and beta are asked for, and added up later: memory answers after a thousand cycles.
template <class C>
TJ_DEVICE void ask_gates(Solver<C>& solver, const Tile& tile, int) {
  if (solver.own == kGateWarp) solver.numbers = load_numbers<C>(solver.params.rule, tile.place, tile.head);
}

// ---- products of tokens ---------------------------------------------------------------------------------------------
/// The record of this tile: where its row 0 is, or would be.
template <class C>
TJ_DEVICE unsigned char* record_of(const SolveParams& params, const Tile& tile) {
  constexpr int kBytes = kRowsOfRecord<C> * kRowBytes;
  return params.records.data + (static_cast<long long>(tile.record) * params.records.heads + tile.head) * kBytes -
         kFirstRow<C> * kRowBytes;
}

/// Factors that normalise sixteen rows, from the squares on the diagonal of a product: a quad has one of each half in a
/// lane. `factors`: that of the first row.
TJ_DEVICE void put_factors(const gated_delta_rule::Params& rule, u32 factors, float scale, const float (&product)[8]) {
  const int lane = static_cast<int>(dev::lane_index());
  if (lane % 4 != lane / 8) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float square = lane / 4 % 2 != 0 ? product[6 * i + 1] : product[6 * i];
    const float factor = has(rule, gated_delta_rule::kNormalise)
                             ? gated_delta_rule::inverse_root(square + gated_delta_rule::kNormaliseEpsilon)
                             : 1.0f;
    dev::store_shared(token_number(factors, lane / 4 + 8 * i), factor * scale);
  }
}

/// An operand of a step of K: `place`, a lane's of the first step, counts from the tokens' slot.
TJ_DEVICE void load_rows(u32 tokens, u32 place, int step, u32 (&words)[4]) {
  const u32 pieces = static_cast<u32>(step) % kSteps * 2;
  dev::load_matrices(tokens + static_cast<u32>(step) / kSteps * kBlockBytes + dev::pieces_on(place, pieces), words);
}

/// Factors of sixteen rows, times the scale. A left operand's words of eight rows are the right operand of these rows
/// as columns.
template <class C>
TJ_DEVICE void square_rows(const Solver<C>& solver, u32 tokens, u32 place, u32 factors, float scale) {
  float squares[8] = {};
#pragma unroll
  for (int step = 0; step < C::kHeadDim / kMatrixK; ++step) {
    u32 rows[4];
    load_rows(tokens, place, step, rows);
    dev::multiply_16(typename C::Element{}, squares, rows, {rows[0], rows[2], rows[1], rows[3]});
  }
  put_factors(solver.params.rule, token_number(factors, solver.own * kBlockRows), scale, squares);
}

/// The place of the warp's rows that a lane names.
template <class C>
TJ_DEVICE u32 first_rows(const Solver<C>& solver) {
  return static_cast<u32>(solver.own) * kBlockRows * kSwizzleRowBytes + dev::down_place();
}

/// Numbers of a block of columns, as a product of warps has them.
TJ_DEVICE float (&block_of(float (&rows)[kChunk / 2], int j))[8] {
  return *reinterpret_cast<float(*)[8]>(rows + 8 * j);
}

/// rows = tokens k^T: sixteen of each warp, as multiply_16() has them. Columns behind the diagonal's block are not
/// used.
template <class C>
TJ_DEVICE void multiply_rows(float (&rows)[kChunk / 2], u32 tokens, u32 k) {
  dev::hold(rows);
  const u64 left = dev::matrix_operand(tokens, 16, kSwizzleAtomBytes),
            right = dev::matrix_operand(k, 16, kSwizzleAtomBytes);
#pragma unroll
  for (int block = 0; block < C::kHeadDim / kSwizzleColumns; ++block) {
    const u32 further = static_cast<u32>(block) * kBlockBytes;
    dev::matrix_multiply<dev::MatrixSteps<kSteps, kMatrixK * 2, kMatrixK * 2, 0>>(
        typename C::Element{}, rows, dev::operand_advance(left, further), dev::operand_advance(right, further),
        block != 0);
  }
}

/// with_k = k k^T.
template <class C>
TJ_DEVICE void multiply_keys(Solver<C>& solver, const Tile&, int, u32 k) {
  multiply_rows<C>(solver.with_k, k, k);
}
template <class C>
TJ_DEVICE void multiply_keys_done(Solver<C>& solver) {
  dev::hold(solver.with_k);
}

/// Factors of the rows of k, from the squares on the diagonal of k k^T. Without the holds, compilers make one load of
/// the blocks, from where no registers are.
template <class C>
TJ_DEVICE void square_keys(Solver<C>& solver, const Tile&, int, u32 factors) {
  float squares[8] = {};
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    float block[8];
#pragma unroll
    for (int at = 0; at < 8; ++at) block[at] = block_of(solver.with_k, j)[at];
    dev::hold(block);
#pragma unroll
    for (int at = 0; at < 8; ++at) squares[at] = j == solver.own ? block[at] : squares[at];
  }
  put_factors(solver.params.rule, token_number(factors, solver.own * kBlockRows), 1.0f, squares);
}

/// Numbers of a lane's four tokens of a block: 2q, 2q + 1, and the two that are eight further on.
TJ_DEVICE void numbers_of_pairs(u32 list, int block, float (&numbers)[4]) {
  const int column = kBlockRows * block + 2 * static_cast<int>(dev::lane_index() % 4);
#pragma unroll
  for (int at = 0; at < 4; ++at)
    numbers[at] = dev::load_shared<float>(token_number(list, column + at / 2 * 8 + at % 2));
}
/// A list's numbers of two tokens, eight apart; 0 where there is no token.
TJ_DEVICE void numbers_of_rows(const Tile& tile, u32 list, int row, float (&numbers)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i)
    numbers[i] = row + 8 * i < tile.place.rows ? dev::load_shared<float>(token_number(list, row + 8 * i)) : 0.0f;
}

/// L from k k^T. Its blocks left of the diagonal go to shared memory, negative; the diagonal's stays.
template <class C>
TJ_DEVICE void compare_tokens(Solver<C>& solver, const Tile& tile, int, u32 factors, u32 gates, u32 lower) {
  const int lane = static_cast<int>(dev::lane_index()), own = solver.own, row = lane / 4,
            first = own * kBlockRows + row;
  float factor[2], beta[2];
  numbers_of_rows(tile, factors, first, factor);
  numbers_of_rows(tile, beta_list<C>(gates), first, beta);
#pragma unroll
  for (int i = 0; i < 2; ++i) factor[i] *= -beta[i];
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    if (j > own) continue;
    float of_column[4], block[8];
    numbers_of_pairs(factors, j, of_column);
#pragma unroll
    for (int at = 0; at < 8; ++at)
      block[at] = block_of(solver.with_k, j)[at] * factor[at / 2 % 2] * of_column[at / 4 * 2 + at % 2];
    if (j < own) {
      Terms terms;
      split_block(block, terms);
      store_terms(lower_block(lower, own, j), terms);
    } else {
#pragma unroll
      for (int at = 0; at < 8; ++at) {
        const int column = at / 4 * 8 + 2 * (lane % 4) + at % 2;
        solver.diagonal[at] = column < row + 8 * (at / 2 % 2) ? -block[at] : 0.0f;
      }
    }
  }
}

// ---- the inverse ----------------------------------------------------------------------------------------------------
/// Blocks of T on the diagonal, one of a warp: transposed, for all warps.
template <class C>
TJ_DEVICE void invert_blocks(Solver<C>& solver, const Tile&, int, u32 inverses) {
  const u32 place = inverses + static_cast<u32>(solver.own * kBlockTerms);
  const int lane = static_cast<int>(dev::lane_index()), quarter = lane / kQuarterRows;
  float rows[kQuarterRows];
  store_quarters(place, solver.diagonal);
  dev::warp_sync();
  substitute(place + (quarter == 1 ? kQuarterBytes : 0), quarter < 2 ? lane % kQuarterRows : -1, rows);
  dev::warp_sync();
  store_columns(place, rows);
  dev::warp_sync();
  store_below(place, solver.diagonal);
}

/// Blocks of T so many below the diagonal. All warps write the members, so that nothing of them outlives a tile.
template <int Apart, class C>
TJ_DEVICE void solve_apart(Solver<C>& solver, u32 lower, u32 inverses) {
  const int own = solver.own, row = own + Apart;
  float(&solved)[8] = solver.solved[Apart - 1];
#pragma unroll
  for (float& number : solved) number = 0.0f;
  if (row < kBlocks) {
    float sums[8] = {};
    Terms left, right;
#pragma unroll
    for (int k = 0; k < Apart; ++k) {
      load_terms(lower_block(lower, row, own + k), right);
      multiply_terms(sums, solver.columns[k], right);
    }
    split_block(sums, left);
    load_terms_transposed(inverses + static_cast<u32>(row * kBlockTerms), right);
    multiply_terms(solved, left, right);
  }
  if constexpr (Apart < kBlocks - 1) split_block(solved, solver.columns[Apart]);
}
template <class C>
TJ_DEVICE void solve_first(Solver<C>& solver, const Tile&, int, u32 lower, u32 inverses) {
  load_terms(inverses + static_cast<u32>(solver.own * kBlockTerms), solver.columns[0]);
  solve_apart<1>(solver, lower, inverses);
}
template <class C>
TJ_DEVICE void solve_second(Solver<C>& solver, const Tile&, int, u32 lower, u32 inverses) {
  solve_apart<2>(solver, lower, inverses);
}
template <class C>
TJ_DEVICE void solve_third(Solver<C>& solver, const Tile&, int, u32 lower, u32 inverses) {
  solve_apart<3>(solver, lower, inverses);
}

/// A fades, a warp's sixteen columns of it, and zeros above the diagonal. `put` takes each block of rows as it is in
/// registers, which is transposed. Its left two matrices of 8 x 8 have eight columns each, of the block's rows 0 to 7
/// first.
template <class C, class Put>
TJ_DEVICE void for_blocks(const Solver<C>& solver, u32 gates, const Put& put) {
  int own = solver.own;
  dev::hold(own);  // places follow from it here, and wait in no registers
  const int lane = static_cast<int>(dev::lane_index()), first = own * kBlockRows + lane / 4;
  const float sums[2] = {sum_of<C>(gates, first), sum_of<C>(gates, first + 8)};
#pragma unroll
  for (int apart = 0; apart < kBlocks; ++apart) {
    const int block = (own + apart) % kBlocks;
    u32 words[4] = {};
    if (solver.own + apart < kBlocks) {
      float row_sum[4] = {};
      if constexpr (!C::kChannelGate) numbers_of_pairs(gates, block, row_sum);
#pragma unroll
      for (int w = 0; w < 4; ++w) {  // columns first + 8 (w % 2), two rows of eight w / 2
        float pair[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int row = kBlockRows * block + 8 * (w / 2) + 2 * (lane % 4) + e;
          const float fade = fade_between<C>(row_sum[w / 2 * 2 + e], sums[w % 2]);
          const float number =
              apart == 0 ? number_of_terms(solver.columns[0], 2 * w + e) : solver.solved[apart - 1][2 * w + e];
          pair[e] = apart > 0 || row >= first + 8 * (w % 2) ? number * fade : 0.0f;
        }
        words[w] = dev::pack(typename C::Element{}, pair[0], pair[1]);
      }
    }
    put(block, words);
  }
}

}  // namespace tj::ops::delta_chunks
