// Records of calls with gates of key channels: what differs from the kernel that makes records (solve.cuh).
//
// Decides how tokens fade towards each other where each key channel fades by itself. With C the running sum of a
// channel's gates, in powers of two and from the chunk's begin, all of these are sums over the channels:
//   L = strictLower(beta_i k_i k_j 2^(C_i - C_j)), P = lower(q_i k_j 2^(C_i - C_j)) scale
// A product of matrices needs a factor for each side, so columns j share a token m. Rows have k_i 2^(C_i - C_m) then,
// and columns k_j 2^(C_m - C_j). Sixteen columns left of the diagonal's block share their last token, and no exponent
// is above zero. In the diagonal's block eight columns share the fourth of them. A token's decay is at least 2^kLeast;
// smaller ones count as that. So exponents of columns are at most 104 off zero there, those of rows at most 104 above
// it. Nothing overflows. A row's factor that f32 flushes has a weight below 2^-22 (104 - 126). Factors are two terms
// of bf16 as in blocks.cuh, which has the range.
// Behind a record's numbers are three matrices. The state before the chunk is read by k_i 2^C_i, and for results by
// q_i 2^C_i. The state behind it keeps k_i 2^(C_last - C_i). All these exponents are at most zero.
// Invariant: rows of no token are zeros.
#pragma once

#include "ops/delta_chunks/solve.cuh"

namespace tj::ops::delta_chunks {

inline constexpr float kLeast = -26.0f;  ///< of a token's gate, in powers of two: 1.5e-8
inline constexpr int kColumns = 8, kMiddle = 3;

template <class C_>
struct ChannelSolver : Solver<C_> {
  using C = C_;
  TJ_DEVICE ChannelSolver(const SolveParams& p, int which) : Solver<C_>(p, which) {}
};

// ---- sums -----------------------------------------------------------------------------------------------------------
/// A token's sums lie as number_place() says, which gives a lane the channels of a step's operands in 16 bytes. Those
/// of an odd token are 64 bytes off, so that two rows lie in different banks.
template <class C>
TJ_DEVICE u32 sums_of_token(u32 sums, int token) {
  return sums + static_cast<u32>(token * C::kHeadDim) * 4u;
}
TJ_DEVICE u32 odd_token(int token) { return static_cast<u32>(token % 2) * 64u; }
/// A thread's sums are of channels 16 step + 2q + {0, 1, 8, 9}.
template <class C>
TJ_DEVICE void load_sums(u32 sums, int token, int step, float (&four)[4]) {
  const u32 place = static_cast<u32>(step) * 64u + dev::lane_index() % 4u * 16u;
  dev::load_shared(sums_of_token<C>(sums, token) + (place ^ odd_token(token)), four);
}

/// A thread's channel, of the K that there are.
template <class C>
TJ_DEVICE int own_channel(const ChannelSolver<C>& solver) {
  return solver.own * 32 + static_cast<int>(dev::lane_index());
}

/// Sums of a channel's gates up to each token; a token behind the sequence's end has gate 0.
template <class C>
TJ_DEVICE void sum_channels(ChannelSolver<C>& solver, const Tile& tile, int, u32 sums) {
  constexpr int kAtOnce = 16;  // loads under way
  const int channel = own_channel(solver);
  if (channel >= C::kHeadDim) return;
  const typename C::Element tag{};
  const gated_delta_rule::Params& rule = solver.params.rule;
  const bool half = has(rule, gated_delta_rule::kGateHalf);
  const unsigned char* const from =
      gated_delta_rule::number_of_token(rule.gate, {tile.place.batch, tile.place.token, tile.head}) +
      channel * (half ? 2 : 4);
  Numbers numbers = {};
  if (has(rule, gated_delta_rule::kGateRaw)) {
    numbers.a_log = dev::load_global(rule.a_log + tile.head);
    if (rule.dt_bias != nullptr) numbers.bias = gated_delta_rule::load_bias(rule, tile.head * C::kHeadDim + channel);
  }
  float sum = 0.0f;
#pragma unroll 1
  for (int first = 0; first < kChunk; first += kAtOnce) {
    u32 gates[kAtOnce];
#pragma unroll
    for (int t = 0; t < kAtOnce; ++t)
      gates[t] = gated_delta_rule::load_number(from + min(first + t, tile.place.rows - 1) * rule.gate.token, half);
#pragma unroll
    for (int t = 0; t < kAtOnce; ++t) {
      const float gate = log_decay<C>(rule, numbers, gates[t]), decay = gate < kLeast ? kLeast : gate;
      sum += first + t < tile.place.rows ? decay : 0.0f;
      dev::store_shared(
          sums_of_token<C>(sums, first + t) + (static_cast<u32>(number_place(channel)) ^ odd_token(first + t)), sum);
    }
  }
}

// ---- products of tokens ---------------------------------------------------------------------------------------------
/// A lane's elements of a step: word w has row lane / 4 + 8 (w % 2) and the channels of `fades` from 2 (w / 2) on.
template <class C>
TJ_DEVICE void fade_words(const u32 (&words)[4], const float (&fades)[2][4], Terms& terms) {
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const float* const fade = fades[w % 2] + w / 2 * 2;
    float low, high;
    dev::unpack(typename C::Element{}, words[w], low, high);
    split_pair(dev::Bf16{}, low * fade[0], high * fade[1], terms.high[w], terms.low[w]);
  }
}
/// Eight columns of keys, whose words are a left operand's of these rows; `shared`: the sums of the token m.
template <class C>
TJ_DEVICE void fade_keys(u32 sums, int token, int step, const float (&shared)[4], u32 first, u32 second, u32 (&high)[2],
                         u32 (&low)[2]) {
  float of_column[4];
  load_sums<C>(sums, token + static_cast<int>(dev::lane_index() / 4), step, of_column);
  const u32 words[2] = {first, second};
#pragma unroll
  for (int w = 0; w < 2; ++w) {
    float pair[2];
    dev::unpack(typename C::Element{}, words[w], pair[0], pair[1]);
#pragma unroll
    for (int e = 0; e < 2; ++e) pair[e] *= dev::exp2_approx(shared[2 * w + e] - of_column[2 * w + e]);
    split_pair(dev::Bf16{}, pair[0], pair[1], high[w], low[w]);
  }
}

/// A step of K of a warp's rows.
struct Rows {
  u32 of_k[4], of_q[4];
  float sums[2][4];
};
/// The step's products with columns that share token m: eight of them from Half on, or all sixteen of the block of
/// tokens from `first` on. `keys`: the block's words.
template <class C, int Half, int Halves>
TJ_DEVICE void multiply_columns(const Rows& rows, u32 sums, int first, int m, int step, const u32 (&keys)[4],
                                float (&with_k)[8], float (&with_q)[8]) {
  float shared[4], fades[2][4];
  load_sums<C>(sums, first + m, step, shared);
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int at = 0; at < 4; ++at) fades[i][at] = dev::exp2_approx(rows.sums[i][at] - shared[at]);
  Terms of_k, of_q;
  if constexpr (C::kDelta) fade_words<C>(rows.of_k, fades, of_k);
  fade_words<C>(rows.of_q, fades, of_q);
#pragma unroll
  for (int half = Half; half < Half + Halves; ++half) {
    u32 high[2], low[2];
    fade_keys<C>(sums, first + kColumns * half, step, shared, keys[half], keys[2 + half], high, low);
    if constexpr (C::kDelta) multiply_terms(*reinterpret_cast<float(*)[4]>(with_k + 4 * half), of_k, high, low);
    multiply_terms(*reinterpret_cast<float(*)[4]>(with_q + 4 * half), of_q, high, low);
  }
}
TJ_DEVICE void load_keys(u32 k, int block, int step, u32 (&keys)[4]) {
  load_rows(k + static_cast<u32>(block) * kBlockRows * kSwizzleRowBytes, dev::down_place(), step, keys);
}

/// Sixteen rows of a warp up to the diagonal's block, of k k^T only where there is a delta, and factors that normalise
/// the rows of k, then of q. Above the diagonal there may be anything, also what is no number.
template <class C>
TJ_DEVICE void multiply_faded(ChannelSolver<C>& solver, const Tile&, int, u32 k, u32 q, u32 sums, u32 factors,
                              u32 q_factors) {
  const u32 place = first_rows(solver);
  const int own = solver.own, first = own * kBlockRows, row = first + static_cast<int>(dev::lane_index() / 4);
  float with_k[8] = {}, with_q[8] = {};  // of the diagonal's block
  square_rows(solver, k, place, factors, 1.0f);
  square_rows(solver, q, place, q_factors, solver.params.rule.scale);
#pragma unroll
  for (int at = 0; at < kChunk / 2; ++at) solver.with_k[at] = solver.with_q[at] = 0.0f;
#pragma unroll 1
  for (int step = 0; step < C::kHeadDim / kMatrixK; ++step) {
    Rows rows;
    u32 keys[4];
    load_rows(k, place, step, rows.of_k);
    load_rows(q, place, step, rows.of_q);
#pragma unroll
    for (int i = 0; i < 2; ++i) load_sums<C>(sums, row + 8 * i, step, rows.sums[i]);
#pragma unroll
    for (int j = 0; j < kBlocks - 1; ++j) {
      if (j >= own) continue;
      load_keys(k, j, step, keys);
      multiply_columns<C, 0, 2>(rows, sums, j * kBlockRows, kBlockRows - 1, step, keys, block_of(solver.with_k, j),
                                block_of(solver.with_q, j));
    }
    multiply_columns<C, 0, 1>(rows, sums, first, kMiddle, step, rows.of_k, with_k, with_q);
    multiply_columns<C, 1, 1>(rows, sums, first, kColumns + kMiddle, step, rows.of_k, with_k, with_q);
  }
#pragma unroll
  for (int j = 0; j < kBlocks; ++j)
#pragma unroll
    for (int at = 0; at < 8; ++at) {
      float &of_k = block_of(solver.with_k, j)[at], &of_q = block_of(solver.with_q, j)[at];
      of_k = j == own ? with_k[at] : of_k;
      of_q = j == own ? with_q[at] : of_q;
    }
}

// ---- faded rows -----------------------------------------------------------------------------------------------------
/// Sixteen channels of a warp's rows times their decays, rounded, to a matrix of the record.
template <class C>
TJ_DEVICE void put_step(unsigned char* to, const u32 (&words)[4], const float (&fades)[2][4]) {
  u32 faded[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const float* const fade = fades[w % 2] + w / 2 * 2;
    float low, high;
    dev::unpack(typename C::Element{}, words[w], low, high);
    faded[w] = dev::pack(typename C::Element{}, low * fade[0], high * fade[1]);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) put_sixteen(to + i * 8 * kSwizzleRowBytes, faded[i], faded[2 + i]);
}
/// The record's matrices of rows, and by how much each channel of the state fades.
template <class C>
TJ_DEVICE void put_faded(ChannelSolver<C>& solver, const Tile& tile, int, u32 k, u32 q, u32 sums) {
  constexpr int kMatrixBytes = C::kHeadDim * kSwizzleRowBytes;
  const u32 place = first_rows(solver);
  const int row = solver.own * kBlockRows + static_cast<int>(dev::lane_index() / 4), channel = own_channel(solver);
  unsigned char *const record = record_of<C>(solver.params, tile), *const rows =
                                                                       record + kRecordBytes -
                                                                       matrices_left_out(C::kDelta) * kMatrixBytes +
                                                                       row * kSwizzleRowBytes;
  if (channel < C::kHeadDim) {
    const u32 number = static_cast<u32>(number_place(channel));
    const float total = dev::load_shared<float>(sums_of_token<C>(sums, kChunk - 1) + (number ^ odd_token(kChunk - 1)));
    dev::store_global(reinterpret_cast<float*>(record + 2 * kBlockBytes + kTotals * 2 * kSwizzleRowBytes + number),
                      dev::exp2_approx(total));
  }
#pragma unroll 2
  for (int step = 0; step < C::kHeadDim / kMatrixK; ++step) {
    unsigned char* const to = rows + step / kSteps * static_cast<int>(kBlockBytes) + step % kSteps * 32;
    u32 of_k[4], of_q[4];
    float last[4], read[2][4], kept[2][4];
    load_rows(k, place, step, of_k);
    load_rows(q, place, step, of_q);
    load_sums<C>(sums, kChunk - 1, step, last);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float own[4];
      load_sums<C>(sums, row + 8 * i, step, own);
#pragma unroll
      for (int at = 0; at < 4; ++at) {
        read[i][at] = dev::exp2_approx(own[at]);
        kept[i][at] = dev::exp2_approx(last[at] - own[at]);
      }
    }
    if constexpr (C::kDelta) put_step<C>(to, of_k, read);
    put_step<C>(to + kMatrixBytes, of_k, kept);
    put_step<C>(to + 2 * kMatrixBytes, of_q, read);
  }
}

}  // namespace tj::ops::delta_chunks
