// The states of a head from chunk to chunk, and results, on warpgroup matrix instructions: the bodies of the graph's
// nodes.
//
// Decides what one node computes. A consumer has 64 rows of V of the state S [V, K] in f32. Rows need nothing of each
// other, and what a product leaves in registers is the left operand of the next one:
//   R = S K^T; X = beta V^T - fade R; D = X A^T; S = total S + (keep D) K; O = out (S Q^T) + X B^T
// with S before the chunk on the right of the first and the last, rounded. All are 64 rows of V by tokens or K. Without
// the delta X and D are beta V^T, X rounded.
// Invariant: a body touches registers of its own context and the slots that it is given.
#pragma once

#include "ops/delta_chunks/consumer.cuh"

namespace tj::ops::delta_chunks {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;

/// The numbers of the tokens of columns 16 pair + {0, 8} + 2(lane % 4) + {0, 1}.
TJ_DEVICE void load_numbers(u32 record, Number list, int pair, float (&four)[4]) {
  const u32 row = 2 * static_cast<u32>(list) + static_cast<u32>(pair) / 2,
            piece = static_cast<u32>(pair) % 2 * 4 + dev::lane_index() % 4;
  dev::load_shared(dev::piece_address(record + 2 * kBlockBytes, row, piece), four);
}

/// Columns times their numbers.
template <int Sums>
TJ_DEVICE void fade_columns(float (&sums)[Sums], u32 record, Number list) {
#pragma unroll
  for (int pair = 0; pair < Sums / 8; ++pair) {
    float four[4];
    load_numbers(record, list, pair, four);
#pragma unroll
    for (int at = 0; at < 8; ++at) sums[8 * pair + at] *= four[at / 4 * 2 + at % 2];
  }
}

/// sums = S tokens^T: 64 x kChunk.
template <class C>
TJ_DEVICE void multiply_state(Consumer<C>& consumer, float (&sums)[kChunk / 2], u32 tokens) {
  dev::hold(sums);
  dev::hold(consumer.before);
  const u64 right = dev::matrix_operand(tokens, 16, kSwizzleAtomBytes);
  constexpr int kSteps = kSwizzleColumns / kMatrixK;
#pragma unroll
  for (int block = 0; block < C::kHeadDim / kSwizzleColumns; ++block)
    dev::matrix_multiply<dev::MatrixSteps<kSteps, 0, kMatrixK * 2, 0>>(
        typename C::Element{}, sums, consumer.before + 4 * kSteps * block,
        dev::operand_advance(right, static_cast<u32>(block) * kBlockBytes), block != 0);
}
template <class C>
TJ_DEVICE void read_keys(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  multiply_state(consumer, consumer.change, chunk + Slot<C>::kKeys);
}
template <class C>
TJ_DEVICE void read_keys_done(Consumer<C>& consumer) {
  dev::hold(consumer.change);
  dev::hold(consumer.before);
}
template <class C>
TJ_DEVICE void read_queries(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  multiply_state(consumer, consumer.output, chunk + Slot<C>::kQueries);
}
template <class C>
TJ_DEVICE void read_queries_done(Consumer<C>& consumer) {
  dev::hold(consumer.output);
  dev::hold(consumer.before);
}

/// S fades as the whole chunk says.
template <class C>
TJ_DEVICE void fade_state(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  const u32 record = chunk + Slot<C>::kRecord;
  if constexpr (C::kChannelGate) {
    fade_columns(consumer.state, record, kTotals);
    return;
  }
  const float total = dev::load_shared<float>(dev::piece_address(record + 2 * kBlockBytes, 2 * kTotal, 0));
#pragma unroll
  for (float& value : consumer.state) value *= total;
}

/// The address that a lane names of the matrices of a chunk's tokens by 16 columns: tokens 16 pair + {0, 8} and on, the
/// warp's 16 rows of V in two halves.
TJ_DEVICE u32 token_place(u32 tokens, int pair) {
  const u32 lane = dev::lane_index(), matrix = lane / 8;
  return dev::piece_address(tokens, static_cast<u32>(16 * pair) + matrix / 2 * 8 + lane % 8,
                            static_cast<u32>(2 * group_warp()) + matrix % 2);
}

/// beta V^T, and the numbers by which R fades. Beta is in X, not in A: the diagonal of A is 1 then, which loses nothing
/// when A is rounded.
template <class C>
TJ_DEVICE void scale_values(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  const u32 record = chunk + Slot<C>::kRecord,
            v = chunk + Slot<C>::kValues + static_cast<u32>(consumer.copy) * kBlockBytes;
  const typename C::Element tag{};
#pragma unroll
  for (int pair = 0; pair < kChunk / 16; ++pair) {
    u32 values[4];
    float fade[4], beta[4];
    dev::load_matrices_transposed(token_place(v, pair), values);
    load_numbers(record, kFade, pair, fade);
    load_numbers(record, kBeta, pair, beta);
#pragma unroll
    for (int w = 0; w < 4; ++w) {  // block 2 pair + w / 2 of columns, half w % 2
      float low, high;
      dev::unpack(tag, values[w], low, high);
      consumer.values[8 * pair + 2 * w] = low * beta[w / 2 * 2];
      consumer.values[8 * pair + 2 * w + 1] = high * beta[w / 2 * 2 + 1];
      consumer.fade[4 * pair + w] = fade[w];
    }
  }
}

/// X and D without the delta.
template <class C>
TJ_DEVICE void weigh_values(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  const u32 v = chunk + Slot<C>::kValues + static_cast<u32>(consumer.copy) * kBlockBytes;
  const typename C::Element tag{};
#pragma unroll
  for (int pair = 0; pair < kChunk / 16; ++pair) {
    u32 values[4];
    float beta[4];
    dev::load_matrices_transposed(token_place(v, pair), values);
    load_numbers(chunk + Slot<C>::kRecord, kBeta, pair, beta);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      float low, high;
      dev::unpack(tag, values[w], low, high);
      low *= beta[w / 2 * 2];
      high *= beta[w / 2 * 2 + 1];
      consumer.change[8 * pair + 2 * w] = low;
      consumer.change[8 * pair + 2 * w + 1] = high;
      consumer.asked[4 * pair + w] = dev::pack(tag, low, high);
    }
  }
}

/// X = beta V^T - fade R.
template <class C>
TJ_DEVICE void correct_values(Consumer<C>& consumer, const Tile&, int) {
  const typename C::Element tag{};
#pragma unroll
  for (int word = 0; word < kChunk / 4; ++word) {
    const float* const fade = &consumer.fade[word / 2 * 2];
    const float low = dev::multiply_add(-fade[0], consumer.change[2 * word], consumer.values[2 * word]);
    const float high = dev::multiply_add(-fade[1], consumer.change[2 * word + 1], consumer.values[2 * word + 1]);
    consumer.asked[word] = dev::pack(tag, low, high);
  }
}

/// D = X A^T: 64 x kChunk.
template <class C>
TJ_DEVICE void solve_tokens(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  const u32 record = chunk + Slot<C>::kRecord;
  dev::hold(consumer.change);
  dev::hold(consumer.asked);
  dev::matrix_multiply<dev::MatrixSteps<kChunk / kMatrixK, 0, kMatrixK * 2, 0>>(
      typename C::Element{}, consumer.change, consumer.asked, dev::matrix_operand(record, 16, kSwizzleAtomBytes),
      false);
}
template <class C>
TJ_DEVICE void solve_tokens_done(Consumer<C>& consumer) {
  dev::hold(consumer.change);
  dev::hold(consumer.asked);
}

/// Loads the first tokens' keep, which is there when their changes are.
template <class C>
TJ_DEVICE void take_keep(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  static_assert(kFirstPairs == 1, "four numbers");
  load_numbers(chunk + Slot<C>::kRecord, kKeep, 0, consumer.keep);
}

/// keep D of sixteen tokens, in one or two terms.
template <class C>
TJ_DEVICE void weigh_pair(Consumer<C>& consumer, int pair, const float (&keep)[4]) {
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const int word = 4 * pair + w;
    keep_pair(consumer, word, consumer.change[2 * word] * keep[w / 2 * 2],
              consumer.change[2 * word + 1] * keep[w / 2 * 2 + 1]);
  }
}
/// The first tokens alone: their product with K is under way while the others are weighed.
template <class C>
TJ_DEVICE void weigh_first(Consumer<C>& consumer, const Tile&, int) {
  weigh_pair(consumer, 0, consumer.keep);
}
template <int First, class C>
TJ_DEVICE void weigh_pairs(Consumer<C>& consumer, u32 chunk) {
#pragma unroll
  for (int pair = First; pair < kChunk / 16; ++pair) {
    float keep[4];
    load_numbers(chunk + Slot<C>::kRecord, kKeep, pair, keep);
    weigh_pair(consumer, pair, keep);
  }
}
template <class C>
TJ_DEVICE void weigh_rest(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  weigh_pairs<kFirstPairs>(consumer, chunk);
}
/// All of them at once, where nothing has to be solved first.
template <class C>
TJ_DEVICE void weigh_tokens(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  weigh_pairs<0>(consumer, chunk);
}

/// S += (keep D) K of tokens from 16 First on: 64 x K.
template <int First, int Pairs, class C>
TJ_DEVICE void add_pairs(Consumer<C>& consumer, u32 chunk) {
  using Steps = dev::MatrixSteps<Pairs, 0, kMatrixK * kSwizzleRowBytes, dev::kRightMn>;
  const u64 right = dev::operand_advance(dev::matrix_operand(chunk + Slot<C>::kKept, kBlockBytes, kSwizzleAtomBytes),
                                         First * kMatrixK * kSwizzleRowBytes);
  u32(&kept)[4 * Pairs] = words_of<4 * First, 4 * Pairs>(consumer.kept);
  u32(&rest)[4 * Pairs] = words_of<4 * First, 4 * Pairs>(consumer.rest);
  dev::hold(consumer.state);
  dev::hold(kept);
  if constexpr (kTwoTerms<C>) dev::hold(rest);
  dev::matrix_multiply<Steps>(typename C::Element{}, consumer.state, kept, right, true);
  if constexpr (kTwoTerms<C>) dev::matrix_multiply<Steps>(typename C::Element{}, consumer.state, rest, right, true);
}
/// All of it, as a stage of its own has it.
template <class C>
TJ_DEVICE void change_state(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  add_pairs<0, kChunk / 16>(consumer, chunk);
}
template <class C>
TJ_DEVICE void change_state_done(Consumer<C>& consumer) {
  dev::hold(consumer.state);
  dev::hold(consumer.kept);
  if constexpr (kTwoTerms<C>) dev::hold(consumer.rest);
}
template <class C>
TJ_DEVICE void change_first(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  add_pairs<0, kFirstPairs>(consumer, chunk);
}
template <class C>
TJ_DEVICE void change_first_done(Consumer<C>& consumer) {
  dev::hold(words_of<0, 4 * kFirstPairs>(consumer.kept));
  if constexpr (kTwoTerms<C>) dev::hold(words_of<0, 4 * kFirstPairs>(consumer.rest));
}
template <class C>
TJ_DEVICE void change_rest(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  add_pairs<kFirstPairs, kChunk / 16 - kFirstPairs>(consumer, chunk);
}
template <class C>
TJ_DEVICE void change_rest_done(Consumer<C>& consumer) {
  change_state_done(consumer);
}

/// Part of each token's result that the state before the chunk gives.
template <class C>
TJ_DEVICE void fade_output(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  fade_columns(consumer.output, chunk + Slot<C>::kRecord, kOut);
}

/// O += X B^T.
template <class C>
TJ_DEVICE void add_tokens(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  const u32 record = chunk + Slot<C>::kRecord;
  dev::hold(consumer.output);
  dev::hold(consumer.asked);
  dev::matrix_multiply<dev::MatrixSteps<kChunk / kMatrixK, 0, kMatrixK * 2, 0>>(
      typename C::Element{}, consumer.output, consumer.asked,
      dev::matrix_operand(record + kBlockBytes, 16, kSwizzleAtomBytes), true);
}
template <class C>
TJ_DEVICE void add_tokens_done(Consumer<C>& consumer) {
  dev::hold(consumer.output);
  dev::hold(consumer.asked);
}

/// Results, rounded, by tokens, as the copy engine wants them.
template <class C>
TJ_DEVICE void stage_rows(Consumer<C>& consumer, const Tile&, int, u32 slot) {
  const typename C::Element tag{};
#pragma unroll
  for (int pair = 0; pair < kChunk / 16; ++pair) {
    const float* const o = &consumer.output[8 * pair];
    dev::store_matrices_transposed(token_place(slot, pair), {dev::pack(tag, o[0], o[1]), dev::pack(tag, o[2], o[3]),
                                                             dev::pack(tag, o[4], o[5]), dev::pack(tag, o[6], o[7])});
  }
}

}  // namespace tj::ops::delta_chunks
