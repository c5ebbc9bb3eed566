// Weights between a chunk's tokens: the bodies of the kernel that makes records.
//
// Decides what is made beside the solved matrix (matrix.cuh):
//   P = lower(q_i k_j) scale, B = lower(e^(G_i - G_j) P T)
// Without the delta T is the identity, and B is P that fades: what solves is left out of the graph.
// B takes what states ask of tokens to results. So B is all that results see of T, and rounding A costs them nothing.
// Numbers of P are alike where keys repeat, and those of B cancel in f32. Warp w has rows w of B, from P in
// registers: B_ij = (P_ij - sum_(j < k <= i) B_ik L_kj) T_jj. It has as many blocks of B as T leaves it time for.
// Invariant: rows of no token reach no row nor column of one.
#pragma once

#include "ops/delta_chunks/matrix.cuh"

namespace tj::ops::delta_chunks {

template <class C>
TJ_DEVICE void load_q(Loader<C>& loader, const Tile& tile, int, u32 slot, u32 full) {
  const SolveParams& params = loader.params;
  copy_chunk(params, &params.q, tile.place, divided(tile.head, params.rule.by_q), 0, C::kHeadDim, slot, full);
}

/// Factors that normalise the rows of k, where nothing multiplies k with k.
template <class C>
TJ_DEVICE void normalise_keys(Solver<C>& solver, const Tile&, int, u32 k, u32 factors) {
  square_rows(solver, k, first_rows(solver), factors, 1.0f);
}

template <class C>
TJ_DEVICE void sum_gates(Solver<C>& solver, const Tile& tile, int, u32 gates) {
  if (solver.own == kGateWarp) sum_gates<C>(solver.params.rule, solver.numbers, tile.place, gates);
}

// ---- weights -------------------------------------------------------------------------------------------------------
/// Factors that normalise the rows of q, and their scale.
template <class C>
TJ_DEVICE void square_queries(Solver<C>& solver, const Tile&, int, u32 q, u32 q_factors) {
  square_rows(solver, q, first_rows(solver), q_factors, solver.params.rule.scale);
}
/// with_q = q k^T.
template <class C>
TJ_DEVICE void multiply_queries(Solver<C>& solver, const Tile&, int, u32 k, u32 q) {
  multiply_rows<C>(solver.with_q, q, k);
}
template <class C>
TJ_DEVICE void multiply_queries_done(Solver<C>& solver) {
  dev::hold(solver.with_q);
}

/// Zeros above the diagonal of a block.
TJ_DEVICE void mask_above(float (&block)[8]) {
  const int lane = static_cast<int>(dev::lane_index());
#pragma unroll
  for (int at = 0; at < 8; ++at)
    block[at] = at / 4 * 8 + 2 * (lane % 4) + at % 2 <= lane / 4 + at / 2 % 2 * 8 ? block[at] : 0.0f;
}

/// P without gates, in place of q k^T.
template <class C>
TJ_DEVICE void weigh_queries(Solver<C>& solver, const Tile& tile, int, u32 factors, u32 q_factors) {
  const int lane = static_cast<int>(dev::lane_index()), own = solver.own, row = own * kBlockRows + lane / 4;
  float factor[2];
  numbers_of_rows(tile, q_factors, row, factor);
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    if (j > own) continue;
    float(&block)[8] = block_of(solver.with_q, j);
    float of_column[4];
    numbers_of_pairs(factors, j, of_column);
#pragma unroll
    for (int at = 0; at < 8; ++at) block[at] *= factor[at / 2 % 2] * of_column[at / 4 * 2 + at % 2];
    if (j == own) mask_above(block);
  }
}

/// B = P T, in place of P: a warp's blocks from the diagonal to the left. Each one that is done leaves those that wait.
template <class C>
TJ_DEVICE void solve_weights(Solver<C>& solver, const Tile&, int, u32 lower, u32 inverses) {
#pragma unroll
  for (int j = kBlocks - 1; j >= 0; --j) {
    if (j > solver.own) continue;
    Terms left, right;
    split_block(block_of(solver.with_q, j), left);
    load_terms_crossed(inverses + static_cast<u32>(j * kBlockTerms), right);
#pragma unroll
    for (float& number : block_of(solver.with_q, j)) number = 0.0f;
    multiply_terms(block_of(solver.with_q, j), left, right);
    if (j > 0) split_block(block_of(solver.with_q, j), left);
#pragma unroll
    for (int m = 0; m < j; ++m) {
      load_terms_transposed_crossed(lower_block(lower, j, m), right);
      multiply_terms(block_of(solver.with_q, m), left, right);
    }
  }
}

/// B fades, a warp's sixteen rows of it, and zeros above the diagonal: as rows of a record.
template <class C>
TJ_DEVICE void put_weights(Solver<C>& solver, const Tile&, int, u32 gates, u32 weights) {
  const int lane = static_cast<int>(dev::lane_index()), own = solver.own, row = own * kBlockRows + lane / 4;
  const float sums[2] = {sum_of<C>(gates, row), sum_of<C>(gates, row + 8)};
  const u32 place = weights + first_rows(solver);
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    u32 words[4] = {};
    if (j <= own) {
      float column_sum[4] = {}, faded[8];
      if constexpr (!C::kChannelGate) numbers_of_pairs(gates, j, column_sum);
#pragma unroll
      for (int at = 0; at < 8; ++at)
        faded[at] = block_of(solver.with_q, j)[at] * fade_between<C>(sums[at / 2 % 2], column_sum[at / 4 * 2 + at % 2]);
      if (j == own) mask_above(faded);
#pragma unroll
      for (int w = 0; w < 4; ++w) words[w] = dev::pack(typename C::Element{}, faded[2 * w], faded[2 * w + 1]);
    }
    dev::store_matrices(dev::pieces_on(place, static_cast<u32>(2 * j)), words);
  }
}

// ---- numbers of tokens ----------------------------------------------------------------------------------------------
template <class C>
TJ_DEVICE void put_numbers(Solver<C>& solver, const Tile& tile, int, u32 factors, u32 q_factors, u32 gates) {
  if (solver.own != kNumberWarp) return;
  const gated_delta_rule::Params& rule = solver.params.rule;
  const float last = sum_of<C>(gates, kChunk - 1);
  unsigned char* const record = record_of<C>(solver.params, tile) + 2 * kBlockBytes;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = static_cast<int>(dev::lane_index()) + 32 * half;
    const bool inside = token < tile.place.rows;
    const float sum = sum_of<C>(gates, token), beta = dev::load_shared<float>(token_number(beta_list<C>(gates), token)),
                k_factor = dev::load_shared<float>(token_number(factors, token)),
                q_factor = dev::load_shared<float>(token_number(q_factors, token)), before = fade_between<C>(sum, 0.0f);
    const auto put = [&](Number list, float value) {
      dev::store_global(reinterpret_cast<float*>(record + list * 2 * kSwizzleRowBytes + number_place(token)), value);
    };
    if constexpr (C::kDelta) put(kFade, inside ? before * k_factor * beta : 0.0f);
    put(kBeta, beta);
    put(kKeep, inside ? fade_between<C>(last, sum) * k_factor : 0.0f);
    put(kOut, inside ? before * q_factor : 0.0f);
    put(kTotal, half == 0 ? fade_between<C>(last, 0.0f) : 0.0f);
  }
}

/// A, as rows of a record.
template <class C>
TJ_DEVICE void put_blocks(Solver<C>& solver, const Tile&, int, u32 gates, u32 matrix) {
  const u32 place = matrix + dev::pieces_on(dev::across_place(), static_cast<u32>(2 * solver.own));
  for_blocks(solver, gates, [&](int block, const u32(&words)[4]) {
    dev::store_matrices_transposed(place + static_cast<u32>(block * kBlockRows * kSwizzleRowBytes), words);
  });
}

// ---- rows to memory -------------------------------------------------------------------------------------------------
/// Brings to the record what the warps have left in shared memory.
template <class C_>
struct Writer {
  using C = C_;
  const SolveParams& params;
  TJ_DEVICE Writer(const SolveParams& p, int) : params(p) {}
};
template <class C>
TJ_DEVICE int row_of_record(const Writer<C>& writer, const Tile& tile) {
  return (tile.record * writer.params.records.heads + tile.head) * kRowsOfRecord<C> - kFirstRow<C>;
}
template <class C>
TJ_DEVICE void store_record(Writer<C>& writer, const Tile& tile, int, u32 matrix, u32 weights) {
  const int row = row_of_record(writer, tile);
  dev::store_box_4d(&writer.params.record_rows, matrix, 0, row, 0, 0);
  dev::store_box_4d(&writer.params.record_rows, weights, 0, row + kChunk, 0, 0);
}
template <class C>
TJ_DEVICE void store_weights(Writer<C>& writer, const Tile& tile, int, u32 weights) {
  dev::store_box_4d(&writer.params.record_rows, weights, 0, row_of_record(writer, tile) + kChunk, 0, 0);
}

}  // namespace tj::ops::delta_chunks
