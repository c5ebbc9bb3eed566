// Weights between a chunk's tokens: the bodies of the kernel that makes records.
//
// Decides what one block does for a chunk and a head. With G the running sum of the gates, from the chunk's begin:
//   L = strictLower(beta_i k_i k_j), T = (I + L)^-1 in f32, A = lower(e^(G_i - G_j) T),
//   P = lower(e^(G_i - G_j) q_i k_j) scale
// L has no gate in it, so nothing of it overflows: with E = diag(e^G), (I + E L E^-1)^-1 = E T E^-1. What normalises
// rows is in L, P and the numbers. Invariant: rows of no token reach no row nor column of one.
#pragma once

#include "ops/delta_chunks/chunks.cuh"

namespace tj::ops::delta_chunks {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using gated_delta_rule::has;

/// A chunk and a head, heads first.
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
  tile.record = divided(index, params.records.by_heads);
  tile.head = index - tile.record * params.records.heads;
  int number = tile.record, end = rule.tokens;  // of the sequence's chunks
  if (rule.cu_seqlens == nullptr) {
    tile.place.batch = divided(tile.record, params.records.by_chunks);
    number -= tile.place.batch * params.records.chunks;
  } else {
    int low = 0, high = params.records.sequences - 1;  // the last sequence whose records begin no later
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (bound_at(rule, middle) / kChunk + middle <= tile.record)
        low = middle;
      else
        high = middle - 1;
    }
    tile.place.token = bound_at(rule, low);
    number -= tile.place.token / kChunk + low;
    end = bound_at(rule, low + 1);
  }
  if (number < 0 || number > (end - tile.place.token) / kChunk) return tile;
  tile.place.token += number * kChunk;
  tile.place.rows = min(kChunk, end - tile.place.token);
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
template <class C>
TJ_DEVICE void load_q(Loader<C>& loader, const Tile& tile, int, u32 slot, u32 full) {
  const SolveParams& params = loader.params;
  copy_chunk(params, &params.q, tile.place, divided(tile.head, params.rule.by_q), 0, C::kHeadDim, slot, full);
}

/// Four warps. Each has the gates and beta of all tokens: those of tokens lane and lane + 32.
template <class C_>
struct Solver {
  using C = C_;
  const SolveParams& params;
  float sums[2];  ///< G in powers of two
  float beta[2];
  TJ_DEVICE Solver(const SolveParams& p, int) : params(p) {}
};

TJ_DEVICE u32 solver_warp() { return dev::warp_index() % kSolveWarps; }
TJ_DEVICE float of_token(const float (&values)[2], int token) {
  const float low = dev::shuffle_from(values[0], token % 32), high = dev::shuffle_from(values[1], token % 32);
  return token < 32 ? low : high;
}

/// The logarithm of a token's decay, to the base 2. A decay of 0 is one that nothing is left of in f32.
template <class C>
TJ_DEVICE float log_decay(const gated_delta_rule::Params& rule, const gated_delta_rule::Position& at) {
  constexpr float kNothing = -150.0f;
  const typename C::Element tag{};
  if (rule.gate.data == nullptr) return 0.0f;
  const bool half = has(rule, gated_delta_rule::kGateHalf);
  float gate = gated_delta_rule::value_of(
      tag, gated_delta_rule::load_number(gated_delta_rule::number_of_token(rule.gate, at), half), half);
  if (has(rule, gated_delta_rule::kGateExp))
    gate = dev::log2_approx(gate);
  else if (has(rule, gated_delta_rule::kGateRaw))
    gate = gated_delta_rule::raw_gate<typename C::Element>(rule, at.head, gate) * gated_delta_rule::kLog2E;
  else
    gate *= gated_delta_rule::kLog2E;
  return gate < kNothing ? kNothing : gate;
}

template <class C>
TJ_DEVICE void take_gates(Solver<C>& solver, const Tile& tile, int) {
  const gated_delta_rule::Params& rule = solver.params.rule;
  const int lane = static_cast<int>(dev::lane_index());
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = lane + 32 * half;
    const gated_delta_rule::Position at{tile.place.batch, tile.place.token + token, tile.head};
    float gate = 0.0f, beta = 0.0f;
    if (token < tile.place.rows) {
      gate = log_decay<C>(rule, at);
      beta = gated_delta_rule::beta_of<typename C::Element>(rule, at);
    }
    solver.sums[half] = gate;
    solver.beta[half] = beta;
  }
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float before = dev::shuffle_from(solver.sums[half], lane < apart ? lane : lane - apart);
      solver.sums[half] += lane < apart ? 0.0f : before;
    }
  }
  solver.sums[1] += dev::shuffle_from(solver.sums[0], 31);
}

/// Factors that normalise the rows of k, then of q, times the scale; a row for each thread.
template <class C>
TJ_DEVICE void normalise_rows(Solver<C>& solver, const Tile&, int, u32 k, u32 q, u32 factors) {
  const gated_delta_rule::Params& rule = solver.params.rule;
  const u32 thread = solver_warp() * 32 + dev::lane_index(), row = thread % kChunk;
  const bool of_q = thread >= kChunk;
  float squares = 0.0f;
  if (has(rule, gated_delta_rule::kNormalise)) {
#pragma unroll 4
    for (u32 piece = 0; piece < C::kHeadDim / 8; ++piece) {
      float words[4];
      dev::load_shared(dev::piece_address((of_q ? q : k) + piece / 8 * kBlockBytes, row, piece % 8), words);
#pragma unroll
      for (float word : words) {
        float low, high;
        dev::unpack(typename C::Element{}, dev::bits_of(word), low, high);
        squares = dev::multiply_add(low, low, squares);
        squares = dev::multiply_add(high, high, squares);
      }
    }
    squares = gated_delta_rule::inverse_root(squares + 1e-6f);
  } else {
    squares = 1.0f;
  }
  dev::store_shared(factors + thread * 4, of_q ? squares * rule.scale : squares);
}

// ---- products of tokens ---------------------------------------------------------------------------------------------
// L lies by columns, each kColumnBytes. Of a column the even rows come first, then the odd ones kOddBytes further on.
inline constexpr u32 kOddBytes = 144, kColumnBytes = 2 * kOddBytes;
TJ_DEVICE u32 lower_place(int row, int column) {
  return static_cast<u32>(column) * kColumnBytes + static_cast<u32>(row % 2) * kOddBytes +
         static_cast<u32>(row / 2) * 4;
}

/// The record of this tile.
TJ_DEVICE unsigned char* record_of(const SolveParams& params, const Tile& tile) {
  return params.records.data + (static_cast<long long>(tile.record) * params.records.heads + tile.head) * kRecordBytes;
}

/// Sixteen rows of a warp: with_k = k k^T, with_q = q k^T, up to the diagonal's block.
template <class C>
TJ_DEVICE void multiply_rows(u32 k, u32 q, float (&with_k)[4][8], float (&with_q)[4][8]) {
  const int own = static_cast<int>(solver_warp());
#pragma unroll
  for (int s = 0; s < C::kHeadDim / kMatrixK; ++s) {
    const u32 block = static_cast<u32>(s) / 4 * kBlockBytes, piece = static_cast<u32>(s) % 4 * 2;
    u32 of_k[4], of_q[4];
    const u32 row = static_cast<u32>(own) * 16 + dev::down_row();
    dev::load_matrices(dev::piece_address(k + block, row, piece + dev::down_piece()), of_k);
    dev::load_matrices(dev::piece_address(q + block, row, piece + dev::down_piece()), of_q);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j > own) continue;
      u32 keys[4];
      dev::load_matrices(
          dev::piece_address(k + block, static_cast<u32>(j) * 16 + dev::across_row(), piece + dev::across_piece()),
          keys);
      dev::multiply_16(typename C::Element{}, with_k[j], of_k, keys);
      dev::multiply_16(typename C::Element{}, with_q[j], of_q, keys);
    }
  }
}

/// The weights P go to the record, L into shared memory.
template <class C>
TJ_DEVICE void compare_tokens(Solver<C>& solver, const Tile& tile, int, u32 k, u32 q, u32 factors, u32 lower) {
  const gated_delta_rule::Params& rule = solver.params.rule;
  float with_k[4][8] = {}, with_q[4][8] = {};
  multiply_rows<C>(k, q, with_k, with_q);
  const int lane = static_cast<int>(dev::lane_index()), own = static_cast<int>(solver_warp());
  const bool delta = !has(rule, gated_delta_rule::kWithoutDelta);
  unsigned char* const weights = record_of(solver.params, tile) + kBlockBytes;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = own * 16 + lane / 4 + 8 * i;
    const float sum = of_token(solver.sums, row), beta = of_token(solver.beta, row);
    const float k_factor = dev::load_shared<float>(factors + static_cast<u32>(row) * 4) * beta,
                q_factor = dev::load_shared<float>(factors + static_cast<u32>(kChunk + row) * 4);
#pragma unroll
    for (int j = 0; j < 8; ++j) {  // of eight columns
      float weight[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = 8 * j + 2 * (lane % 4) + e;
        const float factor = dev::load_shared<float>(factors + static_cast<u32>(column) * 4);
        const float fade = dev::exp2_approx(sum - of_token(solver.sums, column));
        const int at = 4 * (j % 2) + 2 * i + e;
        const bool inside = row < tile.place.rows;
        weight[e] = inside && column <= row ? with_q[j / 2][at] * q_factor * factor * fade : 0.0f;
        dev::store_shared(lower + lower_place(row, column),
                          inside && delta && column < row ? with_k[j / 2][at] * k_factor * factor : 0.0f);
      }
      dev::store_global(weights + row * 128 + 16 * j + 4 * (lane % 4),
                        dev::pack(typename C::Element{}, weight[0], weight[1]));
    }
  }
}

// ---- the inverse ----------------------------------------------------------------------------------------------------
/// A list's numbers of tokens lane and lane + 32.
TJ_DEVICE void put_numbers(unsigned char* record, Number list, const float (&values)[2]) {
  const int lane = static_cast<int>(dev::lane_index());
#pragma unroll
  for (int half = 0; half < 2; ++half)
    dev::store_global(reinterpret_cast<float*>(record + 2 * kBlockBytes + list * 256 + number_place(lane + 32 * half)),
                      values[half]);
}
template <class C>
TJ_DEVICE void number_tokens(const Solver<C>& solver, const Tile& tile, u32 factors) {
  const gated_delta_rule::Params& rule = solver.params.rule;
  const int lane = static_cast<int>(dev::lane_index());
  const float last = dev::shuffle_from(solver.sums[1], 31);
  float fade[2], keep[2], out[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = lane + 32 * half;
    const bool inside = token < tile.place.rows;
    const float k_factor = dev::load_shared<float>(factors + static_cast<u32>(token) * 4),
                q_factor = dev::load_shared<float>(factors + static_cast<u32>(kChunk + token) * 4),
                before = dev::exp2_approx(solver.sums[half]);
    fade[half] = inside && !has(rule, gated_delta_rule::kWithoutDelta) ? before * k_factor * solver.beta[half] : 0.0f;
    keep[half] = inside ? dev::exp2_approx(last - solver.sums[half]) * k_factor : 0.0f;
    out[half] = inside ? before * q_factor : 0.0f;
  }
  unsigned char* const record = record_of(solver.params, tile);
  const float total[2] = {dev::exp2_approx(last), 0.0f};
  put_numbers(record, kFade, fade);
  put_numbers(record, kBeta, solver.beta);
  put_numbers(record, kKeep, keep);
  put_numbers(record, kOut, out);
  put_numbers(record, kTotal, total);
}

/// Sixteen columns of T for a warp: two lanes have one, its even and its odd rows. Substitution from the first row on.
TJ_DEVICE void substitute(u32 lower, int block, float (&rows)[32]) {
  const int lane = static_cast<int>(dev::lane_index()), odd = lane / 16, column = 16 * block + lane % 16;
#pragma unroll
  for (int m = 0; m < 32; ++m) rows[m] = 2 * m + odd == column ? 1.0f : 0.0f;
  lower += static_cast<u32>(odd) * kOddBytes;
#pragma unroll
  for (int of = 0; of < 4; ++of) {
    if (of < block) continue;  // rows above the first column's are zeros
#pragma unroll
    for (int k = 16 * of; k < 16 * of + 16; ++k) {
      const float known = dev::shuffle_from(rows[k / 2], k % 2 * 16 + lane % 16);
#pragma unroll
      for (int m = k / 8 * 4; m < 32; m += 4) {
        float four[4];
        dev::load_shared(lower + static_cast<u32>(k) * kColumnBytes + static_cast<u32>(m) * 4, four);
#pragma unroll
        for (int e = 0; e < 4; ++e) rows[m + e] = dev::multiply_add(-four[e], known, rows[m + e]);
      }
    }
  }
}

/// A goes to the record, and the numbers. Warps take the blocks of columns in turns, as the first takes the longest.
template <class C>
TJ_DEVICE void solve(Solver<C>& solver, const Tile& tile, int, u32 factors, u32 lower) {
  const int lane = static_cast<int>(dev::lane_index()), odd = lane / 16;
  const int block = (static_cast<int>(solver_warp()) + tile.index) % 4, column = 16 * block + lane % 16;
  if (block == 3) number_tokens<C>(solver, tile, factors);
  float rows[32];
  substitute(lower, block, rows);
  const float sum = of_token(solver.sums, column);
#pragma unroll
  for (int m = 0; m < 32; ++m) {
    const int row = 2 * m + odd;
    const float fade = dev::exp2_approx(of_token(solver.sums, row) - sum);
    rows[m] = column <= row ? rows[m] * fade : 0.0f;
  }
  unsigned char* const to = record_of(solver.params, tile) + (column & ~1) * 2;
#pragma unroll
  for (int m = 0; m < 32; m += 2) {  // neighbours have two columns of a row each
    const bool right = lane % 2 != 0;
    const float other = dev::shuffle_xor(right ? rows[m] : rows[m + 1], 1);
    const int row = 2 * (right ? m + 1 : m) + odd;
    dev::store_global(to + row * 128, right ? dev::pack(typename C::Element{}, other, rows[m + 1])
                                            : dev::pack(typename C::Element{}, rows[m], other));
  }
}

}  // namespace tj::ops::delta_chunks
