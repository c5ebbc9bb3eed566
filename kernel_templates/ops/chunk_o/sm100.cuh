// Output of the gated delta rule's chunks on the matrix unit that works in tensor memory: the bodies of the graph's
// nodes that compute.
//
// Decides what one node computes for one item of work (items.cuh). Order, waits, slots, columns and roles come
// from the emitted unit.
//   o = scale * (e^g (q h^T) + p v), p = (q k^T) e^(g of the row - g of the column) up to the diagonal
// Products have the chunk's 64 rows, 16 of them for each of four warps: half of the lanes that a warp reaches. The
// second head of an item has the other half of the same columns. Invariant: a body touches registers of its own
// context, the slots and the columns that it is given, and no row of o but those of its tokens.
#pragma once

#include "ops/chunk_o/load.cuh"
#include "ops/chunk_o/rows.cuh"

namespace tj::ops::chunk_o {

inline constexpr int kHeadLanes = 16;    ///< of a head, of each 32
inline constexpr int kPartColumns = 64;  ///< of a row of o, that are finished at a time

// ---- products -------------------------------------------------------------------------------------------------------
/// Asks the matrix unit; no state of its own.
template <class C_>
struct Product {
  using C = C_;
  TJ_DEVICE Product(const Params&, int) {}
};

/// scores = q k^T: kChunk x kChunk, for all heads.
template <class C>
TJ_DEVICE void qk(Product<C>&, const Tile&, int, u32 tokens, u32 scores) {
  using Steps = dev::MatrixSteps<kSwizzleColumns / kMatrixK, kMatrixK * 2, kMatrixK * 2>;
  constexpr u32 kInstruction = dev::matrix_instruction<kChunk, kChunk, 0>(dev::Bf16{});
  const u64 left = dev::matrix_operand(tokens, 16, kSwizzleAtomBytes),
            right = dev::operand_advance(left, 2 * kChunkBlockBytes);
#pragma unroll
  for (int block = 0; block < kWidth / kSwizzleColumns; ++block)
    dev::matrix_multiply_steps<Steps>(scores, dev::operand_advance(left, block * kChunkBlockBytes),
                                      dev::operand_advance(right, block * kChunkBlockBytes), kInstruction, block != 0);
}

/// states = q h^T: kChunk x kWidth, of one head. h is stored with K contiguous, or with V.
template <class C>
TJ_DEVICE void read_state(u32 tokens, u32 h, u32 states) {
  constexpr u32 kRightBlock =
      C::kStateMn ? kSwizzleColumns * kSwizzleRowBytes : kStateBlockBytes;  // to the next kSwizzleColumns of K
  using Steps = dev::MatrixSteps<kSwizzleColumns / kMatrixK, kMatrixK * 2,
                                 C::kStateMn ? kMatrixK * kSwizzleRowBytes : kMatrixK * 2>;
  constexpr u32 kInstruction = dev::matrix_instruction<kChunk, kWidth, C::kStateMn ? dev::kRightMn : 0>(dev::Bf16{});
  const u64 left = dev::matrix_operand(tokens, 16, kSwizzleAtomBytes),
            right = dev::matrix_operand(h, C::kStateMn ? kStateBlockBytes : 16, kSwizzleAtomBytes);
#pragma unroll
  for (int block = 0; block < kWidth / kSwizzleColumns; ++block)
    dev::matrix_multiply_steps<Steps>(states, dev::operand_advance(left, block * kChunkBlockBytes),
                                      dev::operand_advance(right, block * kRightBlock), kInstruction, block != 0);
}
template <class C>
TJ_DEVICE void qh(Product<C>&, const Tile&, int, u32 tokens, u32 h, u32 states) {
  read_state<C>(tokens, h, states);
}
template <class C>
TJ_DEVICE void qh(Product<C>&, const Tile&, int, u32 tokens, u32 h0, u32 h1, u32 states) {
  read_state<C>(tokens, h0, states);
  read_state<C>(tokens, h1, dev::tensor_place(states, kHeadLanes, 0));
}

/// sums = weights v: kChunk x kWidth, of one head.
TJ_DEVICE void sum_values(u32 weights, u32 v, u32 sums) {
  using Steps = dev::MatrixSteps<kChunk / kMatrixK, 0, kMatrixK * kSwizzleRowBytes>;
  constexpr u32 kInstruction = dev::matrix_instruction<kChunk, kWidth, dev::kRightMn>(dev::Bf16{});
  dev::matrix_multiply_tensor_steps<Steps>(sums, weights, dev::matrix_operand(v, kChunkBlockBytes, kSwizzleAtomBytes),
                                           kInstruction, false);
}
template <class C>
TJ_DEVICE void pv(Product<C>&, const Tile&, int, u32 v, u32 weights, u32 sums) {
  sum_values(weights, v, sums);
}
template <class C>
TJ_DEVICE void pv(Product<C>&, const Tile&, int, u32 v0, u32 v1, u32 weights, u32 sums) {
  sum_values(weights, v0, sums);
  sum_values(dev::tensor_place(weights, kHeadLanes, 0), v1, dev::tensor_place(sums, kHeadLanes, 0));
}

// ---- weights --------------------------------------------------------------------------------------------------------
/// Four warps that make the weights of all heads.
template <class C_>
struct Weigher {
  using C = C_;
  const Params& params;
  Places<C> places;
  float gates[C::kHeads][2];  ///< of tokens lane and lane + 32
  TJ_DEVICE Weigher(const Params& p, int) : params(p), places(p) {}
};

/// The item's gates: asked for here, looked at by weigh().
template <class C>
TJ_DEVICE void fetch(Weigher<C>& weigher, const Tile&, int i) {
  const Place place = weigher.places.at(weigher.params, i);
#pragma unroll
  for (int head = 0; head < C::kHeads; ++head)
    load_gates<C>(weigher.params, place, item_at<C>(weigher.params, i).head + head, weigher.gates[head]);
}

/// See weigh_scores; rounded, as the matrix unit takes a left operand from tensor memory.
template <class C>
TJ_DEVICE void weigh(Weigher<C>& weigher, const Tile&, int, u32 tensor, u32 to) {
  float scores[kChunk / 2];
  dev::tensor_load_fragment(dev::tensor_lanes(tensor), scores);
  dev::tensor_load_wait<0>();
  dev::hold(scores);
#pragma unroll
  for (int head = 0; head < C::kHeads; ++head) {
    const int row0 = first_row();
    float of_row[2] = {};
    if constexpr (C::kGates) {
#pragma unroll
      for (int half = 0; half < 2; ++half) of_row[half] = gate_of_row(weigher.gates[head], row0, half);
    }
    u32 weights[kChunk / 4];
    weigh_scores<C>(scores, weigher.gates[head], of_row, row0, first_column(), weights);
    dev::tensor_store_operand(dev::tensor_place(dev::tensor_lanes(to), head * kHeadLanes, 0), weights);
  }
}

// ---- the result -----------------------------------------------------------------------------------------------------
/// Four warps that finish the rows of all heads.
template <class C_>
struct Finisher {
  using C = C_;
  const Params& params;
  Places<C> places;
  Place place;                ///< of this item
  float gates[C::kHeads][2];  ///< of this thread's rows
  TJ_DEVICE Finisher(const Params& p, int) : params(p), places(p) {}
};

/// Loads the place of the item and the gates of the thread's rows; stage_rows() is the first to look at them.
template <class C>
TJ_DEVICE void fetch_rows(Finisher<C>& finisher, const Tile&, int i) {
  const Params& params = finisher.params;
  const Place place = finisher.place = finisher.places.at(params, i);
  if constexpr (C::kGates) {
    const float* gates = params.gates + place.token * params.gates_stride + item_at<C>(params, i).head;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row() + 8 * half;
#pragma unroll
      for (int head = 0; head < C::kHeads; ++head)
        finisher.gates[head][half] =
            row < place.rows ? dev::load_global(gates + row * params.gates_stride + head) : 0.0f;
    }
  }
}

/// Adds what the state before the chunk gives, faded to each row's token, to what the chunk itself gives. The result is
/// scaled, rounded and stored by store_rows.
template <class C>
TJ_DEVICE void finish_rows(const Finisher<C>& finisher, int head, int i, u32 states, u32 sums, u32 slot) {
  const Params& params = finisher.params;
  float factor[2] = {params.scale, params.scale};
  if constexpr (C::kGates) {
#pragma unroll
    for (int half = 0; half < 2; ++half) factor[half] *= dev::exp2_approx(finisher.gates[head][half] * kLog2E);
  }
#pragma unroll
  for (int part = 0; part < kWidth / kPartColumns; ++part) {
    float before[kPartColumns / 2], within[kPartColumns / 2];
    dev::tensor_load_fragment(dev::tensor_place(dev::tensor_lanes(states), head * kHeadLanes, part * kPartColumns),
                              before);
    dev::tensor_load_fragment(dev::tensor_place(dev::tensor_lanes(sums), head * kHeadLanes, part * kPartColumns),
                              within);
    dev::tensor_load_wait<0>();
    dev::hold(before);
    dev::hold(within);
    u32 words[2][kPartColumns / 8];
#pragma unroll
    for (int j = 0; j < kPartColumns / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = 4 * j + 2 * half;
        words[half][j] = dev::pack(dev::Bf16{}, within[at] * params.scale + before[at] * factor[half],
                                   within[at + 1] * params.scale + before[at + 1] * factor[half]);
      }
    }
    store_rows(params, finisher.place, item_at<C>(params, i).head + head, part * (kPartColumns / 8), words, slot);
  }
}
template <class C>
TJ_DEVICE void stage_rows(Finisher<C>& finisher, const Tile&, int i, u32 states, u32 sums, u32 slot) {
  finish_rows(finisher, 0, i, states, sums, slot);
}
template <class C>
TJ_DEVICE void stage_rows(Finisher<C>& finisher, const Tile&, int i, u32 states, u32 sums, u32 slot0, u32 slot1) {
  finish_rows(finisher, 0, i, states, sums, slot0);
  finish_rows(finisher, 1, i, states, sums, slot1);
}

}  // namespace tj::ops::chunk_o
