// Attention forward on matrix instructions of a wave whose operands are rows with K in order: the bodies of the graph's
// nodes.
//
// Decides what one node computes for one tile and iteration. Order, barriers, slots and when loads begin come from the
// emitted unit. A block owns kRowsPerBlock query rows of one head, a wave kRowBlocks times sixteen of them. Both
// products are transposed: keys (and then elements of the output) are rows, queries are columns. So a lane has one
// query of each sixteen, weights go on as an operand where they are, and maxima and sums take one exchange or two. Keys
// lie in shared memory by rows, values by columns: loaded rows become columns on their way. The keys of values stand in
// the order in which sums become an operand (row_at). Invariant: a body touches registers of its own context and the
// slots that it is given, nothing else.
#pragma once

#include "ops/fmha/amd_load.cuh"

namespace tj::ops::fmha {

/// The registers that a lane keeps for one of its queries.
template <class C>
struct Query {
  u32 operand[kDepth<C> / kMatrix][dev::kOperandWords];
  float scores[C::kBlockN / kMatrix][dev::kSums];
  float output[kOutputs<C> / kMatrix][dev::kSums];
  float reference, sum, correction;
};
template <class C_>
struct Consumer : HeadNumbers<C_> {
  using C = C_;
  const Params& params;
  const int row;  ///< the lane's first in the block's tile
  Query<C> queries[C::kRowBlocks];
  TJ_DEVICE Consumer(const Params& p, int)
      : params(p),
        row(static_cast<int>(dev::warp_index() % C::kWarps) * C::kRowBlocks * kMatrix +
            static_cast<int>(dev::operand_row())) {}
};

/// Iterations before this one need masking for some row of the block.
template <class C>
TJ_DEVICE int fast_begin(const Consumer<C>& consumer, const Tile& tile) {
  return unmasked_from<C>(consumer.params, tile, tile.row);
}

// ---- a wave's chain -------------------------------------------------------------------------------------------------
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile& tile) {
  consumer.take(consumer.params, tile);
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r) {
    Query<C>& query = consumer.queries[r];
#pragma unroll
    for (int d = 0; d < kOutputs<C> / kMatrix; ++d) {
#pragma unroll
      for (int s = 0; s < dev::kSums; ++s) query.output[d][s] = 0.0f;
    }
    query.reference = dev::minus_infinity();
    query.sum = 0.0f;
  }
}

/// 8, 16 or 32 bytes of the d-th sixteen columns; zeros of columns beyond the head dim, which come in eights.
template <class C>
TJ_DEVICE void load_operand(const unsigned short* from, int d, u32 (&words)[dev::kOperandWords]) {
  constexpr int kAtOnce = dev::kOperandWords < 4 ? dev::kOperandWords : 4;
#pragma unroll
  for (int first = 0; first < dev::kOperandWords; first += kAtOnce) {
    u32 some[kAtOnce];
    const int column = d * kMatrix + static_cast<int>(dev::operand_k()) + 2 * first;
    const bool there = C::kHeadDim % kMatrix == 0 || column < C::kHeadDim;
    dev::load_global(from + (there ? 2 * first : 2 * first - column), some);
#pragma unroll
    for (int w = 0; w < kAtOnce; ++w) words[first + w] = there ? some[w] : 0u;
  }
}
/// The lane's queries, straight from memory to registers, where they are for the whole tile. Rows past the last are the
/// last again; nobody stores them.
template <class C>
TJ_DEVICE void load_q(Consumer<C>& consumer, const Tile& tile) {
  const Params& params = consumer.params;
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r) {
    int row = min(tile.row + consumer.row + r * kMatrix, mask_of<C>(params, tile).queries - 1);
    // A sequence without queries may begin behind the last row of all.
    if constexpr (Varlen<C>::kOn) row = min(queries_begin<C>(tile) + max(row, 0), params.queries - 1);
    const unsigned short* from = row_of(params.q_rows, tile.batch, tile.head, row) + dev::operand_k();
#pragma unroll
    for (int d = 0; d < kDepth<C> / kMatrix; ++d)
      load_operand<C>(from + d * kMatrix, d, consumer.queries[r].operand[d]);
  }
}

/// scores = k q^T: rows are keys, columns queries.
template <class C>
TJ_DEVICE void qk(Consumer<C>& consumer, const Tile&, int, u32 k) {
  const u32 keys = dev::one_address(k + dev::operand_row() * kKeyStride<C> + dev::operand_k() * 2);
#pragma unroll
  for (int n = 0; n < C::kBlockN / kMatrix; ++n) {
#pragma unroll
    for (int r = 0; r < C::kRowBlocks; ++r) {
#pragma unroll
      for (int s = 0; s < dev::kSums; ++s) consumer.queries[r].scores[n][s] = 0.0f;
    }
#pragma unroll
    for (int d = 0; d < kDepth<C> / kMatrix; ++d) {
      u32 left[dev::kOperandWords];
      dev::load_shared(keys + static_cast<u32>(n) * kMatrix * kKeyStride<C> + static_cast<u32>(d) * kMatrix * 2, left);
#pragma unroll
      for (int r = 0; r < C::kRowBlocks; ++r)
        dev::mma_m16n16k16(typename C::Element{}, consumer.queries[r].scores[n], left, consumer.queries[r].operand[d]);
    }
  }
}

/// The largest, or the sum, over the lanes that have the same query.
TJ_DEVICE float largest_of_query(float value) {
  value = dev::maximum(value, dev::shuffle_xor<16>(value));
  if constexpr (dev::kWave == 64) value = dev::maximum(value, dev::shuffle_xor<32>(value));
  return value;
}
TJ_DEVICE float sum_of_query(float value) {
  value += dev::shuffle_xor<16>(value);
  if constexpr (dev::kWave == 64) value += dev::shuffle_xor<32>(value);
  return value;
}

/// Products become scores. `row` is the query's.
template <class C>
TJ_DEVICE void change_scores(Query<C>& query, const HeadNumbers<C>& head, const Params& params, const Tile& tile, int i,
                             int row) {
  const RowScores<C> scores(params, head, tile, row, first_key<C>(tile, i));
#pragma unroll
  for (int n = 0; n < C::kBlockN / kMatrix; ++n) {
#pragma unroll
    for (int s = 0; s < dev::kSums; ++s) {
      float& score = query.scores[n][s];
      score = scores.of(score, n * kMatrix + static_cast<int>(dev::sum_row(s)));
    }
  }
  if constexpr (MaskMod<C>::kOn) {
    if (!asks_mask_mod<C>(tile, first_key<C>(tile, i))) return;
#pragma unroll
    for (int n = 0; n < C::kBlockN / kMatrix; ++n) {
#pragma unroll
      for (int s = 0; s < dev::kSums; ++s) {
        float& score = query.scores[n][s];
        score = scores.seen(score, n * kMatrix + static_cast<int>(dev::sum_row(s)));
      }
    }
  }
}

/// Hides the scores of keys that the query does not see. `row` is the query's. A window masks in every iteration: no
/// branch stands between loads on their way and the products.
template <class C>
TJ_DEVICE void mask(Query<C>& query, const Params& params, const Tile& tile, int i, int row) {
  const RowMask<C> seen(params, tile, row, first_key<C>(tile, i));
#pragma unroll
  for (int n = 0; n < C::kBlockN / kMatrix; ++n) {
#pragma unroll
    for (int s = 0; s < dev::kSums; ++s) {
      float& score = query.scores[n][s];
      score = seen.of(score, n * kMatrix + static_cast<int>(dev::sum_row(s)));
    }
  }
}
/// Two chains: a long one would expose its latency.
template <class C>
TJ_DEVICE float largest_score(const Query<C>& query) {
  float chain[2] = {query.scores[0][0], query.scores[0][1]};
#pragma unroll
  for (int n = 0; n < C::kBlockN / kMatrix; ++n) {
#pragma unroll
    for (int s = 0; s < dev::kSums; ++s) chain[s % 2] = dev::maximum(chain[s % 2], query.scores[n][s]);
  }
  return largest_of_query(dev::maximum(chain[0], chain[1]));
}

/// Masks, and moves a query's reference for its exponents; C::kSlack stands in the place of kSlack.
template <class Powers, class C, class Variant>
TJ_DEVICE void row_max_by(Consumer<C>& consumer, const Tile& tile, int i, Variant) {
  const Params& params = consumer.params;
  bool any = false;
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r) {
    Query<C>& query = consumer.queries[r];
    if constexpr (C::kGeneralScale) {
#pragma unroll
      for (int n = 0; n < C::kBlockN / kMatrix; ++n) {
#pragma unroll
        for (int s = 0; s < dev::kSums; ++s) query.scores[n][s] *= params.sign;
      }
    }
    const int row = tile.row + consumer.row + r * kMatrix;
    if constexpr (kChangesScores<C>) change_scores<C>(query, consumer, params, tile, i, row);
    if constexpr (!Variant::kFast) mask(query, params, tile, i, row);
    const float largest = largest_score(query);
    const bool moved = moves(params, query.reference, largest, C::kSlack);
    query.correction = move_to<Powers>(params, moved, largest, query.reference);
    any = any || moved;
  }
  if (!dev::any_in_warp(any)) return;
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r) {
    Query<C>& query = consumer.queries[r];
    query.sum *= query.correction;
#pragma unroll
    for (int d = 0; d < kOutputs<C> / kMatrix; ++d) {
#pragma unroll
      for (int s = 0; s < dev::kSums; ++s) query.output[d][s] *= query.correction;
    }
  }
}

template <class C, class Variant>
TJ_DEVICE void row_max(Consumer<C>& consumer, const Tile& tile, int i, Variant variant) {
  row_max_by<PowersOfTwo>(consumer, tile, i, variant);
}
template <class C>
TJ_DEVICE void row_max(Consumer<C>& consumer, const Tile& tile, int i) {
  row_max(consumer, tile, i, dev::General{});
}

/// Weights that carry 2^C::kWeightBias, which the end of the tile divides by. `offset` is the bias less reference *
/// scale_log2.
struct BiasedPowers : PowersOfTwo {
  template <class C>
  TJ_DEVICE static float weight(const Params& params, float score, float reference, float offset) {
    constexpr float kBias = C::kWeightBias;
    return dev::exp2_approx(kAnyScores<C> ? dev::multiply_add(score - reference, params.scale_log2, kBias)
                                          : dev::multiply_add(score, params.scale_log2, offset));
  }
};

/// The weights of sixteen keys as the right operand of the next product, and their sum. A NaN reaches every output of
/// its query by the sum, so that weights need not keep it.
template <class Powers, class C>
TJ_DEVICE void weigh(Query<C>& query, const Params& params, int n, u32 (&words)[dev::kOperandWords]) {
  constexpr float kBias = C::kWeightBias;
  const float reference = finite_reference(query.reference), offset = kBias - reference * params.scale_log2;
  float weights[dev::kSums], sums[2] = {};
#pragma unroll
  for (int s = 0; s < dev::kSums; ++s) {
    weights[s] = Powers::template weight<C>(params, query.scores[n][s], reference, offset);
    sums[s % 2] += weights[s];
  }
  query.sum += sums[0] + sums[1];
  dev::sums_as_own_operand(dev::Numbers<typename C::Element>{}, weights, words);
}

/// output += v^T weights: rows are elements of the head dim, columns queries.
template <class Powers, class C>
TJ_DEVICE void pv_by(Consumer<C>& consumer, u32 v) {
  const u32 values = dev::one_address(v + dev::operand_row() * kValueStride<C> + dev::operand_k() * 2);
#pragma unroll
  for (int n = 0; n < C::kBlockN / kMatrix; ++n) {
    u32 right[C::kRowBlocks][dev::kOperandWords];
#pragma unroll
    for (int r = 0; r < C::kRowBlocks; ++r) weigh<Powers>(consumer.queries[r], consumer.params, n, right[r]);
#pragma unroll
    for (int d = 0; d < kOutputs<C> / kMatrix; ++d) {
      u32 left[dev::kOperandWords];
      dev::load_shared(value_place<C>(values, static_cast<u32>(d), static_cast<u32>(n)), left);
#pragma unroll
      for (int r = 0; r < C::kRowBlocks; ++r)
        dev::mma_m16n16k16(typename C::Element{}, consumer.queries[r].output[d], left, right[r]);
    }
  }
}

template <class C>
TJ_DEVICE void pv(Consumer<C>& consumer, const Tile&, int, u32 v) {
  pv_by<BiasedPowers>(consumer, v);
}

// ---- the end of a tile ----------------------------------------------------------------------------------------------
TJ_DEVICE void store_words(unsigned short* destination, const u32 (&words)[dev::kOwnWords], bool wide) {
  if (wide) {
    if constexpr (dev::kOwnWords == 4)
      dev::store_global(destination, words[0], words[1], words[2], words[3]);
    else
      dev::store_global(destination, words[0], words[1]);
    return;
  }
#pragma unroll
  for (int w = 0; w < dev::kOwnWords; ++w) {
    dev::store_global_u16(destination + 2 * w, words[w] & 0xffffu);
    dev::store_global_u16(destination + 2 * w + 1, words[w] >> 16);
  }
}

/// The lane's part of a query's sixteen elements, from element own_k() on. All lanes of the wave trade sums; `stored`
/// says which have a part that is.
template <class C>
TJ_DEVICE void store_part(const Params& params, const float (&sums)[dev::kSums], unsigned short* destination,
                          bool stored) {
  u32 whole[dev::kOperandWords], words[dev::kOwnWords];
  dev::sums_as_operand(typename C::Element{}, sums, whole);
  dev::own_part(whole, words);
  if (stored) store_words(destination, words, params.wide_stores != 0);
}
/// The same in f32.
template <class C>
TJ_DEVICE void store_part(const Params& params, const float (&sums)[dev::kSums], float* destination, bool stored) {
  float values[dev::kSums];
  dev::sums_in_order(sums, values);
  if (stored) store_floats<dev::kSums>(params, destination, values);
}

/// Weights carry a power of two as a bias, and so does their sum. The log-sum-exp is told without it.
template <class Division, class C>
TJ_DEVICE void store_by(Consumer<C>& consumer, const Tile& tile) {
  constexpr float kUnbiased = 1.0f / static_cast<float>(1 << C::kWeightBias);
  const Params& params = consumer.params;
  const Sink<C> sink(params, tile);
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r) {
    Query<C>& query = consumer.queries[r];
    const int row = tile.row + consumer.row + r * kMatrix;
    const bool inside = row < mask_of<C>(params, tile).queries;
    const float gathered = sum_of_query(query.sum),
                sum = Sinks<C>::kOn ? sink.added(params, query.reference, gathered * kUnbiased) / kUnbiased : gathered;
    const RowEnd<Division> end(sum);
    const auto base = output_row<C>(params, tile, row);
#pragma unroll
    for (int d = 0; d < kOutputs<C> / kMatrix; ++d) {
#pragma unroll
      for (int s = 0; s < dev::kSums; ++s) query.output[d][s] = end.output(query.output[d][s]);
      const int column = d * kMatrix + static_cast<int>(dev::own_k());
      store_part<C>(params, query.output[d], base + column,
                    inside && (kOutputs<C> == kValueDim<C> || column < kValueDim<C>));
    }
    if (params.lse != nullptr && inside && dev::lane_index() < kMatrix)
      store_lse<C>(params, tile, row, sink.lse(end.lse(params, query.reference, sum * kUnbiased), sum));
  }
}

template <class C>
TJ_DEVICE void store(Consumer<C>& consumer, const Tile& tile) {
  store_by<ByReciprocal>(consumer, tile);
}

}  // namespace tj::ops::fmha
