// Attention forward on the matrix unit over tensor memory: the bodies of the graph's nodes.
//
// Decides what one node computes for one tile and iteration. Order, waits, slots, columns and roles come from the
// emitted unit. A block owns kRowsPerBlock query rows of one head, kRowsPerTensorTile for each sub-tile: row r of it is
// lane r of scores, weights and output. Invariant: a body touches registers of its own context, the slots and the
// columns that it is given, nothing else.
#pragma once

#include "ops/fmha/load.cuh"
#include "ops/fmha/powers.cuh"
#include "ops/fmha/softmax.cuh"

namespace tj::ops::fmha {

inline constexpr int kMatrixK = 16;
inline constexpr int kChunk = 16;        ///< columns of scores that are on their way while those before are worked on
inline constexpr int kOutputChunk = 32;  ///< of output, at a time

/// Asks the matrix unit; no state of its own.
template <class C_>
struct Products {
  using C = C_;
  const int copy;  ///< which sub-tile
  TJ_DEVICE Products(const Params&, int which) : copy(which) {}
};

/// A row of a sub-tile.
template <class C_>
struct Softmax : HeadNumbers<C_> {
  using C = C_;
  const Params& params;
  const int copy;
  float scores[C::kBlockN / kChunk][kChunk];
  float reference, sum, factor;
  TJ_DEVICE Softmax(const Params& p, int which) : params(p), copy(which), reference(0.0f), sum(0.0f), factor(1.0f) {}
};

/// Corrects the output of all sub-tiles; no state of its own.
template <class C_>
struct Correction {
  using C = C_;
  TJ_DEVICE Correction(const Params&, int) {}
};

/// Brings a sub-tile's output to memory; no state of its own.
template <class C_>
struct Output {
  using C = C_;
  const Params& params;
  const int copy;
  TJ_DEVICE Output(const Params& p, int which) : params(p), copy(which) {}
};

/// The thread's row of a sub-tile, which is its lane of tensor memory.
TJ_DEVICE int own_row() { return static_cast<int>((dev::warp_index() & 3u) * 32u + dev::lane_index()); }
template <class C, template <class> class Context>
TJ_DEVICE int row_of(const Context<C>& context, const Tile& tile) {
  return tile.row + context.copy * kRowsPerTensorTile + own_row();
}

/// Iterations before this one need masking for some row of the sub-tile.
template <class C>
TJ_DEVICE int fast_begin(const Softmax<C>& softmax, const Tile& tile) {
  return unmasked_from<C>(softmax.params, tile, tile.row + softmax.copy * kRowsPerTensorTile);
}

// ---- products -------------------------------------------------------------------------------------------------------
/// scores = q k^T: 128 x kBlockN.
template <class C>
TJ_DEVICE void qk(Products<C>& products, const Tile&, int, u32 q, u32 k, u32 scores) {
  dev::hold(q), dev::hold(k);  // the compiler would keep each step's operand from iteration to iteration, in more
                               // registers than the role has
  constexpr u32 kInstruction = dev::matrix_instruction<kRowsPerTensorTile, C::kBlockN, 0>(typename C::Element{});
  constexpr int kSteps = kSwizzleColumns / kMatrixK, kStepBytes = kMatrixK * 2;
  const u64 left =
      dev::matrix_operand(q + products.copy * kRowsPerTensorTile * kSwizzleRowBytes, 16, kSwizzleAtomBytes);
  const u64 right = dev::matrix_operand(k, 16, kSwizzleAtomBytes);
#pragma unroll
  for (int block = 0; block < kDepth<C> / kSwizzleColumns; ++block)
    dev::matrix_multiply_steps<dev::MatrixSteps<kSteps, kStepBytes, kStepBytes>>(
        scores, dev::operand_advance(left, block * C::kRowsPerBlock * kSwizzleRowBytes),
        dev::operand_advance(right, block * C::kBlockN * kSwizzleRowBytes), kInstruction, block != 0);
  if constexpr (kDepth<C> % kSwizzleColumns != 0) {  // what is left of the last block
    constexpr int kBlock = kDepth<C> / kSwizzleColumns, kLeft = kDepth<C> % kSwizzleColumns / kMatrixK;
    dev::matrix_multiply_steps<dev::MatrixSteps<kLeft, kStepBytes, kStepBytes>>(
        scores, dev::operand_advance(left, kBlock * C::kRowsPerBlock * kSwizzleRowBytes),
        dev::operand_advance(right, kBlock * C::kBlockN * kSwizzleRowBytes), kInstruction, kBlock != 0);
  }
}

/// output += weights v for the keys [Begin, End) of the block: 128 x kOutputs.
template <int Begin, int End, class C>
TJ_DEVICE void multiply_values(int i, u32 v, u32 weights, u32 output) {
  constexpr u32 kInstruction =
      dev::matrix_instruction<kRowsPerTensorTile, kOutputs<C>, dev::kRightMn>(typename C::Element{});
  constexpr int kStepBytes = kMatrixK * static_cast<int>(kSwizzleRowBytes);
  dev::hold(v), dev::hold(weights);  // as above
  const u64 right = dev::matrix_operand(v + Begin * kSwizzleRowBytes, C::kBlockN * kSwizzleRowBytes, kSwizzleAtomBytes);
  dev::matrix_multiply_tensor_steps<dev::MatrixSteps<(End - Begin) / kMatrixK, 0, kStepBytes>>(
      output, weights, right, kInstruction, i != 0 || Begin != 0);
}
template <class C>
TJ_DEVICE void pv_0(Products<C>&, const Tile&, int i, u32 v, u32 weights, u32 output) {
  multiply_values<0, C::kPartEnd0, C>(i, v, weights, output);
}
template <class C>
TJ_DEVICE void pv_1(Products<C>&, const Tile&, int i, u32 v, u32 weights, u32 output) {
  multiply_values<C::kPartEnd0, C::kPartEnd1, C>(i, v, weights, output);
}
template <class C>
TJ_DEVICE void pv_2(Products<C>&, const Tile&, int i, u32 v, u32 weights, u32 output) {
  multiply_values<C::kPartEnd1, C::kPartEnd2, C>(i, v, weights, output);
}
template <class C>
TJ_DEVICE void pv_3(Products<C>&, const Tile&, int i, u32 v, u32 weights, u32 output) {
  multiply_values<C::kPartEnd2, C::kPartEnd3, C>(i, v, weights, output);
}

// ---- softmax --------------------------------------------------------------------------------------------------------
template <class C>
TJ_DEVICE void begin(Softmax<C>& softmax, const Tile& tile) {
  softmax.take(softmax.params, tile);
  softmax.reference = dev::minus_infinity();
  softmax.sum = 0.0f;
}

/// Reads the row's scores, and moves the reference of its exponents where they are far above it. The factor for what
/// was gathered goes to the thread that corrects the row.
template <class C, class Variant>
TJ_DEVICE void maximum(Softmax<C>& softmax, const Tile& tile, int i, u32 scores, u32 factors, Variant) {
  constexpr int kChunks = C::kBlockN / kChunk;
  const Params& params = softmax.params;
  const u32 from = dev::tensor_lanes(scores);
  const int row_of_thread = row_of(softmax, tile), from_key = first_key<C>(tile, i),
            first_row = row_of_thread - static_cast<int>(dev::lane_index());
  const RowMask<C> seen(params, tile, row_of_thread, from_key);
  const RowScores<C> changed(params, softmax, tile, row_of_thread, from_key);
  const bool masked = !Variant::kFast && masks<C>(params, tile, i, first_row, first_row + 31);
  float largest[4];
  dev::tensor_load(from, softmax.scores[0]);
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    float(&row)[kChunk] = softmax.scores[chunk];
    dev::tensor_load_wait<0>();
    dev::hold(row);
    if (chunk + 1 < kChunks)
      dev::tensor_load(from + static_cast<u32>((chunk + 1) * kChunk),
                       softmax.scores[chunk + 1 < kChunks ? chunk + 1 : 0]);
    if constexpr (C::kGeneralScale) {
#pragma unroll
      for (int j = 0; j < kChunk; ++j) row[j] *= params.sign;
    }
    if constexpr (kChangesScores<C>) {
#pragma unroll
      for (int j = 0; j < kChunk; ++j) row[j] = changed.of(row[j], chunk * kChunk + j);
    }
    if constexpr (MaskMod<C>::kOn) {
      if (asks_mask_mod<C>(tile, from_key)) {
#pragma unroll
        for (int j = 0; j < kChunk; ++j) row[j] = changed.seen(row[j], chunk * kChunk + j);
      }
    }
    if (masked) {
#pragma unroll
      for (int j = 0; j < kChunk; ++j) row[j] = seen.of(row[j], chunk * kChunk + j);
    }
#pragma unroll
    for (int j = 0; j < kChunk; j += 2) {
      float& chain = largest[j / 2 % 4];
      const float pair = dev::maximum_or_nan(row[j], row[j + 1]);
      chain = chunk == 0 && j < 8 ? pair : dev::maximum_or_nan(chain, pair);
    }
  }
  const float highest =
      dev::maximum_or_nan(dev::maximum_or_nan(largest[0], largest[1]), dev::maximum_or_nan(largest[2], largest[3]));
  softmax.factor = move_to(params, moves_or_nan(params, softmax.reference, highest), highest, softmax.reference);
  dev::store_shared(factors + static_cast<u32>(own_row()) * 4u, softmax.factor);
}

template <class C>
TJ_DEVICE void maximum(Softmax<C>& softmax, const Tile& tile, int i, u32 scores, u32 factors) {
  maximum(softmax, tile, i, scores, factors, dev::General{});
}

/// Does arithmetic take over the exponential of this key? Spread evenly.
template <class C>
TJ_DEVICE constexpr bool by_polynomial(int key) {
  return (key + 1) * C::kPolynomials / kPolynomialOf != key * C::kPolynomials / kPolynomialOf;
}

/// Scores of the keys [Begin, End) become weights, which go to `weights` in tensor memory, two a column.
template <int Begin, int End, class C>
TJ_DEVICE void weigh(Softmax<C>& softmax, u32 weights) {
  const Params& params = softmax.params;
  // A row with an infinite score has no distances: its reference becomes a NaN, as it does on every family.
  const float known = finite_reference(softmax.reference), reference = known + (known - known);
  const float offset = -reference * params.scale_log2;
  const PolynomialArgument argument(params.scale_log2, kAnyScores<C> ? 0.0f : offset);
  // No exponential of this part begins before the part before it has gone: the row would not fit into registers.
#pragma unroll
  for (int chunk = Begin / kChunk; chunk < End / kChunk; ++chunk) dev::hold(softmax.scores[chunk]);
  float sums[4] = {};
  u32 packed[(End - Begin) / 2];
#pragma unroll
  for (int key = Begin; key < End; key += 2) {
    float pair[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float score = softmax.scores[(key + e) / kChunk][(key + e) % kChunk];
      if (by_polynomial<C>(key + e))
        pair[e] = exp2_polynomial(argument(kAnyScores<C> ? score - reference : score));
      else
        pair[e] = PowersOfTwo::weight<C>(params, score, reference, offset);
      sums[(key + e) % 4] += pair[e];
    }
    packed[(key - Begin) / 2] = dev::pack(typename C::Element{}, pair[0], pair[1]);
  }
  dev::tensor_store(dev::tensor_lanes(weights), packed);
  const float gathered = Begin == 0 ? softmax.sum * softmax.factor : softmax.sum;
  softmax.sum = gathered + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
}
template <class C>
TJ_DEVICE void weights_0(Softmax<C>& softmax, const Tile&, int, u32 weights) {
  weigh<0, C::kPartEnd0>(softmax, weights);
}
template <class C>
TJ_DEVICE void weights_1(Softmax<C>& softmax, const Tile&, int, u32 weights) {
  weigh<C::kPartEnd0, C::kPartEnd1>(softmax, weights);
}
template <class C>
TJ_DEVICE void weights_2(Softmax<C>& softmax, const Tile&, int, u32 weights) {
  weigh<C::kPartEnd1, C::kPartEnd2>(softmax, weights);
}
template <class C>
TJ_DEVICE void weights_3(Softmax<C>& softmax, const Tile&, int, u32 weights) {
  weigh<C::kPartEnd2, C::kPartEnd3>(softmax, weights);
}

/// The row's sum and reference for the thread that stores it.
template <class C>
TJ_DEVICE void hand_sums(Softmax<C>& softmax, const Tile&, u32 sums) {
  const u32 place = sums + static_cast<u32>(own_row()) * 4u;
  dev::store_shared(place, softmax.sum);
  dev::store_shared(place + kRowsPerTensorTile * 4u, softmax.reference);
}

// ---- output ---------------------------------------------------------------------------------------------------------
/// Multiplies what iterations before this one gathered by their rows' factors, where one of a warp's rows needs it.
template <class C>
TJ_DEVICE void correct(Correction<C>&, const Tile&, int i, u32 factors, u32 output) {
  const float factor = dev::load_shared<float>(factors + static_cast<u32>(own_row()) * 4u);
  if (i == 0 || !dev::any_in_warp(factor != 1.0f)) return;
  const u32 rows = dev::tensor_lanes(output);
#pragma unroll
  for (int column = 0; column < kOutputs<C>; column += kOutputChunk) {
    float values[kOutputChunk];
    dev::tensor_load(rows + static_cast<u32>(column), values);
    dev::tensor_load_wait<0>();
    dev::hold(values);
#pragma unroll
    for (int j = 0; j < kOutputChunk; ++j) values[j] *= factor;
    dev::tensor_store(rows + static_cast<u32>(column), values);
  }
}

/// Eight values of a row, rounded, at their place.
template <class C>
TJ_DEVICE void store_eight(const Params& params, unsigned short* destination, const float* values) {
  u32 words[4];
#pragma unroll
  for (int b = 0; b < 4; ++b) words[b] = dev::pack(typename C::Element{}, values[2 * b], values[2 * b + 1]);
  dev::store_halves(destination, words, 8, params.wide_stores != 0);
}
/// The same in f32.
template <class C>
TJ_DEVICE void store_eight(const Params& params, float* destination, const float* values) {
  store_floats<8>(params, destination, values);
}

/// The row's output and log-sum-exp, to memory.
template <class C>
TJ_DEVICE void store(Output<C>& context, const Tile& tile, u32 sums, u32 output) {
  const Params& params = context.params;
  const u32 place = sums + static_cast<u32>(own_row()) * 4u;
  const Sink<C> sink(params, tile);
  const float reference = dev::load_shared<float>(place + kRowsPerTensorTile * 4u),
              sum = sink.added(params, reference, dev::load_shared<float>(place));
  const RowEnd<> end(sum);
  const auto mask = mask_of<C>(params);
  const bool gathered = mask.tiles_differ() ? tile.trip_count > 0 : mask.keys > 0;  // some product went there
  const int row = row_of(context, tile);
  const bool inside = row < mask_of<C>(params, tile).queries;
  const auto base = output_row<C>(params, tile, row);
#pragma unroll
  for (int column = 0; column < kOutputs<C>; column += kOutputChunk) {
    float values[kOutputChunk] = {};
    if (gathered) {
      dev::tensor_load(dev::tensor_lanes(output) + static_cast<u32>(column), values);
      dev::tensor_load_wait<0>();
      dev::hold(values);
    }
#pragma unroll
    for (int j = 0; j < kOutputChunk; ++j) values[j] = end.output(values[j]);
#pragma unroll
    for (int j = 0; j < kOutputChunk; j += 8)
      if (inside && column + j < kValueDim<C>) store_eight<C>(params, base + column + j, values + j);
  }
  if (params.lse != nullptr && inside) store_lse<C>(params, tile, row, sink.lse(end.lse(params, reference, sum), sum));
}

}  // namespace tj::ops::fmha
